"""Random weights, made on the device as they are asked for, by the names of a checkpoint's tensors.

A random model has no draft that knows it, so this one is made with something to know. All tokens stand
in one random circle. Embeddings are random, layers add little to them, and the head's row of a token is
the embedding of the one before it in the circle: so the likeliest token is the next one. A draft with a
circle that differs at some tokens is right at all others: its acceptance is set, and every engine that
runs these weights meets the same. What a step costs does not depend on any of this.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.models.architecture import Architecture
from engine.models.weights import tensor_shapes
from tools.gpu_bench.shapes import NAMES

STD = 0.02
"""Of a layer's weights, as models begin their training."""


@dataclass(frozen=True, slots=True)
class Circle:
    """``following (vocabulary,)``: the token that comes after each."""

    following: Tensor

    @classmethod
    def random(cls, vocabulary: int, seed: int) -> Circle:
        """All tokens in one circle, so that no text repeats itself."""
        order = torch.randperm(vocabulary, generator=torch.Generator().manual_seed(seed))
        following = torch.empty_like(order)
        following[order] = order.roll(-1)
        return cls(following)

    def mistaken(self, right: float, seed: int) -> Circle:
        """One that agrees at the share ``right`` of all tokens, chosen by chance."""
        vocabulary = len(self.following)
        # Not the generator of the circle: its order would make all that is wrong stand together.
        generator = torch.Generator().manual_seed(zlib.crc32(f"{seed} mistakes".encode()))
        chosen = torch.randperm(vocabulary, generator=generator)
        wrong = chosen[: round((1 - right) * vocabulary)]
        following = self.following.clone()
        following[wrong] = self.following[wrong.roll(1)]
        return Circle(following)

    def before(self) -> Tensor:
        """(vocabulary,): the token that comes before each."""
        found = torch.empty_like(self.following)
        found[self.following] = torch.arange(len(self.following))
        return found

    def after(self, token: int, count: int) -> list[int]:
        """The ``count`` tokens that follow ``token``."""
        tokens = []
        for _ in range(count):
            token = int(self.following[token])
            tokens.append(token)
        return tokens


class RandomWeights:
    """A ``TensorSource`` in bf16. The same seed, name and device, the same numbers."""

    def __init__(
        self, architecture: Architecture, circle: Circle, seed: int, device: torch.device
    ) -> None:
        self.architecture, self.circle, self.seed, self.device = architecture, circle, seed, device
        self.shapes = tensor_shapes(architecture, NAMES)
        self.inner = STD * (2 * len(architecture.layers)) ** -0.5

    def __call__(self, name: str) -> Tensor:
        """Raises KeyError for a name that such a model has not."""
        shape = self.shapes[name]
        if len(shape) == 1:
            return torch.ones(shape, dtype=torch.bfloat16, device=self.device)
        if name == NAMES.head:
            rows = self(NAMES.embedding)[self.circle.before().to(self.device)]
            return rows.mul_(self.architecture.hidden**-0.5)
        adds = name.endswith(("o_proj.weight", "down_proj.weight"))
        std = 1.0 if name == NAMES.embedding else self.inner if adds else STD
        generator = torch.Generator(self.device)
        generator.manual_seed(zlib.crc32(f"{self.seed} {name}".encode()))
        values = torch.empty(shape, dtype=torch.bfloat16, device=self.device)
        return values.normal_(std=std, generator=generator)
