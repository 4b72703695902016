"""``ngram``: copy what followed the last time the text went like this.

Prompt lookup decoding (Saxena 2023): find the longest suffix of the text that occurred before, and draft
what followed its latest occurrence. It needs no model and costs almost nothing. It is strong where
replies repeat their prompt: rewriting, editing, quoting, code.

If asked, it searches past replies of the same model too, also of earlier starts. If the match there is
longer, what followed most often is drafted.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.decoding.context import Context
from engine.decoding.proposer import NOTHING, DraftProposal
from engine.decoding.sampling import Sampler
from engine.drafting.lookup.past_replies import PastReplies
from engine.drafting.lookup.suffix_automaton import Match, SuffixAutomaton
from engine.drafting.proposers.drawing import BaseProposer, deterministic, option
from engine.drafting.resources import Resources
from engine.errors import InvalidRequest
from engine.events import Budget

MAX_REPLIES = 1000
"""Maximum number of past replies; their tokens are limited too."""


class NgramProposer(BaseProposer):
    """Copies what followed the latest earlier occurrence of the longest matching suffix."""

    @dataclass(frozen=True, slots=True)
    class Options:
        prompt_lookup_min: int = option(2, "shortest match, in tokens")
        prompt_lookup_max: int = option(5, "longest match, in tokens; tried first")
        remember: bool = option(False, "search past replies too, and store them in the data folder")

        def __post_init__(self) -> None:
            if not 1 <= self.prompt_lookup_min <= self.prompt_lookup_max <= 64:
                raise InvalidRequest(
                    "options",
                    f"prompt_lookup_min is {self.prompt_lookup_min} and prompt_lookup_max "
                    f"{self.prompt_lookup_max}; 1 <= min <= max <= 64 is required.",
                )

    def __init__(self, options: Options, resources: Resources) -> None:
        self.sizes = range(options.prompt_lookup_max, options.prompt_lookup_min - 1, -1)
        # By n-grams: the position after their latest occurrence.
        self._latest: dict[tuple[int, ...], int] = {}
        self._indexed = 0
        folder = resources.remembered
        # An automaton counts a match together with the token after it.
        self.past = PastReplies(
            options.prompt_lookup_max + 1,
            MAX_REPLIES if options.remember else 0,
            None if folder is None else folder / "ngram",
        )
        self._automata: tuple[SuffixAutomaton, ...] = ()  # of past replies

    def begin(self, context: Context, sampler: Sampler) -> None:
        self._latest.clear()
        self._indexed = 0
        self.past.begin(context)
        past = self.past.automata if sampler.may_use_history else ()
        self._automata = tuple(automaton for automaton in past if automaton.size)

    def propose(self, context: Context, budget: Budget) -> DraftProposal:
        tokens, depth = context.tokens, budget.depth
        self._index(tokens)
        if not depth:
            return NOTHING
        size, start = self._match(tokens)
        return deterministic(self._from_past(tokens, size, depth) or _copy(tokens, start, depth))

    def close(self) -> None:
        self.past.close()
        self._latest.clear()

    def _index(self, tokens: list[int]) -> None:
        """Index the new n-grams of the text, except those at its end."""
        for end in range(max(self._indexed, 1), len(tokens)):
            for size in self.sizes:
                if size <= end:
                    self._latest[tuple(tokens[end - size : end])] = end
        self._indexed = len(tokens)

    def _match(self, tokens: list[int]) -> tuple[int, int]:
        """Return the length of the longest match in this text, and the position after it."""
        for size in self.sizes:
            if size < len(tokens):
                position = self._latest.get(tuple(tokens[-size:]))
                if position is not None:
                    return size, position
        return 0, len(tokens)

    def _from_past(self, tokens: list[int], size: int, depth: int) -> tuple[int, ...]:
        """Return what followed most often in past replies if a match there is longer than ``size``."""
        best: tuple[int, ...] = ()
        for automaton in self._automata:
            match = Match()
            for token in tokens[-self.sizes.start :]:
                match = automaton.follow(match, token)
            shorter = automaton.shorter(match)
            match = next((one for one in shorter if automaton.followers(one)), Match())
            if match.length > size and match.length >= self.sizes[-1]:
                size, best = match.length, automaton.continuation(match, depth, 0.0).tokens
        return best


def _copy(tokens: list[int], start: int, depth: int) -> list[int]:
    """Return ``depth`` tokens of the text from ``start`` on, repeated if it ends before."""
    text = tokens[start:]
    while 0 < len(text) < depth:
        text += text
    return text[:depth]
