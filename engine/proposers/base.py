"""The protocol of everything that drafts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol, TypeVar

from torch import Tensor

from engine.acceptance import Acceptance
from engine.across.vocabulary_map import VocabularyMap
from engine.context import Context
from engine.events import Budget, Tree
from engine.features import Backbone, Tap, joined
from engine.heads.base import Head
from engine.models.base import Model
from engine.sampling import Sampler

DRAFT = "draft"
"""The need of a proposer that runs a draft model."""

H = TypeVar("H", bound=Head)


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


@dataclass(frozen=True, slots=True)
class Resources:
    """What a loaded pair offers to proposers.

    ``vocabularies`` says what the draft's tokens are in the target's vocabulary; None: the same.
    ``heads`` by their kind; ``backbone`` is the target as they see it, tapped at ``taps``.
    ``remembered`` is a folder for what they learn about this target; without one they forget it.
    """

    draft: Model | None = None
    vocabularies: VocabularyMap | None = None
    remembered: Path | None = None
    heads: Mapping[str, Head] = field(default_factory=dict)
    backbone: Backbone | None = None

    @property
    def taps(self) -> tuple[Tap, ...]:
        """The hidden states of the target that the heads read."""
        return joined(tap for head in self.heads.values() for tap in head.taps)

    def has(self, need: str) -> bool:
        """Whether a proposer's need is met: ``draft``, or a kind of head."""
        return self.draft is not None if need == DRAFT else need in self.heads

    def head(self, kind: type[H]) -> tuple[H, Backbone]:
        """The loaded head of a class, and what it reads; for proposers whose ``needs`` name its kind."""
        found = self.heads[kind.kind]
        assert isinstance(found, kind) and self.backbone is not None
        return found, self.backbone


class Proposer(Protocol):
    """Drafts tokens for one sequence at a time; lives as long as the loaded pair.

    ``Options`` is a frozen dataclass of plain settings, each field with a ``help`` in its metadata, and
    ``choices`` where there are few, or a function that names them; ``needs`` names what must be loaded:
    ``draft``, or a kind of head (see ``engine.heads``).
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
