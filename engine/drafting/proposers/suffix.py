"""``suffix``: continue a suffix of the text as it continued most often in this text or a past reply.

SuffixDecoding (Oliaro et al. 2024, arXiv 2411.04975; Arctic Inference): the longest suffix of the text
that occurred before, here or in past replies of the same model, is continued by its most frequent
followers. The longer the match, the longer the draft; it ends where it becomes unlikely. Strong for
agents, code and chats that repeat earlier answers.

A reply that rewrites its prompt is followed across its changes (see ``lookup/copying.py``), at which a
match would be lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import attrgetter, mul

from engine.decoding.context import Context, chunks, common_prefix
from engine.decoding.proposer import DraftProposal
from engine.decoding.sampling import Sampler
from engine.drafting.lookup.copying import Copy
from engine.drafting.lookup.past_replies import PastReplies
from engine.drafting.lookup.suffix_automaton import Continuation, Match, SuffixAutomaton
from engine.drafting.proposers.drawing import BaseProposer, deterministic, option
from engine.drafting.resources import Resources
from engine.errors import InvalidRequest
from engine.events import Budget

RECALLING = "suffix"
"""The proposer's name in rounds in which recalled text replaces another proposer (hybrid, best)."""

_score = attrgetter("score")


class SuffixProposer(BaseProposer):
    """Drafts the continuation with the most expected correct tokens, of this text and past replies."""

    @dataclass(frozen=True, slots=True)
    class Options:
        max_tree_depth: int = option(24, "longest match plus draft, in tokens", range=(2, 64))
        max_cached_requests: int = option(
            1000, "past replies to search; 0 = none", range=(0, 100_000)
        )
        max_spec_factor: float = option(1.0, "most drafted tokens per matched token")
        min_token_prob: float = option(
            0.1, "end a draft before a token less likely than this", range=(0, 1)
        )
        edits: bool = option(
            True,
            "in rewritten text, continue copying after each change and repeat the same changes",
        )
        remember: bool = option(False, "store past replies in the data folder, for the next start")

        def __post_init__(self) -> None:
            if not 0 < self.max_spec_factor <= 16:
                raise InvalidRequest(
                    "options",
                    f"max_spec_factor is {self.max_spec_factor}; it must be above 0 and at most 16.",
                )

    def __init__(self, options: Options, resources: Resources) -> None:
        self.options = options
        folder = resources.remembered if options.remember else None
        self.past = PastReplies(
            options.max_tree_depth,
            options.max_cached_requests,
            None if folder is None else folder / "replies",
        )
        self.own = SuffixAutomaton(options.max_tree_depth)  # of this text
        self.copy = Copy()
        self._read: list[int] = []  # content keys of the tokens in both
        self._prompt = 0  # length of the prompt
        self._matches: list[tuple[SuffixAutomaton, Match]] = []  # the text's end in past replies

    def begin(self, context: Context, sampler: Sampler) -> None:
        self.past.begin(context)
        if common_prefix(self._read, context.keys) < len(self._read):
            self.own = SuffixAutomaton(self.options.max_tree_depth)
            self.copy = Copy()
            self._read = []
        self.copy.begin()
        self._prompt = len(context.tokens)
        automata = self.past.automata if sampler.may_use_history else ()
        recent = context.tokens[-self.options.max_tree_depth :]
        before = len(context.tokens) - len(recent)
        self._matches = [(automaton, Match()) for automaton in automata if automaton.size]
        self._follow(recent[: max(len(self._read) - before, 0)])

    def prepare(self, context: Context) -> Iterator[int]:
        for chunk in chunks(range(len(self._read), len(context.tokens))):
            yield 0
            self._take_in(context, chunk[-1] + 1)  # unless a round has read it meanwhile

    def propose(self, context: Context, budget: Budget) -> DraftProposal:
        return deterministic(self.recall(context, budget.depth).tokens)

    def recall(self, context: Context, depth: int) -> Continuation:
        """Read the new tokens of the text; return its best continuation of at most ``depth`` tokens."""
        self._take_in(context, len(context.tokens))
        copied = self.copy.draft(depth)
        # A copy counts as certain, as does a match with one continuation.
        best = Continuation(copied, float(len(copied)))
        if len(copied) < depth:
            for automaton, match in ((self.own, self.own.repeated()), *self._matches):
                best = max(best, self._best(automaton, match, depth), key=_score)
        return best

    def close(self) -> None:
        self.past.close()
        self._read, self._matches = [], []

    def _take_in(self, context: Context, end: int) -> None:
        """Read the text up to its first ``end`` tokens."""
        new = context.tokens[len(self._read) : end]
        if self.options.edits:
            source = max(self._prompt - len(self._read), 0)
            self.copy.read(new[:source])
            self.copy.extend(new[source:])
        self.own.extend(new)
        self._read += context.keys[len(self._read) : end]
        self._follow(new)

    def _best(self, automaton: SuffixAutomaton, match: Match, depth: int) -> Continuation:
        """Return the best continuation of the match or of a shorter one."""
        options = self.options
        best = Continuation()
        for shorter in automaton.shorter(match):
            limit = min(depth, int(options.max_spec_factor * shorter.length))
            if limit <= best.score:  # it could not be better even if it were certain
                break
            continuation = automaton.continuation(shorter, limit, options.min_token_prob)
            best = max(best, continuation, key=_score)
        return best

    def _follow(self, tokens: Sequence[int]) -> None:
        """Extend the matches in past replies; only the last tokens of the text matter."""
        for token in tokens[-self.options.max_tree_depth :]:
            self._matches = [(past, past.follow(match, token)) for past, match in self._matches]


def expected_accepted(rates: Iterable[float]) -> list[float]:
    """Return the expected accepted tokens of a draft of 1, 2, ... tokens with acceptance ``rates``."""
    return list(accumulate(accumulate(rates, mul)))


def recall_depth(expected: Sequence[float], budget: Budget) -> int:
    """Return how many recalled tokens to draft in place of another proposer's; 0 if none pays.

    ``expected``: the accepted tokens to expect of the first 1, 2, ... recalled ones.
    """
    if not budget.needed:
        return budget.depth if 0 < budget.depth <= len(expected) else 0
    gains = [each - needed for each, needed in zip(expected, budget.needed, strict=False)]
    best = max(gains, default=0.0)
    return gains.index(best) + 1 if best > 0 else 0
