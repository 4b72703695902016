"""``suffix``: what followed most often when this text, or a past reply, went like this?

SuffixDecoding (Oliaro et al. 2024, arXiv 2411.04975; Arctic Inference): the longest suffix of the
text that occurred before, here or in past replies of the same model, is continued by its commonest
followers. The longer the match, the longer the draft; it ends where it becomes unlikely. Strong for
agents, code and chats that repeat earlier answers.

A reply that rewrites its prompt is followed across the changes that it makes (see ``lookup/copying.py``),
which a match is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from engine.decoding.acceptance import Acceptance
from engine.decoding.context import Context, chunks, common_prefix
from engine.decoding.proposer import NOTHING, DraftProposal
from engine.decoding.sampling import Sampler
from engine.drafting.lookup.copying import Copy
from engine.drafting.lookup.past_replies import PastReplies
from engine.drafting.lookup.suffix_automaton import Continuation, Match, SuffixAutomaton
from engine.drafting.resources import Resources
from engine.errors import InvalidRequest
from engine.events import Budget, Tree

RECALLING = "suffix"
"""By what name rounds go in which this drafted for another (see hybrid, best)."""


class SuffixProposer:
    """Of all continuations in this text and past replies, the one with most right tokens expected."""

    @dataclass(frozen=True, slots=True)
    class Options:
        max_tree_depth: int = field(
            default=24,
            metadata={"help": "longest run of tokens looked for, the drafted one included"},
        )
        max_cached_requests: int = field(
            default=1000, metadata={"help": "past replies searched beside this text; 0: none"}
        )
        max_spec_factor: float = field(
            default=1.0, metadata={"help": "drafted tokens for each matching one, at most"}
        )
        min_token_prob: float = field(
            default=0.1, metadata={"help": "a draft ends where it is less likely than this"}
        )
        edits: bool = field(
            default=True,
            metadata={
                "help": "where a text is rewritten, go on copying behind each change, and make the "
                "same changes again"
            },
        )
        remember: bool = field(
            default=False,
            metadata={"help": "keep past replies in the data folder, for the next start"},
        )

        def __post_init__(self) -> None:
            _check(
                2 <= self.max_tree_depth <= 64,
                f"max_tree_depth is {self.max_tree_depth}; it must be 2 to 64.",
            )
            _check(
                0 <= self.max_cached_requests <= 100_000,
                f"max_cached_requests is {self.max_cached_requests}; it must be 0 to 100000.",
            )
            _check(
                0 < self.max_spec_factor <= 16,
                f"max_spec_factor is {self.max_spec_factor}; it must be above 0 and at most 16.",
            )
            _check(
                0 <= self.min_token_prob <= 1,
                f"min_token_prob is {self.min_token_prob}; it must be 0 to 1.",
            )

    needs: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, options: Options, resources: Resources) -> None:
        self.options = options
        folder = resources.remembered if options.remember else None
        self.past = PastReplies(
            options.max_tree_depth,
            options.max_cached_requests,
            None if folder is None else folder / "replies",
        )
        self.own = SuffixAutomaton(options.max_tree_depth)
        self.copy = Copy()
        self._read: list[int] = []  # content keys of the part of the text that these hold
        self._prompt = 0  # tokens of it that were there before the reply
        self._found: list[tuple[SuffixAutomaton, Match]] = []  # the text's end in past replies

    def begin(self, context: Context, sampler: Sampler) -> None:
        self.past.begin(context)
        if common_prefix(self._read, context.keys) < len(self._read):
            self.own = SuffixAutomaton(self.options.max_tree_depth)
            self.copy = Copy()
            self._read = []
        self.copy.begin()
        self._prompt = len(context.tokens)
        recalled = self.past.automata if sampler.may_use_history else ()
        recent = context.tokens[-self.options.max_tree_depth :]
        behind = len(context.tokens) - len(recent)
        self._found = [(automaton, Match()) for automaton in recalled if automaton.size]
        self._follow(recent[: max(len(self._read) - behind, 0)])

    def prepare(self, context: Context) -> Iterator[None]:
        for chunk in chunks(range(len(self._read), len(context.tokens))):
            yield
            # A round since then may have read it.
            self._take_in(context, chunk[-1] + 1)

    def propose(self, context: Context, budget: Budget) -> DraftProposal:
        return as_proposal(self.recall(context, budget.depth))

    def recall(self, context: Context, depth: int) -> Continuation:
        """Reads what is new in the text; what most likely follows it, ``depth`` tokens at most."""
        self._take_in(context, len(context.tokens))
        copied = self.copy.draft(depth)
        # Counted as sure, as a match is that only ever went on in one way.
        best = Continuation(copied, float(len(copied)))
        if len(copied) < depth:
            for automaton, match in ((self.own, self.own.repeated()), *self._found):
                best = max(best, self._likeliest(automaton, match, depth), key=_score)
        return best

    def observe(self, acceptance: Acceptance) -> None: ...

    def close(self) -> None:
        self.past.close()
        self._read, self._found = [], []

    def _take_in(self, context: Context, end: int) -> None:
        """Read the text on up to its first ``end`` tokens."""
        new = context.tokens[len(self._read) : end]
        if self.options.edits:
            source = max(self._prompt - len(self._read), 0)
            self.copy.read(new[:source])
            self.copy.extend(new[source:])
        self.own.extend(new)
        self._read += context.keys[len(self._read) : end]
        self._follow(new)

    def _likeliest(self, automaton: SuffixAutomaton, match: Match, depth: int) -> Continuation:
        """The best continuation of the match or of a shorter one."""
        options = self.options
        best = Continuation()
        for shorter in automaton.shorter(match):
            limit = min(depth, int(options.max_spec_factor * shorter.length))
            if limit <= best.score:  # even if all of it were sure, it could not be better
                break
            found = automaton.continuation(shorter, limit, options.min_token_prob)
            best = max(best, found, key=_score)
        return best

    def _follow(self, tokens: Sequence[int]) -> None:
        """Past replies are read along with the text; only its last tokens can matter."""
        for token in tokens[-self.options.max_tree_depth :]:
            self._found = [(past, past.follow(match, token)) for past, match in self._found]


def as_proposal(continuation: Continuation, by: str | None = None) -> DraftProposal:
    """Recalled without chance, so there is no q. ``by`` goes with a draft, not with none."""
    if not continuation.tokens:
        return NOTHING
    drafted = Tree.chain(continuation.tokens)
    return DraftProposal(drafted, None, (None,) * len(drafted), by)


def _score(continuation: Continuation) -> float:
    return continuation.score


def _check(condition: bool, message: str) -> None:
    if not condition:
        raise InvalidRequest("options", message)
