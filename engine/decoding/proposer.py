"""The protocol of proposers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

from torch import Tensor

from engine.decoding.acceptance import Acceptance
from engine.decoding.context import Context
from engine.decoding.sampling import Sampler
from engine.events import Budget, Tree
from engine.models.rounds import RoundDrafter


@dataclass(frozen=True, slots=True)
class DraftProposal:
    """Drafted tokens with their draft probabilities.

    ``q``: (nodes, vocabulary), the distributions the nodes were drawn from; None if they were not drawn
    at random, or if the rule does not use q. ``chosen_q``: each node's own probability, for display.
    ``by``: the proposer that drafted, if another one did.
    """

    tree: Tree
    q: Tensor | None
    chosen_q: tuple[float | None, ...]
    by: str | None = None


NOTHING = DraftProposal(Tree(), None, ())


class Proposer(Protocol):
    """Drafts tokens for one sequence at a time. It lives as long as the loaded pair.

    ``Options`` is a frozen dataclass of settings. The metadata of each field has a ``help``, and
    ``choices`` (or a function that returns them) or ``range`` (smallest, largest) if these are limited.
    ``needs`` names what must be loaded: ``draft``, or a kind of head (see ``engine.drafting.heads``).
    """

    Options: ClassVar[type]
    needs: ClassVar[frozenset[str]]

    def begin(self, context: Context, sampler: Sampler) -> None:
        """Start a request. ``context`` holds its prompt and will grow; ``sampler`` draws tokens."""

    def prepare(self, context: Context) -> Iterator[int]:
        """Prefill the text, after ``begin``.

        Yields before each chunk the tokens that a model still has to prefill. The caller may stop there,
        or first run rounds without a draft.
        """

    def propose(self, context: Context, budget: Budget) -> DraftProposal:
        """Draft at most ``budget`` after ``context.tokens``; possibly nothing."""

    def observe(self, acceptance: Acceptance) -> None:
        """Learn what was accepted of the last proposal."""

    def close(self) -> None:
        """Release memory. The proposer is not used again."""


class RoundDraft(Protocol):
    """What drafts inside a device's rounds, as the host sees it (see ``engine.models.rounds``)."""

    @property
    def drafter(self) -> RoundDrafter:
        """The same as the device sees it. Rounds fill its state without the host."""

    @property
    def tokens(self) -> Sequence[int]:
        """The content keys of the tokens that the host knows to be in its state (see ``Prompt``)."""

    def is_ready(self, context: Context) -> bool:
        """Return whether it has read enough of a new text for the first round."""

    def read_text(self, context: Context) -> None:
        """Read all of the text that a round does not read itself."""

    def set_tokens(self, keys: Sequence[int]) -> None:
        """Note that rounds have left the tokens with these keys in the state."""


@dataclass(frozen=True, slots=True)
class DeviceDrafting:
    """Rounds draft on the device with ``draft``; None: they draft nothing.

    ``tree_nodes``: the tokens of the trees that they draft; 0: they draft chains.
    """

    draft: RoundDraft | None = None
    tree_nodes: int = 0


@runtime_checkable
class RoundProposer(Protocol):
    """A proposer that may run inside a device's rounds; others draft on the host."""

    def device_drafting(self) -> DeviceDrafting | None:
        """Return how it drafts there; None if it must draft on the host."""


@runtime_checkable
class ChoosingProposer(Protocol):
    """A proposer that chooses among several, one of which ``Budget.proposer`` may name."""

    @property
    def members(self) -> Mapping[str, Proposer]: ...

    @property
    def recall_name(self) -> str:
        """The name under which rounds drafted from past text are counted."""
