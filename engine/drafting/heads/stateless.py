"""Heads that read one hidden state of the target and keep no state: medusa, mlp, lstm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from engine.backends.operations import Draft, Operations
from engine.drafting.heads.base import HeadPlan, TargetShape, check_fits, count_parameters
from engine.drafting.heads.stored import Stored
from engine.kernels.operands import Number, Rows, Tokens
from engine.models.hidden_states import NORMED


class StatelessHead(Protocol):
    @property
    def steps(self) -> int:
        """The most tokens it drafts."""

    @property
    def spreads(self) -> bool:
        """Whether no step reads ``chain``; see ``RoundDrafter``."""

    def draft(self, ops: Operations, chain: Tokens, normed: Tensor) -> Iterator[Tensor]:
        """Yield the logits (1, vocabulary) of each token after ``chain[0]``, the pending one.

        ``normed (1, hidden)`` is the target's hidden state behind the final norm, of the token before
        the pending one. Step k reads the tokens in ``chain[: k + 1]``.
        """


def stateless_plan(
    kind: str,
    stored: Stored,
    target: TargetShape,
    tensors: Mapping[str, tuple[int, ...]],
    *,
    hidden: int,
    vocabulary: int,
    shape: Any,
    steps: int,
) -> HeadPlan:
    """Return the plan of a head that reads ``tensors``. Raises ModelError or IncompatiblePair."""
    stored.expect(tensors)
    check_fits(stored, target, hidden=hidden, vocabulary=vocabulary)
    return HeadPlan(kind, stored, (NORMED,), count_parameters(tensors), shape, steps=steps)


class StatelessDraft:
    """Drafts for one sequence."""

    def __init__(self, head: StatelessHead, ops: Operations) -> None:
        self._last = Number()
        last = Rows(Number(1), self._last)
        self.draft = ops.unroll(
            head.steps, lambda: ops.aux_hidden_states(NORMED, last), partial(head.draft, ops)
        )
        self.steps, self.spreads = head.steps, head.spreads
        self.drafter = ops.round_drafter(self)

    def begin(self, read: int, pending: int) -> Draft:
        """Begin a draft after ``pending``, where the target has read ``read`` tokens."""
        self._last.value = read - 1
        self.draft.begin(pending)
        return self.draft

    def places(self, device: torch.device) -> Sequence[Tensor]:
        """See ``RoundHead``: a draft reads what ``read`` has read, no operand."""
        return ()

    def place(self, start: Tensor, emitted: Tensor, accepted: Tensor) -> None:
        """See ``RoundHead``."""
        self._last.on(start.device).copy_(start + accepted)

    def begin_round(self, depth: int, pending: Tensor) -> None:
        """Do nothing: the chain is all that a draft reads."""

    def on_target(self, logits: Tensor) -> Tensor:
        """Return ``logits``, which are over the target's vocabulary."""
        return logits
