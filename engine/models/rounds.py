"""The protocols of a model whose whole rounds run on its device: draft, verify, accept.

The host queues a round and reads its result later, perhaps while the next one runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from torch import Tensor

from engine.models.base import Model
from engine.models.sequence_state import SequenceState
from engine.values import RoundResult
from engine.values.sampling import AcceptanceRule, Sampling


class PendingRound(Protocol):
    """A queued round."""

    def read(self) -> RoundResult:
        """Wait for the round and return its result. Raises ModelError for logits that are not finite."""


class RoundRunner(Protocol):
    """Runs the rounds of one request after another on its sequence states.

    A round continues from the results of the previous one on the device, and sets the states' lengths
    there; the host's are out of date until ``SequenceState.settle``.
    """

    @property
    def depths(self) -> tuple[int, ...]:
        """The numbers of tokens that a round may draft, from 0 on, ascending."""

    def prepare(self) -> None:
        """Compile and capture the usual rounds, so that no reply waits for it."""

    def begin(
        self,
        sampling: Sampling,
        rule: AcceptanceRule,
        seed: int,
        tokens: Sequence[int],
        prompt_length: int,
        bias: Sequence[tuple[int, float]] = (),
        top_tokens: int = 0,
    ) -> None:
        """Begin a request after ``tokens``; the target's state holds all but the last one.

        ``bias``: tokens and what is added to their logits. ``top_tokens``: how many most likely tokens
        the results have for each token.
        """

    def put(self, chain: Sequence[int], q: Tensor | None) -> None:
        """Set the next round's chain, drafted elsewhere; ``q`` (nodes, vocabulary) if it was sampled."""

    def allow(self, bits: Tensor) -> None:
        """Set the tokens that may follow the text and each token of the chain that was put: int32
        (nodes + 1, words), one bit for each token, the lowest first."""

    def launch(
        self,
        depth: int,
        *,
        drafts: bool = False,
        drawn: bool = False,
        masked: bool = False,
        logits: Tensor | None = None,
    ) -> PendingRound:
        """Queue a round of one of ``depths``; at most two may be unread.

        drafts  the draft model drafts the chain; otherwise the chain that was ``put`` is verified. The
                draft computes the last two tokens of the text, cached or not, and its draft but the last
        drawn   the chain is sampled, with its q
        masked  by the tokens that were allowed
        logits  of the pending token and the chain that was ``put``, computed elsewhere; None: the round
                computes them
        """


@runtime_checkable
class RoundModel(Model, Protocol):
    """A model that runs rounds, which fill states without the host."""

    def round_runner(
        self,
        state: SequenceState,
        draft: Model | None = None,
        draft_state: SequenceState | None = None,
        *,
        captures: bool = True,
    ) -> RoundRunner:
        """Return a runner. ``draft``: another ``RoundModel`` on the same device, with a state of its own.

        ``captures``: True if rounds may be captured as graphs, on a device that has them.
        """
