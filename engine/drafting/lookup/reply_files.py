"""Past replies on disk: a file of token ids for each of two generations, one reply per line.

A line is a JSON list of the CRC-32 of the ids and the ids, so that damaged ids are never drafted. A crash
can cut off only the last line, which is dropped. Any other invalid line means that the file is damaged: a
warning is logged, and the file deleted. Errors of reading and writing are only logged, because they cost
drafts and no reply.
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
