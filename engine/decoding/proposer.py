"""The protocol of everything that drafts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

from torch import Tensor

from engine.decoding.acceptance import Acceptance
from engine.decoding.context import Context
from engine.decoding.sampling import Sampler
from engine.events import Budget, Tree
from engine.models.base import Model
from engine.models.sequence_state import SequenceState


@dataclass(frozen=True, slots=True)
class DraftProposal:
    """Drafted tokens and how likely the drafter thought them.

    ``q``: (nodes, vocabulary), the distributions the nodes were drawn from, or None when they were
    drafted without chance or no rule weighs it. ``chosen_q``: each node's own probability, for display.
    ``by``: the name of the proposer that drafted, where that is not the one that was asked.
    """

    tree: Tree
    q: Tensor | None
    chosen_q: tuple[float | None, ...]
    by: str | None = None


NOTHING = DraftProposal(Tree(), None, ())


class Proposer(Protocol):
    """Drafts tokens for one sequence at a time; lives as long as the loaded pair.

    ``Options`` is a frozen dataclass of plain settings, each field with a ``help`` in its metadata, and
    ``choices`` where there are few, or a function that names them; ``needs`` names what must be loaded:
    ``draft``, or a kind of head (see ``engine.drafting.heads``).
    """

    Options: ClassVar[type]
    needs: ClassVar[frozenset[str]]

    def begin(self, context: Context, sampler: Sampler) -> None:
        """A new request: ``context`` holds its prompt and will grow; draws go through ``sampler``."""

    def prepare(self, context: Context) -> Iterator[None]:
        """Takes in the prompt, once ``begin`` was called with it; this counts as prefill.

        Yields before each part of the work, where the caller may stop for good, or first have rounds
        that draft nothing.
        """

    def propose(self, context: Context, budget: Budget) -> DraftProposal:
        """Drafts at most ``budget`` after ``context.tokens``; may draft nothing."""

    def observe(self, acceptance: Acceptance) -> None:
        """Learns what became of the last proposal."""

    def close(self) -> None:
        """Releases memory; the proposer is not used again."""


class RoundDraft(Protocol):
    """A draft model that a device's rounds run themselves (see ``engine.models.rounds``)."""

    @property
    def model(self) -> Model:
        """A ``RoundModel``."""

    @property
    def state(self) -> SequenceState:
        """What rounds fill without the host."""

    @property
    def tokens(self) -> Sequence[int]:
        """What the host knows to be in the state."""

    def prepare(self, context: Context) -> Iterator[None]:
        """Reads what it lacks of the text; see ``Proposer``."""

    def set_tokens(self, tokens: Sequence[int]) -> None:
        """Rounds have left these in the state."""


@dataclass(frozen=True, slots=True)
class InRound:
    """Rounds draft without the host: by ``draft``, or nothing at all where that is None."""

    draft: RoundDraft | None = None


@runtime_checkable
class RoundProposer(Protocol):
    """A proposer that the rounds of a device can do the work of; any other drafts on the host."""

    def in_round(self) -> InRound | None:
        """How; None where it has to draft on the host after all."""


@runtime_checkable
class ChoosingProposer(Protocol):
    """A proposer that drafts by one of several, which ``Budget.proposer`` may name."""

    @property
    def members(self) -> Mapping[str, Proposer]: ...

    @property
    def recalls_as(self) -> str:
        """By what name rounds go in which past text drafted."""
