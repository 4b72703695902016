"""The latest replies of one model, searchable and limited in number and tokens.

There are two generations. Replies are added to the newer one; when it has reached half of a limit, it
replaces the older one. So nothing is deleted from an automaton or a file, and the oldest replies are
dropped first.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine.decoding.context import Context
from engine.drafting.lookup.reply_files import ReplyFiles
from engine.drafting.lookup.suffix_automaton import SuffixAutomaton

MAX_TOKENS = 1 << 18
"""Limit for all replies together; a token takes up to about 500 bytes of memory and 10 of disk."""


class PastReplies:
    """Indexes at most ``requests`` replies, each once the next request begins, or on closing.

    With ``folder`` each generation is stored in a file (see ``engine.drafting.lookup.reply_files``).
    """

    def __init__(
        self, depth: int, requests: int, folder: Path | None = None, *, tokens: int = MAX_TOKENS
    ) -> None:
        self.depth = depth
        # A generation holds half of each limit, but at least one reply.
        self.replies = 0 if requests == 0 else max(requests // 2, 1)
        self.tokens = tokens // 2
        self.automata = (SuffixAutomaton(depth), SuffixAutomaton(depth))
        """The newer and the older generation; replaced, not changed, when a generation begins."""
        self.counts = (0, 0)
        """Replies in each generation."""
        self._current: Context | None = None  # the running request
        self._files = ReplyFiles(folder) if folder is not None and requests else None
        if self._files is not None:
            for generation in self._files.read():
                self._new_generation()
                for reply in generation:
                    self._index(reply)

    def begin(self, context: Context) -> None:
        """Start a request, whose reply is the output of ``context``."""
        self.close()
        self._current = context

    def close(self) -> None:
        """Add the reply of the running request, if there is one."""
        if self._current is not None:
            self.add(self._current.output)
        self._current = None

    def add(self, reply: Sequence[int]) -> None:
        """Add a finished reply; of a very long one the last tokens."""
        if len(reply) < 2 or not self.replies:  # nothing follows a single token
            return
        full = self._index(reply)
        if self._files is not None:
            if full:
                self._files.new_generation()
            self._files.add(reply[-self.tokens :])

    def check(self) -> None:
        """Raise AssertionError if a limit or an automaton's invariant is broken (for tests)."""
        assert max(self.counts) <= self.replies
        for automaton in self.automata:
            assert automaton.size <= self.tokens
            automaton.check()

    def _index(self, reply: Sequence[int]) -> bool:
        """Index ``reply``; return whether a new generation began with it."""
        reply = reply[-self.tokens :]
        full = self.counts[0] == self.replies or self.automata[0].size + len(reply) > self.tokens
        if full:
            self._new_generation()
        newer = self.automata[0]
        newer.begin()
        newer.extend(reply)
        self.counts = (self.counts[0] + 1, self.counts[1])
        return full

    def _new_generation(self) -> None:
        self.automata = (SuffixAutomaton(self.depth), self.automata[0])
        self.counts = (0, self.counts[0])
