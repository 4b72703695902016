"""Sizes of real models, and random weights for them, made on the device when they are read.

No draft can predict a purely random model, so these weights define a text. All tokens form one random
cycle. Embeddings are random, layers add little to them, and the head's row of a token is the embedding
of its predecessor in the cycle: so the most likely token is the next one in the cycle. A draft whose
cycle differs at some tokens is right at all others, so its acceptance is set, and the same for every
engine that runs these weights. The cost of a step does not depend on any of this.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from engine.backends.cuda.decoder import CudaDecoder
from engine.kernels.formats.nf4 import GROUP
from engine.models.architecture import Architecture, Attention, GatedMlp, LayerSpec, Rope
from engine.models.base import ModelInfo
from engine.models.tensor_shapes import Names, tensor_shapes

WIDTHS = {"nf4": 0.5 + 2 / GROUP, "int8": 1.0, "bf16": 2.0}
"""Bytes per weight, by the names of ``--quantization``."""
EPSILON, ROPE_THETA, STD = 1e-6, 500_000.0, 0.02
NAMES = Names()


@dataclass(frozen=True, slots=True)
class Sizes:
    """A Llama, whose head is never tied: so its weights can predict the next token."""

    name: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int = 128_256
    context: int = 2048

    @property
    def architecture(self) -> Architecture:
        width = self.head_dim
        rope = Rope(tuple(ROPE_THETA ** (-2 * pair / width) for pair in range(width // 2)))
        attention = Attention(self.heads, self.kv_heads, width, width**-0.5, rope)
        return Architecture(
            layers=(LayerSpec(attention, GatedMlp(self.intermediate, "silu")),) * self.layers,
            vocabulary=self.vocabulary, hidden=self.hidden, epsilon=EPSILON, tied=False,
        )  # fmt: skip

    def linear_layers(self) -> dict[str, tuple[int, int]]:
        """Return the sizes (out, in) of a layer's fused weights and of the head."""
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        return {
            "qkv": (queries + 2 * keys, self.hidden), "output": (self.hidden, queries),
            "gate_up": (2 * self.intermediate, self.hidden),
            "down": (self.hidden, self.intermediate), "head": (self.vocabulary, self.hidden),
        }  # fmt: skip

    def draft(self) -> Sizes:
        """Return the sizes of a draft: one layer, at most 1024 wide, the whole vocabulary."""
        head_dim, hidden = min(64, self.head_dim), min(1024, self.hidden // 2)
        heads = hidden // head_dim
        return replace(
            self, name=f"draft for {self.name}", hidden=hidden, layers=1, heads=heads,
            kv_heads=max(1, heads // 4), head_dim=head_dim, intermediate=3 * hidden,
        )  # fmt: skip


REAL = (
    Sizes("Llama-3.1-8B", 4096, 32, 32, 8, 128, 14_336),
    Sizes("Llama-3.2-1B", 2048, 16, 32, 8, 64, 8192),
)
TINY = (Sizes("tiny", 64, 1, 2, 1, 32, 64, 128, 128),)
"""To try the whole run without a GPU."""


def random_cycle(vocabulary: int, seed: int) -> Tensor:
    """Return each token's successor in a random cycle of all, so that no text repeats itself."""
    order = torch.randperm(vocabulary, generator=torch.Generator().manual_seed(seed))
    following = torch.empty_like(order)
    following[order] = order.roll(-1)
    return following


def mistaken(following: Tensor, right: float, seed: int) -> Tensor:
    """Return successors that agree with ``following`` at a random share ``right`` of all tokens."""
    count, following = len(following), following.clone()
    # Another generator than the cycle's, whose order would make wrong tokens adjacent in it.
    generator = torch.Generator().manual_seed(zlib.crc32(f"{seed} mistakes".encode()))
    wrong = torch.randperm(count, generator=generator)[: round((1 - right) * count)]
    following[wrong] = following[wrong.roll(1)]
    return following


def after(following: Tensor, token: int, count: int) -> list[int]:
    """Return the ``count`` tokens that follow ``token``."""
    tokens: list[int] = []
    for _ in range(count):
        token = int(following[token])
        tokens.append(token)
    return tokens


class RandomWeights:
    """A ``TensorSource`` in bf16. Seed, name and device determine the numbers."""

    def __init__(self, sizes: Sizes, following: Tensor, seed: int, device: torch.device) -> None:
        self.sizes, self.following, self.seed, self.device = sizes, following, seed, device
        self.shapes = tensor_shapes(sizes.architecture, NAMES)

    def __call__(self, name: str) -> Tensor:
        """Make a tensor. Raise KeyError for a name that such a model does not have."""
        shape = self.shapes[name]
        if len(shape) == 1:
            return torch.ones(shape, dtype=torch.bfloat16, device=self.device)
        if name == NAMES.head:
            before = self.following.argsort()
            return self(NAMES.embedding)[before.to(self.device)].mul_(self.sizes.hidden**-0.5)
        adds = name.endswith(("o_proj.weight", "down_proj.weight"))
        inner = STD * (2 * self.sizes.layers) ** -0.5 if adds else STD
        generator = torch.Generator(self.device)
        generator.manual_seed(zlib.crc32(f"{self.seed} {name}".encode()))
        values = torch.empty(shape, dtype=torch.bfloat16, device=self.device)
        std = 1.0 if name == NAMES.embedding else inner
        return values.normal_(std=std, generator=generator)


def make(weights: RandomWeights, kind: str) -> CudaDecoder:
    """Return a decoder of these weights in the format ``kind``."""
    sizes, on = weights.sizes, str(weights.device)
    size = sizes.vocabulary, sizes.context
    info = ModelInfo(sizes.name, "random", *size, 0, kind, on, frozenset())
    return CudaDecoder(sizes.architecture, NAMES, weights, info, kind)


def of_transformers(weights: RandomWeights) -> Any:
    """Return the same model of transformers, in bf16."""
    from transformers import AutoModelForCausalLM, LlamaConfig

    sizes = weights.sizes
    config = LlamaConfig(
        vocab_size=sizes.vocabulary, hidden_size=sizes.hidden, intermediate_size=sizes.intermediate,
        num_hidden_layers=sizes.layers, num_attention_heads=sizes.heads,
        num_key_value_heads=sizes.kv_heads, head_dim=sizes.head_dim, rms_norm_eps=EPSILON,
        max_position_embeddings=sizes.context, tie_word_embeddings=False, bos_token_id=None,
        rope_parameters={"rope_type": "default", "rope_theta": ROPE_THETA}, eos_token_id=None,
    )  # fmt: skip
    with torch.device(weights.device):
        model: Any = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weights(name))
    model.generation_config.eos_token_id = None
    return model.eval()
