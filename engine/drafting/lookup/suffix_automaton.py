"""Every substring of some texts, and how often each occurs: built token by token.

A suffix automaton (Blumer et al. 1985) is the suffix tree of the reversed text, merged: it has at
most two states a token, and appending takes amortised constant time. A state stands for all strings
that end at the same places; its link leads to the longest shorter suffix that ends at more of them.
Here each state also counts its places, which costs at most ``depth`` steps a token, so a whole text
takes linear time.

SuffixDecoding (arXiv 2411.04975) drafts from such counts: after the longest suffix of the text that
occurred before, the token that followed most often, and so on from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Match:
    """The last ``length`` tokens of something, found in the texts. Valid until they grow."""

    state: int = 0
    length: int = 0


@dataclass(frozen=True, slots=True)
class Continuation:
    """Tokens that may follow a match. ``score`` is the expected number of right ones:
    the sum of the probabilities that all tokens so far are right."""

    tokens: tuple[int, ...] = ()
    score: float = 0.0


class SuffixAutomaton:
    """Texts in, counts out. Strings of up to ``depth`` tokens are counted.

    ``size`` is the number of tokens appended. A match has at most ``depth - 1`` tokens, so that it
    and the token behind it are counted together.
    """

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.size = 0
        # One entry a state; state 0 is the empty string.
        self._length = [0]  # of the longest string of the state
        self._link = [-1]
        self._count = [0]  # places where its strings end; right for strings of at most ``depth``
        self._next: list[dict[int, int]] = [{}]  # by token
        self._last = 0  # the text so far
        self._top = 0  # its last ``depth`` tokens

    def begin(self) -> None:
        """What is appended from now on is another text."""
        self._last = self._top = 0

    def append(self, token: int) -> None:
        """The text goes on with ``token``."""
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
        """The text goes on with ``tokens``."""
        for token in tokens:
            self.append(token)

    def repeated(self) -> Match:
        """The longest suffix of the text that something followed before."""
        match = self._with_followers(Match(self._top, self._length[self._top]))
        return self._trimmed(match.state, match.length)

    def follow(self, match: Match, token: int) -> Match:
        """The longest suffix of the matched tokens and ``token`` that the texts hold."""
        state, length = match.state, match.length
        while token not in self._next[state]:
            if not state:
                return Match()
            state = self._link[state]
            length = self._length[state]
        return self._trimmed(self._next[state][token], length + 1)

    def shorter(self, match: Match) -> Iterator[Match]:
        """``match``, then its suffixes that occurred in more places, the longest first."""
        state, length = match.state, match.length
        while state > 0:
            yield Match(state, length)
            state = self._link[state]
            length = self._length[state]

    def followers(self, match: Match) -> dict[int, int]:
        """How often each token followed the matched ones."""
        return {token: self._count[to] for token, to in self._next[match.state].items()}

    def continuation(self, match: Match, limit: int, least: float) -> Continuation:
        """The likeliest tokens behind ``match``: ``limit`` at most, while the probability that all
        of them are right is ``least`` or more.

        At the end of a text a shorter match goes on.
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
        """Raises AssertionError where an invariant is broken (for tests)."""
        assert len(self._length) == len(self._link) == len(self._count) == len(self._next)
        assert len(self._length) <= max(2 * self.size, 1)
        for state in range(1, len(self._length)):
            link = self._link[state]
            assert 0 <= self._length[link] < self._length[state]
            if self._length[link] < self.depth:
                assert self._count[state] > 0
                assert link == 0 or self._count[link] >= self._count[state]
            # What follows a string follows its suffixes too.
            assert self._next[state].keys() <= self._next[link].keys()
        for state, followers in enumerate(self._next):
            for to in followers.values():
                assert self._length[to] > self._length[state]
        assert self._length[self._link[self._top]] < self.depth if self._top else True

    def _trimmed(self, state: int, length: int) -> Match:
        """The state of the last ``depth - 1`` tokens at most."""
        length = min(length, self.depth - 1)
        while state and self._length[self._link[state]] >= length:
            state = self._link[state]
        return Match(state, length)

    def _with_followers(self, match: Match) -> Match:
        state, length = match.state, match.length
        while state and not self._next[state]:
            state = self._link[state]
            length = self._length[state]
        return Match(state, length)

    def _extended(self, at: int, token: int) -> int:
        """The state of the text at ``at`` and one token more."""
        known = self._next[at].get(token)
        if known is not None:  # another text went on like this
            return self._exact(at, token, known)
        new = self._state(self._length[at] + 1, {})
        while at != -1 and token not in self._next[at]:
            self._next[at][token] = new
            at = self._link[at]
        if at != -1:
            self._link[new] = self._exact(at, token, self._next[at][token])
        return new

    def _exact(self, at: int, token: int, to: int) -> int:
        """The state whose longest string is that of ``at`` and ``token``: ``to``, or split off it."""
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
