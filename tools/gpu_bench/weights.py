"""Random weights by the names of a checkpoint's tensors, made on the device when they are read.

No draft can predict a purely random model, so these weights define a text. All tokens form one random
cycle. Embeddings are random, layers add little to them, and the head's row of a token is the embedding
of its predecessor in the cycle: so the most likely token is the next one in the cycle. A draft whose
cycle differs at some tokens is right at all others, so its acceptance is set, and the same for every
engine that runs these weights. The cost of a step does not depend on any of this.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.models.architecture import Architecture
from engine.models.tensor_shapes import tensor_shapes
from tools.gpu_bench.shapes import NAMES

STD = 0.02
"""The standard deviation of a layer's weights, as models are initialised for training."""


@dataclass(frozen=True, slots=True)
class TokenCycle:
    """A cyclic order of all tokens. ``following (vocabulary,)``: each token's successor."""

    following: Tensor

    @classmethod
    def random(cls, vocabulary: int, seed: int) -> TokenCycle:
        """Return a random order of all tokens in one cycle, so that no text repeats itself."""
        order = torch.randperm(vocabulary, generator=torch.Generator().manual_seed(seed))
        following = torch.empty_like(order)
        following[order] = order.roll(-1)
        return cls(following)

    def mistaken(self, right: float, seed: int) -> TokenCycle:
        """Return an order that agrees at a random share ``right`` of all tokens."""
        vocabulary = len(self.following)
        # Another generator than the cycle's, whose order would make wrong tokens adjacent in it.
        generator = torch.Generator().manual_seed(zlib.crc32(f"{seed} mistakes".encode()))
        chosen = torch.randperm(vocabulary, generator=generator)
        wrong = chosen[: round((1 - right) * vocabulary)]
        following = self.following.clone()
        following[wrong] = self.following[wrong.roll(1)]
        return TokenCycle(following)

    def before(self) -> Tensor:
        """Return each token's predecessor: (vocabulary,)."""
        before = torch.empty_like(self.following)
        before[self.following] = torch.arange(len(self.following))
        return before

    def after(self, token: int, count: int) -> list[int]:
        """Return the ``count`` tokens that follow ``token``."""
        tokens = []
        for _ in range(count):
            token = int(self.following[token])
            tokens.append(token)
        return tokens


class RandomWeights:
    """A ``TensorSource`` in bf16. Seed, name and device determine the numbers."""

    def __init__(
        self, architecture: Architecture, cycle: TokenCycle, seed: int, device: torch.device
    ) -> None:
        self.architecture, self.cycle, self.seed, self.device = architecture, cycle, seed, device
        self.shapes = tensor_shapes(architecture, NAMES)
        self.inner = STD * (2 * len(architecture.layers)) ** -0.5

    def __call__(self, name: str) -> Tensor:
        """Make a tensor. Raise KeyError for a name that such a model does not have."""
        shape = self.shapes[name]
        if len(shape) == 1:
            return torch.ones(shape, dtype=torch.bfloat16, device=self.device)
        if name == NAMES.head:
            rows = self(NAMES.embedding)[self.cycle.before().to(self.device)]
            return rows.mul_(self.architecture.hidden**-0.5)
        adds = name.endswith(("o_proj.weight", "down_proj.weight"))
        std = 1.0 if name == NAMES.embedding else self.inner if adds else STD
        generator = torch.Generator(self.device)
        generator.manual_seed(zlib.crc32(f"{self.seed} {name}".encode()))
        values = torch.empty(shape, dtype=torch.bfloat16, device=self.device)
        return values.normal_(std=std, generator=generator)
