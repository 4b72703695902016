"""Sizes of real models, and the bytes that a step of each reads."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from engine.errors import InvalidRequest
from engine.kernels.formats.nf4 import GROUP
from engine.models.architecture import Architecture, Attention, GatedMlp, LayerSpec, Rope
from engine.models.tensor_shapes import Names, tensor_shapes

WIDTHS = {"bf16": 2.0, "int8": 1.0, "nf4": 0.5 + 2 / GROUP}
"""Bytes per weight, by the names of ``--quantization``."""
NAMES = Names()
EPSILON = 1e-6
ROPE_THETA = 500_000.0


@dataclass(frozen=True, slots=True)
class Shape:
    """A decoder's sizes. The defaults are those that Llama 3.2's models share."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    intermediate: int
    vocabulary: int = 128_256
    head_dim: int = 64
    context: int = 2048


@dataclass(frozen=True, slots=True)
class Sizes:
    """A Llama, or with ``qk_norm`` a Qwen 3.

    The output head is never tied to the embedding: a step reads as much, and the head's weights can
    then predict the next token (weights.py).
    """

    name: str
    shape: Shape
    qk_norm: bool = False

    @property
    def architecture(self) -> Architecture:
        s = self.shape
        rates = tuple(ROPE_THETA ** (-2 * pair / s.head_dim) for pair in range(s.head_dim // 2))
        attention = Attention(
            s.heads, s.kv_heads, s.head_dim, s.head_dim**-0.5, Rope(rates), qk_norm=self.qk_norm
        )
        return Architecture(
            layers=(LayerSpec(attention, GatedMlp(s.intermediate, "silu")),) * s.layers,
            vocabulary=s.vocabulary,
            hidden=s.hidden,
            epsilon=EPSILON,
            tied=False,
        )

    @property
    def parameters(self) -> int:
        """The number of parameters, with embedding and head."""
        return sum(math.prod(size) for size in tensor_shapes(self.architecture, NAMES).values())

    def weight_bytes(self, kind: str) -> int:
        """Return the bytes of all weights."""
        return int(self.parameters * WIDTHS[kind])

    def read_bytes(self, kind: str, past: int) -> int:
        """Return the bytes that a step after ``past`` tokens reads, with a bf16 cache."""
        s = self.shape
        read = (self.parameters - s.vocabulary * s.hidden) * WIDTHS[kind]
        return int(read) + 2 * s.layers * s.kv_heads * s.head_dim * 2 * past

    def linear_layers(self) -> dict[str, tuple[int, int]]:
        """Return the sizes (out, in) of a layer's fused weights and of the head."""
        s = self.shape
        queries, keys = s.heads * s.head_dim, s.kv_heads * s.head_dim
        return {
            "qkv": (queries + 2 * keys, s.hidden),
            "output": (s.hidden, queries),
            "gate_up": (2 * s.intermediate, s.hidden),
            "down": (s.hidden, s.intermediate),
            "head": (s.vocabulary, s.hidden),
        }

    def draft(self) -> Sizes:
        """Return the sizes of a draft: one layer, at most 1024 wide, the whole vocabulary."""
        head_dim = min(64, self.shape.head_dim)
        hidden = min(1024, self.shape.hidden // 2)
        heads = hidden // head_dim
        return Sizes(
            f"1-layer draft for {self.name}",
            replace(
                self.shape,
                hidden=hidden,
                layers=1,
                heads=heads,
                kv_heads=max(1, heads // 4),
                intermediate=3 * hidden,
                head_dim=head_dim,
            ),
        )


_LLAMA_1B = Shape(hidden=2048, layers=16, heads=32, kv_heads=8, intermediate=8192)
_LLAMA_8B = Shape(hidden=4096, layers=32, heads=32, kv_heads=8, intermediate=14_336, head_dim=128)
REAL = (
    Sizes("Llama-3.2-1B", _LLAMA_1B),
    Sizes("Llama-3.1-8B", _LLAMA_8B),
    Sizes(
        "Qwen3-8B",
        replace(_LLAMA_8B, layers=36, intermediate=12_288, vocabulary=151_936),
        qk_norm=True,
    ),
    Sizes(
        "Qwen3-32B",
        Shape(
            hidden=5120, layers=64, heads=64, kv_heads=8, intermediate=25_600,
            vocabulary=151_936, head_dim=128,
        ),
        qk_norm=True,
    ),
)  # fmt: skip
"""In the order of the run, from the smallest."""

_TINY = Shape(
    hidden=128, layers=2, heads=4, kv_heads=2, intermediate=256, vocabulary=512, head_dim=32,
    context=512,
)  # fmt: skip
REHEARSAL = (Sizes("tiny-llama", _TINY), Sizes("tiny-qwen", replace(_TINY, layers=3), qk_norm=True))
"""For the CPU, to try the whole run."""


def choose(names: list[str], known: tuple[Sizes, ...]) -> tuple[Sizes, ...]:
    """Return the named ones of ``known``, in its order; all without names. Raise InvalidRequest."""
    by_name = {sizes.name.lower(): sizes for sizes in known}
    for name in names:
        if name.lower() not in by_name:
            listed = ", ".join(sizes.name for sizes in known)
            raise InvalidRequest("shape", f"shape is {name!r}; known here are {listed}.")
    wanted = {name.lower() for name in names} or set(by_name)
    return tuple(sizes for name, sizes in by_name.items() if name in wanted)
