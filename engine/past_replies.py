"""The latest replies of one model, searchable, within a bound; kept in a folder where one is given.

Two generations: replies go into the newer one, and when it holds half of the bound, the older one is
dropped and the newer takes its place. So nothing is ever deleted out of an automaton or a file, and
what is dropped is always the oldest.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from engine.suffix_automaton import SuffixAutomaton

log = logging.getLogger(__name__)

MAX_TOKENS = 1 << 18
"""Of all replies together: each costs up to about 500 bytes of memory and 10 of disk."""
NEWER, OLDER = "newer.jsonl", "older.jsonl"


class PastReplies:
    """Replies in, automata out. ``requests`` bounds the replies held.

    In ``folder`` each generation is a file of token ids, a reply a line; a file that cannot be read
    or written costs drafts, never a reply, so it is logged and left.
    """

    def __init__(
        self, depth: int, requests: int, folder: Path | None = None, *, tokens: int = MAX_TOKENS
    ) -> None:
        self.depth, self.folder = depth, folder
        # A generation holds half of each bound, but at least one reply.
        self.replies = 0 if requests == 0 else max(requests // 2, 1)
        self.tokens = tokens // 2
        self.automata = (SuffixAutomaton(depth), SuffixAutomaton(depth))
        """The newer and the older generation. Replaced, not emptied, when they move on."""
        self.held = (0, 0)
        """Replies in each generation."""
        if folder is not None and requests:
            self._read(folder)

    def add(self, reply: Sequence[int]) -> None:
        """Takes a finished reply; of a very long one its last tokens."""
        if len(reply) < 2 or not self.replies:  # nothing follows a single token
            return
        if self._index(reply):
            self._move_on_disk()
        self._write(reply[-self.tokens :])

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

    def _read(self, folder: Path) -> None:
        for name in (OLDER, NEWER):
            self._turn()
            for reply in _lines(folder / name):
                self._index(reply)

    def _move_on_disk(self) -> None:
        if self.folder is not None:
            try:
                os.replace(self.folder / NEWER, self.folder / OLDER)
            except FileNotFoundError:
                pass
            except OSError as error:
                log.warning("past replies in %s cannot move on: %s", self.folder, error)

    def _write(self, reply: Sequence[int]) -> None:
        if self.folder is None:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with (self.folder / NEWER).open("a", encoding="ascii") as file:
                file.write(json.dumps(list(reply), separators=(",", ":")) + "\n")
        except OSError as error:
            log.warning("a reply cannot be kept in %s: %s", self.folder, error)


def _lines(path: Path) -> Iterator[list[int]]:
    """The replies of a file; lines that are none (cut off by a crash) are skipped."""
    try:
        text = path.read_text(encoding="ascii", errors="replace")
    except FileNotFoundError:
        return
    except OSError as error:
        log.warning("past replies in %s cannot be read: %s", path, error)
        return
    for line in text.splitlines():
        try:
            reply = json.loads(line)
        except ValueError:
            continue
        if isinstance(reply, list) and len(reply) > 1 and all(type(t) is int for t in reply):
            yield reply
