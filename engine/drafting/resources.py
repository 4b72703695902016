"""What a loaded pair offers to those that draft."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from engine.drafting.cross_vocabulary.vocabulary_map import VocabularyMap
from engine.drafting.heads.base import Head
from engine.models.base import Model
from engine.models.hidden_states import AuxLayer, Backbone, joined

DRAFT = "draft"
"""The need of a proposer that runs a draft model."""

H = TypeVar("H", bound=Head)


@dataclass(frozen=True, slots=True)
class Resources:
    """What a loaded pair offers to proposers.

    ``vocabularies`` says what the draft's tokens are in the target's vocabulary; None: the same.
    ``heads`` by their kind; ``backbone`` is the target as they see it, with its aux hidden states.
    ``remembered`` is a folder for what they learn about this target; without one they forget it.
    """

    draft: Model | None = None
    vocabularies: VocabularyMap | None = None
    remembered: Path | None = None
    heads: Mapping[str, Head] = field(default_factory=dict)
    backbone: Backbone | None = None

    @property
    def aux_layers(self) -> tuple[AuxLayer, ...]:
        """The hidden states of the target that the heads read."""
        return joined(aux_layer for head in self.heads.values() for aux_layer in head.aux_layers)

    @property
    def loaded(self) -> frozenset[str]:
        """The needs of proposers that are met: ``draft``, and kinds of heads."""
        return frozenset(self.heads) | ({DRAFT} if self.draft is not None else frozenset())

    def head(self, kind: type[H]) -> tuple[H, Backbone]:
        """The loaded head of a class, and what it reads; for proposers whose ``needs`` name its kind."""
        found = self.heads[kind.kind]
        assert isinstance(found, kind) and self.backbone is not None
        return found, self.backbone
