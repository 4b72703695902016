"""Heads that read one hidden state of the target and keep nothing: medusa, mlp, lstm."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Protocol

from torch import Tensor

from engine.backends.operations import Draft, Operations
from engine.kernels.operands import Number, Rows, Tokens
from engine.models.hidden_states import NORMED


class StatelessHead(Protocol):
    @property
    def steps(self) -> int:
        """Most tokens it drafts."""

    def draft(self, ops: Operations, chain: Tokens, normed: Tensor) -> Iterator[Tensor]:
        """Logits (1, vocabulary) of each token behind ``chain[0]``, the pending one.

        ``normed (1, hidden)`` is the target's hidden state behind the final norm, of the token before.
        Step k finds the tokens named before it in ``chain[: k + 1]``.
        """


class StatelessDraft:
    """What drafts for one sequence."""

    def __init__(self, head: StatelessHead, ops: Operations) -> None:
        self._last = Number()
        last = Rows(Number(1), self._last)
        self.draft = ops.unroll(
            head.steps, lambda: ops.aux_hidden_states(NORMED, last), partial(head.draft, ops)
        )

    def begin(self, read: int, pending: int) -> Draft:
        """A draft behind ``pending``, where the target has read ``read`` tokens."""
        self._last.value = read - 1
        self.draft.begin(pending)
        return self.draft
