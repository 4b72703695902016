"""``ngram``: what followed the last time the text went like this?

Prompt lookup decoding (Saxena 2023): the longest suffix of the text that occurred before, at its
latest occurrence, predicts that the same continuation comes again. No model, almost no cost; strong
where replies repeat their prompt: rewriting, editing, quoting, code.

Where that is asked for, past replies of the same model are searched too, those of earlier starts
included: what followed most often there is drafted, if this text has no match as long.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from engine.decoding.acceptance import Acceptance
from engine.decoding.context import Context
from engine.decoding.proposer import NOTHING, DraftProposal
from engine.decoding.sampling import Sampler
from engine.drafting.lookup.past_replies import PastReplies
from engine.drafting.lookup.suffix_automaton import Match, SuffixAutomaton
from engine.drafting.resources import Resources
from engine.errors import InvalidRequest
from engine.events import Budget, Tree

MAX_REPLIES = 1000
"""Past replies held at most; the tokens of all of them are bounded too."""


class NgramProposer:
    """Copies what followed the latest earlier occurrence of the longest matching suffix."""

    @dataclass(frozen=True, slots=True)
    class Options:
        prompt_lookup_min: int = field(
            default=2, metadata={"help": "shortest run of tokens that counts as a match"}
        )
        prompt_lookup_max: int = field(
            default=5, metadata={"help": "longest run of tokens looked for, tried first"}
        )
        remember: bool = field(
            default=False,
            metadata={"help": "search past replies too, and keep them in the data folder"},
        )

        def __post_init__(self) -> None:
            if not 1 <= self.prompt_lookup_min <= self.prompt_lookup_max <= 64:
                raise InvalidRequest(
                    "options",
                    f"prompt_lookup_min is {self.prompt_lookup_min} and prompt_lookup_max "
                    f"{self.prompt_lookup_max}; they must satisfy 1 <= min <= max <= 64.",
                )

    needs: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, options: Options, resources: Resources) -> None:
        self.sizes = range(options.prompt_lookup_max, options.prompt_lookup_min - 1, -1)
        self._latest: dict[tuple[int, ...], int] = {}
        self._indexed = 0
        folder = resources.remembered
        # An automaton counts what it matches and the token behind it together.
        self.past = PastReplies(
            options.prompt_lookup_max + 1,
            MAX_REPLIES if options.remember else 0,
            None if folder is None else folder / "ngram",
        )
        self._recalled: tuple[SuffixAutomaton, ...] = ()

    def begin(self, context: Context, sampler: Sampler) -> None:
        self._latest.clear()
        self._indexed = 0
        self.past.begin(context)
        past = self.past.automata if sampler.may_use_history else ()
        self._recalled = tuple(automaton for automaton in past if automaton.size)

    def prepare(self, context: Context) -> Iterator[None]:
        return iter(())

    def propose(self, context: Context, budget: Budget) -> DraftProposal:
        tokens = context.tokens
        self._index(tokens)
        if not budget.depth:
            return NOTHING
        size, follow = self._match(tokens)
        drafted = self._from_past(tokens, size, budget.depth) or _copied(
            tokens, follow, budget.depth
        )
        if not drafted:
            return NOTHING
        return DraftProposal(Tree.chain(drafted), None, (None,) * len(drafted))

    def observe(self, acceptance: Acceptance) -> None: ...

    def close(self) -> None:
        self.past.close()
        self._latest.clear()

    def _index(self, tokens: list[int]) -> None:
        """Notes, for every run that something follows, where that something stands."""
        for follow in range(max(self._indexed, 1), len(tokens)):
            for size in self.sizes:
                if size <= follow:
                    self._latest[tuple(tokens[follow - size : follow])] = follow
        self._indexed = len(tokens)

    def _match(self, tokens: list[int]) -> tuple[int, int]:
        """The length of the longest match in this text, and where what follows it stands."""
        for size in self.sizes:
            if size < len(tokens):
                found = self._latest.get(tuple(tokens[-size:]))
                if found is not None:
                    return size, found
        return 0, len(tokens)

    def _from_past(self, tokens: list[int], size: int, depth: int) -> tuple[int, ...]:
        """What followed most often in past replies, if more tokens match there than ``size``."""
        best: tuple[int, ...] = ()
        for automaton in self._recalled:
            match = Match()
            for token in tokens[-self.sizes.start :]:
                match = automaton.follow(match, token)
            shorter = automaton.shorter(match)
            match = next((one for one in shorter if automaton.followers(one)), Match())
            if match.length > size and match.length >= self.sizes[-1]:
                size, best = match.length, automaton.continuation(match, depth, 0.0).tokens
        return best


def _copied(tokens: list[int], follow: int, depth: int) -> list[int]:
    """The text from ``follow`` on; where it ends, it repeats."""
    text = tokens[follow:]
    while 0 < len(text) < depth:
        text += text
    return text[:depth]
