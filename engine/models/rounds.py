"""The protocols of a model whose whole rounds run on its device: draft, verify, accept.

The host queues a round and reads its result later, perhaps while the next one runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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


class RoundDrafter(Protocol):
    """Drafts inside rounds, by operations of the device alone: a draft model or a head.

    steps    the most tokens that it drafts
    spreads  in a tree, a token may follow any of the step before, not the first choice alone
    context  tokens of the longest text that it drafts for
    changed  what a round changes that later rounds read, but for rows of states
    """

    steps: int
    spreads: bool
    context: int

    @property
    def changed(self) -> Sequence[Tensor]: ...

    def draft(self, text: Tensor, length: Tensor, drafted: Tensor, depth: int) -> Iterator[Tensor]:
        """Yield the logits (1, vocabulary) of each of ``depth`` tokens.

        ``text`` int64 (2,) are the last two of ``length`` int64 (1,) tokens. The caller writes each token
        to ``drafted`` int32 before it asks for the next logits.
        """

    def read(self, start: Tensor, emitted: Tensor, accepted: Tensor) -> None:
        """Read what the target has verified from position ``start`` int32 (1,) on.

        ``emitted`` int64 (rows,) are the tokens one position later. Of these, ``accepted`` int32 (1,) and
        one more belong to the text.
        """


class RoundRunner(Protocol):
    """Runs the rounds of one request after another on its sequence states.

    A round continues from the results of the previous one on the device, and sets the states' lengths
    there; the host's are out of date until ``SequenceState.settle``.
    """

    @property
    def depths(self) -> tuple[int, ...]:
        """The numbers of tokens that a round may draft, from 0 on, ascending."""

    def prepare(self) -> str:
        """Compile and capture the usual rounds, so that no reply waits for it. Return why some could not
        be captured, which run without a graph, slower; else ""."""

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

    def put(
        self, drafted: Sequence[int], q: Tensor | None, parents: Sequence[int] | None = None
    ) -> None:
        """Set what the next round verifies, drafted elsewhere: a chain, with ``q`` (nodes, vocabulary) if
        it was sampled; or a tree, if the rule does not weigh q: ``parents`` as in ``TreeModel``."""

    def prepare_trees(self, nodes: int) -> None:
        """Compile and capture rounds of this request that draft trees of ``nodes`` tokens."""

    def allow(self, bits: Tensor) -> None:
        """Set the tokens that may follow the text and each token that was put: int32 (nodes + 1, words),
        one bit for each token, the lowest first."""

    def launch(
        self,
        depth: int,
        *,
        drafts: bool = False,
        sampled: bool = False,
        masked: bool = False,
        tree: bool = False,
        levels: int = 0,
        logits: Tensor | None = None,
    ) -> PendingRound:
        """Queue a round of one of ``depths``; at most two may be unread.

        drafts  the drafter drafts the chain; otherwise what was ``put`` is verified. A draft
                model computes the last two tokens of the text, cached or not, and its draft but the last.
                A head must have read the text; it reads what was verified
        sampled the chain is drawn, with its q
        masked  by the tokens that were allowed
        tree    of ``depth`` tokens, ``put`` or drafted, in place of a chain. The round moves the rows of
                the accepted path to where those of a chain would be
        levels  the steps of the drafter from which it drafts a tree
        logits  of the pending token and what was ``put``, computed elsewhere; None: the round computes
                them
        """


@runtime_checkable
class RoundModel(Model, Protocol):
    """A model that runs rounds, which fill states without the host."""

    def round_runner(
        self,
        state: SequenceState,
        drafter: RoundDrafter | None = None,
        *,
        captures: bool = True,
    ) -> RoundRunner:
        """Return a runner. ``drafter`` is on the same device.

        ``captures``: True if rounds may be captured as graphs, on a device that has them.
        """

    def round_drafter(self, state: SequenceState) -> RoundDrafter:
        """Return what drafts with this model and its ``state`` inside the rounds of another."""

    def head_operations(self, state: SequenceState) -> object | None:
        """Return ``Operations`` of heads that read this model in ``state``, on its device.

        Their drafts run inside rounds. None if there are none.
        """
