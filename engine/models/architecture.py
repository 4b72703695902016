"""What a decoder computes, as values: read from config.json by a family, executed by a backend.

A field says what a layer does, never whose it is. So a family is a function that fills an
``Architecture`` in, and a backend has one forward pass.

To add a field: give it a default that leaves a decoder as it was. Every backend then refuses whoever
sets it, until it lists the field among the features that it computes (engine/backends/support.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary positions: pair i of a head is rotated by ``frequencies[i]`` radians a position.

    Fewer frequencies than half the head's width leave the rest of the head as it is. ``magnitude``
    multiplies what is rotated (YaRN and LongRoPE sharpen attention this way).
    """

    frequencies: tuple[float, ...]
    magnitude: float = 1.0


@dataclass(frozen=True, slots=True)
class Attention:
    """Grouped-query attention (Ainslie et al. 2023, arXiv 2305.13245)."""

    heads: int
    kv_heads: int
    head_dim: int
    query_scale: float
    """Multiplies the scores; head_dim ** -0.5 in most models."""
    rope: Rope | None
    """None: the layer knows no positions (NoPE)."""
    window: int | None = None
    """Positions that a row sees, itself included; None: all of the past."""
    qkv_bias: bool = False
    output_bias: bool = False
    qk_norm: bool = False
    """Queries and keys are normalised per head before RoPE."""
    score_cap: float | None = None
    """Scores s become cap * tanh(s / cap)."""


@dataclass(frozen=True, slots=True)
class GatedDeltaNet:
    """A linear attention whose state forgets and corrects itself (Yang, Kautz, Hatamizadeh 2024, arXiv
    2412.06464), behind a causal convolution over ``kernel`` positions, as Qwen3-Next and 3.5 have it.

    Each key head serves ``value_heads / key_heads`` value heads that stand next to each other.
    """

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    kernel: int


@dataclass(frozen=True, slots=True)
class GatedMlp:
    """down(activation(gate(x)) * up(x)), ``intermediate`` wide inside (Shazeer 2020)."""

    intermediate: int
    activation: str
    """Transformers' name of the gate's function."""
    bias: bool = False


@dataclass(frozen=True, slots=True)
class LayerSpec:
    """A layer: a mixer, through which a row sees the rows before it, then a feed-forward."""

    mixer: Attention | GatedDeltaNet
    feed_forward: GatedMlp

    @property
    def attention(self) -> Attention:
        """The mixer of a layer that is known to attend. Raises TypeError for another."""
        if not isinstance(self.mixer, Attention):
            raise TypeError(f"a layer has {type(self.mixer).__name__}, no attention")
        return self.mixer


@dataclass(frozen=True, slots=True)
class Architecture:
    """A pre-norm decoder: embedding, layers, final norm and output head."""

    layers: tuple[LayerSpec, ...]
    vocabulary: int
    hidden: int
    epsilon: float
    tied: bool
    """The output head is the embedding."""

    joined: bool = False
    """The file holds qkv_proj and gate_up_proj instead of their parts."""
    centred_norms: bool = False
    """Norms multiply by 1 + weight."""
    sandwich_norms: bool = False
    """The results of mixers and feed-forwards are normalised too, before they are added."""
    embedding_scale: float = 1.0
    logit_cap: float | None = None
    """Logits l become cap * tanh(l / cap)."""

    @property
    def attentions(self) -> tuple[Attention, ...]:
        """The mixers of the layers that attend, in order."""
        return tuple(spec.mixer for spec in self.layers if isinstance(spec.mixer, Attention))


SIZES = frozenset(
    {
        "layers", "vocabulary", "hidden", "epsilon", "layers.feed_forward.intermediate",
        "layers.mixer.rope.frequencies", "layers.mixer.query_scale",
        *(f"layers.mixer.{name}" for name in (
            "heads", "kv_heads", "head_dim", "key_heads", "value_heads", "key_dim", "value_dim", "kernel",
        )),
    }
)  # fmt: skip
"""Numbers of every decoder, by ``features``' names. Which of them it takes, a backend says itself."""

KINDS = "layers.mixer", "layers.feed_forward"
"""Fields whose type says what is computed."""


def features(architecture: Architecture) -> frozenset[str]:
    """Return what the model needs beyond sizes: the fields that differ from their defaults.

    A name is the path of the field, as ``layers.mixer.window``. The value follows where the field names a
    function, as ``layers.feed_forward.activation=silu``, and the type where it has several, as
    ``layers.mixer=GatedDeltaNet``. A field without a default is needed unless it is None or False.
    """
    return frozenset(_features(architecture, ""))


def _features(value: object, prefix: str) -> Iterator[str]:
    for field in fields(value):  # type: ignore[arg-type]  # a dataclass
        name, setting = prefix + field.name, getattr(value, field.name)
        neutral = (None, False) if field.default is MISSING else (field.default,)
        if name in KINDS:
            yield f"{name}={type(setting).__name__}"
        elif name not in SIZES and setting not in neutral:
            yield f"{name}={setting}" if isinstance(setting, str) else name
        for part in setting if isinstance(setting, tuple) else (setting,):
            if is_dataclass(part):
                yield from _features(part, f"{name}.")
