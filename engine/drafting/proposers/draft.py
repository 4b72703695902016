"""``draft``: a small model writes ahead, token by token; its vocabulary may be another one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from engine.decoding.acceptance import Acceptance
from engine.decoding.context import Context
from engine.decoding.proposer import NOTHING, DraftProposal, InRound
from engine.decoding.sampling import Sampler
from engine.drafting.cross_vocabulary.vocabulary_map import VocabularyMap
from engine.drafting.draft_reader import CrossVocabulary, OtherVocabulary, Reader, SameVocabulary
from engine.drafting.proposers.drawing import Chain, draws_of, floors_of, written
from engine.drafting.resources import DRAFT, Resources
from engine.errors import InvalidRequest
from engine.events import Budget, Tree
from engine.models.base import Model
from engine.models.rounds import RoundModel


class DraftModelProposer:
    """Keeps the draft's own KV cache, which catches up with the text before each draft."""

    @dataclass(frozen=True, slots=True)
    class Options:
        cross_vocabulary: str = field(
            default=CrossVocabulary.AUTO.value,
            metadata={
                "help": "a draft with another vocabulary: tli chooses among shared tokens, slem "
                "rewrites its text in the target's, auto by the acceptance rule",
                "choices": tuple(map(str, CrossVocabulary)),
            },
        )

        def __post_init__(self) -> None:
            if self.cross_vocabulary not in tuple(CrossVocabulary):
                raise InvalidRequest(
                    "options",
                    f"cross_vocabulary is {self.cross_vocabulary!r}; it must be "
                    f"{', '.join(CrossVocabulary)}.",
                )

    needs: ClassVar[frozenset[str]] = frozenset({DRAFT})

    def __init__(self, options: Options, resources: Resources) -> None:
        assert resources.draft is not None
        method = CrossVocabulary(options.cross_vocabulary)
        self.reader = _reader(resources.draft, resources.vocabularies, method)

    def begin(self, context: Context, sampler: Sampler) -> None:
        self.sampler = sampler
        self.reader.begin(context)

    def prepare(self, context: Context) -> Iterator[None]:
        return self.reader.prepare(context)

    def propose(self, context: Context, budget: Budget) -> DraftProposal:
        depth = min(budget.depth, self.reader.room(context))
        if depth < 1:
            return NOTHING
        sampler, known, floors = self.sampler, len(context.tokens), floors_of(self.sampler, budget)
        if self.reader.writes_on(sampler):
            draws = draws_of(sampler, known, depth)
            drafted, likely = self.reader.write_on(
                context, depth, sampler.vocabulary, draws, floors.goes_on
            )
            if likely is None:
                return DraftProposal(Tree.chain(drafted), None, (None,) * len(drafted))
            return written(drafted, likely, floors)
        chain = Chain(sampler, known, floors)
        token = chain.draw(self.reader.catch_up(context))
        while len(chain.tokens) < depth and not chain.ended:
            token = chain.draw(self.reader.write(token))
        return chain.proposal()

    def in_round(self) -> InRound | None:
        reader = self.reader
        if isinstance(reader, SameVocabulary) and isinstance(reader.model, RoundModel):
            return InRound(reader)
        return None

    def observe(self, acceptance: Acceptance) -> None:
        self.reader.observe(len(acceptance.path))

    def close(self) -> None: ...


def _reader(draft: Model, vocabularies: VocabularyMap | None, method: CrossVocabulary) -> Reader:
    if vocabularies is None:
        return SameVocabulary(draft)
    return OtherVocabulary(draft, vocabularies, method)
