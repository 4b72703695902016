"""Past replies on disk: two files of token ids, a line a reply, the newer and the older generation.

A line is a JSON list, the CRC-32 of what follows and then the ids, so that no damaged id is ever
drafted. A crash can cut off the last line only, and that line is dropped. Anything else that is no
reply means the file was damaged: it is said, and begun afresh. Failing to read or write costs drafts,
never a reply, so it is logged and left.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

from engine.files import private

log = logging.getLogger(__name__)

NEWER, OLDER = "newer.jsonl", "older.jsonl"


class ReplyFiles:
    """Both generations of one folder, which is made with the first reply."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self) -> tuple[list[list[int]], list[list[int]]]:
        """The older replies, then the newer ones."""
        return self._read(self.folder / OLDER), self._read(self.folder / NEWER)

    def add(self, reply: Sequence[int]) -> None:
        """Appends to the newer generation."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(self.folder / NEWER, "ab", opener=private) as file:
                file.write(line_of(reply))
        except OSError as error:
            log.warning("a reply cannot be kept in %s: %s", self.folder, error)

    def turn(self) -> None:
        """The newer generation becomes the older one, whose replies are dropped."""
        try:
            os.replace(self.folder / NEWER, self.folder / OLDER)
        except FileNotFoundError:
            pass
        except OSError as error:
            log.warning("past replies in %s cannot move on: %s", self.folder, error)

    def _read(self, path: Path) -> list[list[int]]:
        try:
            data = path.read_bytes()
            whole = data.rfind(b"\n") + 1
            if whole < len(data):  # the next reply must not be written behind half a line
                os.truncate(path, whole)
        except FileNotFoundError:
            return []
        except OSError as error:
            log.warning("past replies in %s cannot be read: %s", path, error)
            return []
        try:
            return [_reply(line) for line in data[:whole].splitlines()]
        except ValueError as error:
            log.warning("past replies in %s are damaged (%s): they are begun afresh", path, error)
            _remove(path)
            return []


def line_of(reply: Sequence[int]) -> bytes:
    """How a reply stands in a file."""
    ids = b",".join(b"%d" % token for token in reply)
    return b"[%d,%s]\n" % (crc32(ids), ids)


def _reply(line: bytes) -> list[int]:
    """Raises ValueError for a line that is not as ``line_of`` writes it."""
    reply = [int(number) for number in line[1:-1].split(b",")[1:]]
    if len(reply) < 2 or line_of(reply) != line + b"\n":
        raise ValueError("a line is not as it was written")
    return reply


def _remove(path: Path) -> None:
    try:
        path.unlink()
    except OSError as error:
        log.warning("%s cannot be removed: %s", path, error)
