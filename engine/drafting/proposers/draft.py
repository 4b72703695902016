"""``draft``: a small model drafts token by token; its vocabulary may differ from the target's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from engine.decoding.acceptance import Acceptance
from engine.decoding.context import Context
from engine.decoding.proposer import NOTHING, DeviceDrafting, DraftProposal
from engine.decoding.sampling import Sampler
from engine.drafting.draft_reader import OtherVocabulary, SameVocabulary
from engine.drafting.proposers.drawing import (
    BaseProposer,
    Chain,
    above_floors,
    deterministic,
    draws_of,
    floors_of,
)
from engine.drafting.resources import DRAFT, Resources
from engine.events import Budget
from engine.models.rounds import RoundModel


class DraftModelProposer(BaseProposer):
    """Keeps the draft's own state, which catches up with the text before each draft."""

    needs: ClassVar[frozenset[str]] = frozenset({DRAFT})

    def __init__(self, options: object, resources: Resources) -> None:
        assert resources.draft is not None
        self.reader: SameVocabulary | OtherVocabulary = (
            SameVocabulary(resources.draft)
            if resources.vocabularies is None
            else OtherVocabulary(resources.draft, resources.vocabularies)
        )

    def begin(self, context: Context, sampler: Sampler) -> None:
        self.sampler = sampler
        self.reader.begin(context)

    def prepare(self, context: Context) -> Iterator[int]:
        return self.reader.prepare(context)

    def propose(self, context: Context, budget: Budget) -> DraftProposal:
        reader, sampler = self.reader, self.sampler
        depth = min(budget.depth, reader.room(context))
        if depth < 1:
            return NOTHING
        if isinstance(reader, OtherVocabulary):
            return deterministic(reader.draft(context, depth, sampler.vocabulary))
        position, floors = len(context.tokens), floors_of(sampler, budget)
        if reader.drafts_at_once(sampler):
            draws = draws_of(sampler, position, depth)
            tokens, q = reader.draft(context, depth, sampler.vocabulary, draws, floors.floor)
            return above_floors(tokens, q, floors)
        chain = Chain(sampler, position, floors)
        token = chain.draw(reader.catch_up(context))
        while len(chain.tokens) < depth and not chain.ended:
            token = chain.draw(reader.extend(token))
        return chain.proposal()

    def device_drafting(self) -> DeviceDrafting | None:
        reader = self.reader
        if isinstance(reader, SameVocabulary) and isinstance(reader.model, RoundModel):
            return DeviceDrafting(reader)
        return None

    def observe(self, acceptance: Acceptance) -> None:
        self.reader.observe(len(acceptance.path))
