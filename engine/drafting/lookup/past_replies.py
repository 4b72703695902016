"""The latest replies of one model, searchable, within a bound; kept in a folder where one is given.

Two generations: replies go into the newer one, and when it holds half of the bound, the older one is
dropped and the newer takes its place. So nothing is ever deleted out of an automaton or a file, and
what is dropped is always the oldest.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine.decoding.context import Context
from engine.drafting.lookup.reply_files import ReplyFiles
from engine.drafting.lookup.suffix_automaton import SuffixAutomaton

MAX_TOKENS = 1 << 18
"""Of all replies together: each costs up to about 500 bytes of memory and 10 of disk."""


class PastReplies:
    """Replies in, automata out. ``requests`` bounds the replies held.

    A reply becomes a past one when the next request begins, or on closing.

    In ``folder`` each generation is a file as well (see ``engine.drafting.lookup.reply_files``).
    """

    def __init__(
        self, depth: int, requests: int, folder: Path | None = None, *, tokens: int = MAX_TOKENS
    ) -> None:
        self.depth = depth
        # A generation holds half of each bound, but at least one reply.
        self.replies = 0 if requests == 0 else max(requests // 2, 1)
        self.tokens = tokens // 2
        self.automata = (SuffixAutomaton(depth), SuffixAutomaton(depth))
        """The newer and the older generation. Replaced, not emptied, when they move on."""
        self.held = (0, 0)
        """Replies in each generation."""
        self._writing: Context | None = None
        self._files = ReplyFiles(folder) if folder is not None and requests else None
        if self._files is not None:
            self._read(self._files)

    def begin(self, context: Context) -> None:
        """A request begins; what it adds to ``context`` is its reply."""
        self.close()
        self._writing = context

    def close(self) -> None:
        """Takes the reply that was being written, if there is one."""
        if self._writing is not None:
            self.add(self._writing.output)
        self._writing = None

    def add(self, reply: Sequence[int]) -> None:
        """Takes a finished reply; of a very long one its last tokens."""
        if len(reply) < 2 or not self.replies:  # nothing follows a single token
            return
        turned = self._index(reply)
        if self._files is not None:
            if turned:
                self._files.turn()
            self._files.add(reply[-self.tokens :])

    def check(self) -> None:
        """Raises AssertionError where a bound or an automaton is broken (for tests)."""
        assert max(self.held) <= self.replies
        for automaton in self.automata:
            assert automaton.size <= self.tokens
            automaton.check()

    def _index(self, reply: Sequence[int]) -> bool:
        """Makes ``reply`` searchable; returns whether a new generation began for it."""
        reply = reply[-self.tokens :]
        full = self.held[0] == self.replies or self.automata[0].size + len(reply) > self.tokens
        if full:
            self._turn()
        newer = self.automata[0]
        newer.begin()
        newer.extend(reply)
        self.held = (self.held[0] + 1, self.held[1])
        return full

    def _turn(self) -> None:
        self.automata = (SuffixAutomaton(self.depth), self.automata[0])
        self.held = (0, self.held[0])

    def _read(self, files: ReplyFiles) -> None:
        for generation in files.read():
            self._turn()
            for reply in generation:
                self._index(reply)
