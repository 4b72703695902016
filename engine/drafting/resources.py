"""What a loaded pair provides to proposers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from engine.drafting.cross_vocabulary.token_table import VocabularyMap
from engine.drafting.heads.base import Head
from engine.models.base import Model
from engine.models.hidden_states import AuxLayer, Backbone, distinct

DRAFT = "draft"
"""The need of a proposer that runs a draft model."""

H = TypeVar("H", bound=Head)


@dataclass(frozen=True, slots=True)
class Resources:
    """The draft model, heads and folder that a loaded pair provides to proposers.

    ``vocabularies``: None if the draft has the target's vocabulary. ``heads``: by kind. ``backbone``: the
    target as heads see it, with its aux hidden states. ``remembered``: a folder for past replies of this
    target; None: they are not stored.
    """

    draft: Model | None = None
    vocabularies: VocabularyMap | None = None
    remembered: Path | None = None
    heads: Mapping[str, Head] = field(default_factory=dict)
    backbone: Backbone | None = None

    @property
    def aux_layers(self) -> tuple[AuxLayer, ...]:
        """The hidden states of the target that the heads read."""
        return distinct(aux_layer for head in self.heads.values() for aux_layer in head.aux_layers)

    @property
    def loaded(self) -> frozenset[str]:
        """The needs of proposers that are met: ``draft``, and kinds of heads."""
        return frozenset(self.heads) | ({DRAFT} if self.draft is not None else frozenset())

    def head(self, kind: type[H]) -> tuple[H, Backbone]:
        """Return the head of a class and its backbone, for proposers whose ``needs`` name its kind."""
        head = self.heads[kind.kind]
        assert isinstance(head, kind) and self.backbone is not None
        return head, self.backbone
