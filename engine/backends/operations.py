"""The operations that heads are written in, each computed by two executors.

The eager executor (torch/eager.py) computes an operation when it is called, on any device. The traced one
(native/traced.py) notes all operations down once; the compiled step then runs them in one call. So which
operations a head calls must not depend on computed numbers. Values are float32 tensors (rows, width); no
operation changes its inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from engine.kernels.operands import Number, Rows, Tokens
from engine.kernels.torch.linear import Linear
from engine.models.architecture import Architecture
from engine.models.hidden_states import AuxLayer
from engine.noise import Draws

R = TypeVar("R")

_FIRST_ROOM = 256


class Arithmetic(Protocol):
    """Operations on values alone; training uses them as well."""

    def linear(self, linear: Linear, x: Tensor, count: Number | None = None) -> Tensor:
        """``linear`` of the first ``count`` rows of ``x``; None: of all."""

    def norm(
        self,
        x: Tensor,
        epsilon: float,
        *,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        scale: float = 1.0,
    ) -> Tensor:
        """RMS norm, times ``scale`` and ``weight``, plus ``bias``."""

    def add(self, x: Tensor, y: Tensor, scale: float = 1.0) -> Tensor:
        """``x`` and ``scale`` times ``y``; a narrower ``y`` is added to each part of ``x`` as wide."""

    def activate(self, function: str, x: Tensor, times: Tensor | None = None) -> Tensor:
        """``function`` of ``x``, by transformers' name or ``sigmoid``; multiplied by ``times``."""

    def multiply(self, x: Tensor, y: Tensor) -> Tensor:
        """Number by number."""

    def join(self, *parts: Tensor) -> Tensor:
        """``parts`` side by side."""


class Memory(Protocol):
    """Keys and values of a head's own layers for one sequence; grows as they come."""

    def reserve(self, rows: int) -> None:
        """Makes room for ``rows`` in all, keeping what is there."""

    def clear(self) -> None:
        """Frees all."""


class Draft(Protocol):
    """Tokens drafted one by one behind ``chain[0]``; the beginning of a deep draft is a shallow one.

    Either all at once, or step by step with tokens drawn outside.
    """

    chain: Tokens
    """Step k names ``chain[k + 1]``."""
    draws: bool
    """Whether ``write`` can draw tokens, at little cost; else it takes the likeliest only."""

    def read(self) -> None:
        """Runs what stands before the first step alone."""

    def begin(self, pending: int, *, read: bool = True) -> None:
        """A new draft behind ``pending``; ``read``: what stands before the first step is run again."""

    def write(
        self, depth: int, draws: Draws | None = None, floor: float = 0.0
    ) -> tuple[list[int], list[float]]:
        """The first ``depth`` tokens, and their probabilities.

        Each is the likeliest or, with ``draws``, drawn as by ``noise.sample``. They end with one
        that makes all of them together less likely than ``floor``.
        """

    def logits(self, step: int) -> Tensor:
        """float32 (1, vocabulary of the draft), to be read before the next step.

        Steps are asked for in order, and the token that is drawn given to ``choose``.
        """

    def choose(self, step: int, token: int) -> None:
        """What step ``step`` names, for those behind it."""

    def all_logits(self, depth: int) -> Tensor:
        """(depth, vocabulary of the draft), where steps do not depend on the tokens named."""


class Operations(Arithmetic, Protocol):
    """Those that need the target, a memory or a place in the text."""

    chunk: int
    """Rows of a text that are best read at once."""

    def aux_hidden_states(self, aux_layer: AuxLayer, rows: Rows) -> Tensor:
        """The target's hidden states of the tokens at ``rows``."""

    def pick(self, x: Tensor, number: Number) -> Tensor:
        """(1, width): the row of that number."""

    def embed(
        self, table: Tensor | None, tokens: Tokens, first: int = 0, rows: Rows | None = None
    ) -> Tensor:
        """The rows of ``tokens[first]`` and those behind it, or one. None: of the target's table."""

    def target_logits(self, states: Tensor, count: Number) -> Tensor:
        """(count, vocabulary of the target): its output head on normed ``states``."""

    def new_memory(self, architecture: Architecture, device: torch.device) -> Memory:
        """For layers that compute on ``device``."""

    def remember(
        self, made: Tensor, memory: Memory, norms: Tensor, epsilon: float, rows: Rows
    ) -> None:
        """Stores keys and values of all layers, which lie side by side: keys, values, keys, ...

        ``norms`` (layers, kv_heads, head_dim) are weights for the keys, which are then rotated.
        """

    def attend(
        self,
        qkv: Tensor,
        memory: Memory,
        layer: int,
        norms: Tensor | None,
        rows: Rows,
        *,
        causal: bool,
    ) -> Tensor:
        """Attention (rows, heads * head_dim) of scaled queries to what is stored and to these rows.

        Keys and values are stored first, queries and keys normed by ``norms (heads + kv_heads,
        head_dim)`` and rotated. Each row sees all up to itself if ``causal``, else up to the last.
        """

    def unroll(
        self,
        most: int,
        read: Callable[[], R],
        steps: Callable[[Tokens, R], Iterator[Tensor]],
        numbers: Tensor | None = None,
    ) -> Draft:
        """A draft of no more than ``most`` tokens.

        ``read`` makes what the steps begin with. ``steps`` gives the logits (1, vocabulary of the
        draft) of one token after another, and finds those named before in its chain. ``numbers``:
        what the draft's tokens are called in the target's vocabulary; None: as they are counted.
        """


def room_for(rows: int) -> int:
    """How many positions a memory has once it needs so many."""
    return max(_FIRST_ROOM, 1 << (rows - 1).bit_length())
