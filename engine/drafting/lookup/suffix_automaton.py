"""Count every substring of some texts, token by token.

A suffix automaton (Blumer et al. 1985) has at most two states per token, and appending takes amortised
constant time. A state stands for all strings that end at the same places; its link leads to the longest
suffix that ends at more places. Here each state also counts its places, which takes at most ``depth``
steps per token.

SuffixDecoding (arXiv 2411.04975) drafts from such counts: the most frequent token after the longest
suffix of the text that occurred before, and so on from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Match:
    """The last ``length`` tokens of a sequence as a string of the texts. Valid until the texts grow."""

    state: int = 0
    length: int = 0


@dataclass(frozen=True, slots=True)
class Continuation:
    """Tokens that may follow a match. ``score``: the expected number of correct ones, which is the sum of
    the probabilities that all tokens so far are correct."""

    tokens: tuple[int, ...] = ()
    score: float = 0.0


class SuffixAutomaton:
    """Counts strings of up to ``depth`` tokens; ``size`` tokens were appended.

    A match has at most ``depth - 1`` tokens, so that it is counted together with the token after it.
    """

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.size = 0
        # One entry per state; state 0 is the empty string.
        self._length = [0]  # of the longest string of the state
        self._link = [-1]
        self._count = [0]  # places where its strings end; exact for strings up to ``depth``
        self._next: list[dict[int, int]] = [{}]  # by token
        self._last = 0  # state of the text so far
        self._top = 0  # state of its last ``depth`` tokens

    def begin(self) -> None:
        """Start another text."""
        self._last = self._top = 0

    def append(self, token: int) -> None:
        """Append ``token`` to the text."""
        self._last = self._extended(self._last, token)
        top = self._next[self._top][token]
        while self._length[self._link[top]] >= self.depth:
            top = self._link[top]
        self._top = top
        while top:
            self._count[top] += 1
            top = self._link[top]
        self.size += 1

    def extend(self, tokens: Iterable[int]) -> None:
        """Append ``tokens`` to the text."""
        for token in tokens:
            self.append(token)

    def repeated(self) -> Match:
        """Return the longest suffix of the text that also occurred earlier, with a token after it."""
        match = self._with_followers(Match(self._top, self._length[self._top]))
        return self._trimmed(match.state, match.length)

    def follow(self, match: Match, token: int) -> Match:
        """Return the longest suffix of the matched tokens and ``token`` that occurs in the texts."""
        state, length = match.state, match.length
        while token not in self._next[state]:
            if not state:
                return Match()
            state = self._link[state]
            length = self._length[state]
        return self._trimmed(self._next[state][token], length + 1)

    def shorter(self, match: Match) -> Iterator[Match]:
        """Yield ``match``, then its suffixes that occur in more places, the longest first."""
        state, length = match.state, match.length
        while state > 0:
            yield Match(state, length)
            state = self._link[state]
            length = self._length[state]

    def followers(self, match: Match) -> dict[int, int]:
        """Return how often each token followed the match."""
        return {token: self._count[to] for token, to in self._next[match.state].items()}

    def continuation(self, match: Match, limit: int, least: float) -> Continuation:
        """Return the most probable tokens after ``match``: at most ``limit``, with a joint probability of
        at least ``least``.

        A shorter match continues where the longer one has no followers.
        """
        tokens: list[int] = []
        probability, score = 1.0, 0.0
        while len(tokens) < limit:
            match = self._with_followers(match)
            if not match.length:
                break
            followers = self._next[match.state]
            counts = [self._count[to] for to in followers.values()]
            best = max(counts)
            probability *= best / sum(counts)
            if probability < least:
                break
            token = list(followers)[counts.index(best)]
            tokens.append(token)
            score += probability
            match = self.follow(match, token)
        return Continuation(tuple(tokens), score)

    def check(self) -> None:
        """Raise AssertionError if an invariant is broken (for tests)."""
        assert len(self._length) == len(self._link) == len(self._count) == len(self._next)
        assert len(self._length) <= max(2 * self.size, 1)
        for state in range(1, len(self._length)):
            link = self._link[state]
            assert 0 <= self._length[link] < self._length[state]
            if self._length[link] < self.depth:
                assert self._count[state] > 0
                assert link == 0 or self._count[link] >= self._count[state]
            # Whatever follows a string follows its suffixes too.
            assert self._next[state].keys() <= self._next[link].keys()
        for state, followers in enumerate(self._next):
            for to in followers.values():
                assert self._length[to] > self._length[state]
        assert self._length[self._link[self._top]] < self.depth if self._top else True

    def _trimmed(self, state: int, length: int) -> Match:
        """Return the match of at most the last ``depth - 1`` tokens."""
        length = min(length, self.depth - 1)
        while state and self._length[self._link[state]] >= length:
            state = self._link[state]
        return Match(state, length)

    def _with_followers(self, match: Match) -> Match:
        """Return the longest suffix of the match that has followers."""
        state, length = match.state, match.length
        while state and not self._next[state]:
            state = self._link[state]
            length = self._length[state]
        return Match(state, length)

    def _extended(self, at: int, token: int) -> int:
        """Return the state of the text at ``at`` followed by ``token``."""
        existing = self._next[at].get(token)
        if existing is not None:  # another text has this string
            return self._exact(at, token, existing)
        new = self._state(self._length[at] + 1, {})
        while at != -1 and token not in self._next[at]:
            self._next[at][token] = new
            at = self._link[at]
        if at != -1:
            self._link[new] = self._exact(at, token, self._next[at][token])
        return new

    def _exact(self, at: int, token: int, to: int) -> int:
        """Return the state whose longest string is that of ``at`` plus ``token``: ``to`` or its split."""
        length = self._length[at] + 1
        if self._length[to] == length:
            return to
        split = self._state(length, dict(self._next[to]))
        self._link[split], self._count[split] = self._link[to], self._count[to]
        self._link[to] = split
        while at != -1 and self._next[at].get(token) == to:
            self._next[at][token] = split
            at = self._link[at]
        return split

    def _state(self, length: int, followers: dict[int, int]) -> int:
        self._length.append(length)
        self._link.append(0)
        self._count.append(0)
        self._next.append(followers)
        return len(self._length) - 1
