"""What the engine needs of a model whose whole rounds run on its device: drafting, verifying, judging.

The host queues a round and reads what became of it later, perhaps when the next one runs already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor

from engine.models.base import Model
from engine.models.sequence_state import SequenceState
from engine.values.sampling import AcceptanceRule, Sampling


@dataclass(frozen=True, slots=True)
class RoundResult:
    """What became of a round.

    ``tokens``: the accepted ones, then the target's own; ``chain``: all that were drafted. ``p`` and
    ``q``: of each drafted token, accepted or not; ``p`` behind the first rejected one means nothing.
    ``next_p`` is that of the last token. ``draft_s``, ``total_s``: the device's seconds for drafting and
    for all of it.
    """

    accepted: int
    tokens: tuple[int, ...]
    chain: tuple[int, ...]
    p: tuple[float, ...]
    q: tuple[float, ...]
    next_p: float
    draft_s: float
    total_s: float


class PendingRound(Protocol):
    """A round that was queued."""

    def read(self) -> RoundResult:
        """Waits for it. Raises ModelError for logits that are no numbers."""


class RoundRunner(Protocol):
    """Runs the rounds of one request after another, over the states it was made with.

    A round begins from what the one before it left on the device. It sets the states' lengths itself,
    so the host's view of them is out of date until ``SequenceState.settle``.
    """

    @property
    def depths(self) -> tuple[int, ...]:
        """How many tokens a round may draft, from 0 on, rising."""

    def begin(
        self,
        sampling: Sampling,
        rule: AcceptanceRule,
        seed: int,
        tokens: Sequence[int],
        prompt_length: int,
    ) -> None:
        """A new request, behind ``tokens``: the target's state holds all but the last one."""

    def put(self, chain: Sequence[int], q: Tensor | None) -> None:
        """A chain for the next round, drafted elsewhere; ``q`` (nodes, vocabulary) if it was drawn."""

    def allow(self, bits: Tensor) -> None:
        """What may follow the text and each token of the chain that was put: int32 (nodes + 1, words), a
        bit for each token, the lowest first."""

    def launch(
        self, depth: int, *, drafts: bool = False, drawn: bool = False, masked: bool = False
    ) -> PendingRound:
        """Queues a round of one of ``depths``; at most two may be unread.

        ``drafts``: the draft model writes the chain, which else was ``put``; ``drawn``: with its q. Such
        a round feeds the draft the last two tokens of the text, whether or not it has them, and all it
        drafts but the last one. ``masked``: by what was allowed.
        """


@runtime_checkable
class RoundModel(Model, Protocol):
    """A model that runs rounds; its rounds fill states without the host."""

    def round_runner(
        self,
        state: SequenceState,
        draft: Model | None = None,
        draft_state: SequenceState | None = None,
        *,
        captures: bool = True,
    ) -> RoundRunner:
        """``draft``: another ``RoundModel`` of the same device, with a state of its own.

        ``captures``: whether rounds may be captured as graphs, where the device has such.
        """
