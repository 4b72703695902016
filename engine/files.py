"""Files and texts from outside: read within bounds of size, values and depth; private ones written whole.

Whatever others wrote may be endless, huge or nested so deep that a parser overflows its stack. All JSON
but the bodies of HTTP requests is parsed here, and those are counted here; YAML is checked in
``engine.yaml_text``.
"""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path
from typing import Any

from engine.errors import DiskError

LARGEST = 256 << 20
"""Bytes of a JSON file; tokenizers have some tens of millions."""
DEEPEST = 100
"""Lists and objects within each other."""
MOST_CONTAINERS = 2**22
"""Lists and objects of a text; a large tokenizer has half a million merges."""
MOST_VALUES = 2**24
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\Z)', re.DOTALL)
"""A string of JSON, or one that does not end. It never goes back: each byte takes the same time."""
TOO_DEEP = f"it is nested more than {DEEPEST} levels deep"


def expanded(path: str | Path) -> Path:
    """Return the path with the home folder for ``~``; for that of nobody, ``~nobody``, as it is."""
    return Path(os.path.expanduser(path))


class Unread(OSError):
    """A file is not read because of what it is. ``strerror`` says why."""

    def __init__(self, why: str) -> None:
        super().__init__(0, why)

    def __str__(self) -> str:
        return str(self.strerror)  # no number, which means nothing here


class TooMany(ValueError):
    """A text holds more values than its reader takes."""


def bounded(path: Path, most: int = LARGEST) -> bytes:
    """Return what a regular file holds. Raises OSError, also for others and for more than ``most`` bytes.

    Devices and pipes have no end, or wait for somebody; and a file may say that it is shorter than it is.
    """
    # Not to wait for the other end of a pipe; regular files do not care.
    number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(number, "rb") as file:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise Unread("it is not a regular file")
        found = file.read(most + 1)
    if len(found) > most:
        raise Unread(f"it is larger than {most >> 20} MB")
    return found


def read_json(path: Path, most: int = LARGEST) -> Any:
    """Return the value in a JSON file. Raises OSError as ``bounded``, ValueError as ``parse_json``."""
    return parse_json(bounded(path, most).decode("utf-8"))


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text. Raises ValueError: a JSONDecodeError where it is no JSON."""
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    check_counts(raw, MOST_CONTAINERS, MOST_VALUES)
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
    if is_deeper(value, DEEPEST):
        raise ValueError(TOO_DEEP)
    return value


def is_deeper(value: Any, most: int) -> bool:
    """Return whether more than ``most`` lists and objects of ``value`` stand within each other."""
    layer = [value]
    for _ in range(most + 1):
        containers = [each for each in layer if isinstance(each, list | dict)]
        if not containers:
            return False
        layer = [
            child
            for each in containers
            for child in (each if isinstance(each, list) else each.values())
        ]
    return True


def check_counts(raw: bytes, containers: int, values: int) -> None:
    """Raise TooMany for more lists and objects, or values, than that. What stands in strings is none."""
    for marks, most, what in ((b"[{", containers, "lists and objects"), (b",", values, "values")):
        if _count(raw, marks) > most and _count(_STRING.sub(b"", raw), marks) > most:
            raise TooMany(f"more than {most} {what}")


def _count(raw: bytes, marks: bytes) -> int:
    return sum(raw.count(mark) for mark in marks)


def size_on_disk(path: Path) -> int:
    """Return the bytes of a file or of everything in a folder; 0 if it is gone. Links count nothing."""
    try:
        if path.is_symlink():
            return 0
        return path.stat().st_size if path.is_file() else sum(map(size_on_disk, path.iterdir()))
    except OSError:
        return 0


def write_private(path: Path, text: str) -> None:
    """Replace a file by one that nobody else can read at any moment. Raises DiskError; the old
    file is kept then."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")  # two apps may write at once
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        part.unlink(missing_ok=True)
        try:
            with open(part, "x", encoding="utf-8", opener=private) as stream:
                stream.write(text)
            part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise DiskError.at(path.parent, error) from error


def private(path: str, flags: int) -> int:
    """Open a file as ``open``'s opener does; one that is made is its owner's alone."""
    return os.open(path, flags, 0o600)
