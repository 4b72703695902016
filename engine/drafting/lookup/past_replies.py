"""The latest replies of one model, searchable and limited in number and tokens.

There are two generations. Replies are added to the newer one; when it has reached half of a limit, it
replaces the older one. So nothing is deleted from an automaton or a file, and the oldest replies are
dropped first.

On disk each generation is a file of token ids, one reply per line: a JSON list of the CRC-32 of the ids
and the ids, so that damaged ids are never drafted. A crash can cut off only the last line, which is
dropped. Any other invalid line means that the file is damaged: a warning is logged, and the file
deleted. Errors of reading and writing are only logged, because they cost drafts and no reply.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

from engine.decoding.context import Context
from engine.drafting.lookup.suffix_automaton import SuffixAutomaton
from engine.files import private

log = logging.getLogger(__name__)

NEWER, OLDER = "newer.jsonl", "older.jsonl"


class ReplyFiles:
    """Both generations of one folder, which is created with the first reply."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self) -> tuple[list[list[int]], list[list[int]]]:
        """Return the older replies, then the newer ones."""
        return self._read(self.folder / OLDER), self._read(self.folder / NEWER)

    def add(self, reply: Sequence[int]) -> None:
        """Append a reply to the newer generation."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(self.folder / NEWER, "ab", opener=private) as file:
                file.write(line_of(reply))
        except OSError as error:
            log.warning("a reply could not be stored in %s: %s", self.folder, error)

    def new_generation(self) -> None:
        """Replace the older generation by the newer one."""
        try:
            os.replace(self.folder / NEWER, self.folder / OLDER)
        except FileNotFoundError:
            pass
        except OSError as error:
            log.warning("past replies in %s could not be moved: %s", self.folder, error)

    def _read(self, path: Path) -> list[list[int]]:
        try:
            data = path.read_bytes()
            whole = data.rfind(b"\n") + 1
            if whole < len(data):  # the next reply must not continue half a line
                os.truncate(path, whole)
        except FileNotFoundError:
            return []
        except OSError as error:
            log.warning("past replies in %s cannot be read: %s", path, error)
            return []
        try:
            return [_reply(line) for line in data[:whole].splitlines()]
        except ValueError as error:
            log.warning("past replies in %s are damaged and start empty: %s", path, error)
        try:
            path.unlink()
        except OSError as error:
            log.warning("%s could not be removed: %s", path, error)
        return []


def line_of(reply: Sequence[int]) -> bytes:
    """Return the line of a reply."""
    ids = b",".join(b"%d" % token for token in reply)
    return b"[%d,%s]\n" % (crc32(ids), ids)


def _reply(line: bytes) -> list[int]:
    """Return the reply in ``line``. Raises ValueError unless ``line_of`` wrote it."""
    reply = [int(number) for number in line[1:-1].split(b",")[1:]]
    if len(reply) < 2 or line_of(reply) != line + b"\n":
        raise ValueError("a line is damaged")
    return reply


MAX_TOKENS = 1 << 18
"""Limit for all replies together; a token takes up to about 500 bytes of memory and 10 of disk."""


class PastReplies:
    """Indexes at most ``requests`` replies, each once the next request begins, or on closing.

    With ``folder`` each generation is stored in a file (see ``engine.drafting.lookup.past_replies``).
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
