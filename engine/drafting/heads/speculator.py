"""What MLP and LSTM speculators share: a recurrence that starts at the target's last hidden state.

The state begins as that hidden state, behind the final norm. Each step takes in one more token, the
pending one first, and predicts the token after it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from engine.backends.linear_factory import LinearFactory
from engine.backends.operations import Arithmetic, Operations
from engine.drafting.heads.stored import Stored
from engine.kernels.operands import Tokens
from engine.kernels.torch.linear import Linear
from engine.models.hidden_states import NORMED, AuxLayer

EPSILON = 1e-6

State = tuple[Tensor, ...]
"""What a step passes to the next. The output matrix reads the first tensor (rows, width)."""


@dataclass(frozen=True, slots=True)
class Norm:
    """RMS norm with a scale and a shift, both (width,)."""

    weight: Tensor
    bias: Tensor

    @classmethod
    def read(cls, stored: Stored, linears: LinearFactory, name: str) -> Norm:
        """Read the norm called ``name``. Raises ModelError."""
        return cls(*(linears.vector(stored(f"{name}.{part}")) for part in ("weight", "bias")))

    @staticmethod
    def shapes(name: str, width: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of its tensors."""
        return {f"{name}.weight": (width,), f"{name}.bias": (width,)}

    def __call__(self, ops: Arithmetic, x: Tensor) -> Tensor:
        return ops.norm(x, EPSILON, weight=self.weight, bias=self.bias)


@dataclass(frozen=True, slots=True)
class Speculator(ABC):
    """A ``StatelessHead``: the recurrence, without its cell.

    ``steps``: the most tokens it drafts. ``scaled``: the target's hidden state is normed first
    (``scale_input``).
    """

    steps: int
    scaled: bool

    spreads: ClassVar[bool] = False

    @property
    def aux_layers(self) -> tuple[AuxLayer, ...]:
        return (NORMED,)

    @abstractmethod
    def advance(self, ops: Arithmetic, state: State, embedded: Tensor, step: int) -> State:
        """Return the state after tokens whose rows of ``table(step)`` are ``embedded``."""

    @abstractmethod
    def table(self, step: int) -> Tensor:
        """Return the step's embedding table (vocabulary, width of ``embedded``)."""

    @abstractmethod
    def output(self, step: int) -> Linear:
        """Return the step's output matrix, width -> vocabulary."""

    def start(self, ops: Arithmetic, normed: Tensor) -> State:
        """Return the state before the first step, for the target's ``normed (rows, hidden)``."""
        return (ops.norm(normed, EPSILON, scale=2**-0.5) if self.scaled else normed,)

    def draft(self, ops: Operations, chain: Tokens, normed: Tensor) -> Iterator[Tensor]:
        state = self.start(ops, normed)
        for step in range(self.steps):
            state = self.advance(ops, state, ops.embed(self.table(step), chain, step), step)
            yield ops.linear(self.output(step), state[0])

    def token_weight(self, width: int) -> float:
        """Return the weight of a token's embedding relative to a state of ``width``.

        It is w_e / w_s of section 3.1 of arXiv 2404.19124, where w_s^(2 steps) = 1/2 and
        w_e^2 = (1 - w_s^2) width / 2: after the last step half of the state is still the target's.
        """
        w_s = math.pow(0.5, 0.5 / self.steps)
        return math.sqrt((1 - w_s**2) * width / 2) / w_s


def prefix_of(stored: Stored) -> str:
    """Return the prefix of all tensors' names."""
    prefix = "speculator."
    return prefix if any(name.startswith(prefix) for name in stored.shapes) else ""
