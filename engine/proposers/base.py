"""The protocol of everything that drafts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from torch import Tensor

from engine.acceptance import Acceptance
from engine.context import Context
from engine.events import Budget, Tree
from engine.models.base import Model
from engine.sampling import Sampler


@dataclass(frozen=True, slots=True)
class DraftProposal:
    """Drafted tokens and how likely the drafter thought them.

    ``q``: (nodes, vocabulary), the distributions the nodes were drawn from, or None when they were
    drafted without chance. ``chosen_q``: each node's own probability, for display.
    """

    tree: Tree
    q: Tensor | None
    chosen_q: tuple[float | None, ...]


NOTHING = DraftProposal(Tree(), None, ())


@dataclass(frozen=True, slots=True)
class Resources:
    """What a loaded pair offers to proposers.

    ``remembered`` is a folder for what they learn about this target; without one they forget it.
    """

    draft: Model | None = None
    remembered: Path | None = None


class Proposer(Protocol):
    """Drafts tokens for one sequence at a time; lives as long as the loaded pair.

    ``Options`` is a frozen dataclass of plain settings, each field with a ``help`` in its metadata;
    ``needs`` names the attributes of ``Resources`` that must be there.
    """

    Options: ClassVar[type]
    needs: ClassVar[frozenset[str]]

    def begin(self, context: Context, sampler: Sampler) -> None:
        """A new request: ``context`` holds its prompt and will grow; draws go through ``sampler``."""

    def prepare(self, context: Context) -> Iterator[None]:
        """Takes in the prompt, once ``begin`` was told of it; this counts as prefill.

        Yields before each part of the work, where the caller may stop for good.
        """

    def propose(self, context: Context, budget: Budget) -> DraftProposal:
        """Drafts at most ``budget`` after ``context.tokens``; may draft nothing."""

    def observe(self, acceptance: Acceptance) -> None:
        """Learns what became of the last proposal."""

    def close(self) -> None:
        """Releases memory; the proposer is not used again."""
