"""A chat of another program, ready to be stored, and what of it was left out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, Any, Literal

from app.storage.rows import StoredMessage, SystemPrompt
from engine.files import parse_json
from engine.thoughts import THINK, THOUGHT

MOST_MESSAGES = 20_000
"""Messages of one chat."""
LONGEST = 4_000_000
"""Characters of one message."""
PICTURE, FILE, SOUND, TOOL = "pictures", "files", "recordings", "calls of tools"
"""What may be left out."""


class NotAChat(ValueError):
    """A conversation without a message that can be read. The message says why."""


@dataclass(slots=True)
class Conversation:
    """One chat. ``updated``: seconds since 1970, if known. ``left_out`` counts by kind."""

    title: str = ""
    system: SystemPrompt | None = None
    updated: float | None = None
    messages: list[StoredMessage] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)

    def add(
        self,
        role: Literal["user", "assistant"],
        text: str,
        parent: int | None,
        *,
        shown: bool = True,
        model: str | None = None,
    ) -> int:
        """Add a message and return its number. Raises NotAChat if there are too many."""
        if len(self.messages) >= MOST_MESSAGES:
            raise NotAChat(f"it has more than {MOST_MESSAGES:,} messages")
        text = text_of(text[:LONGEST])
        number = len(self.messages) + 1
        named = model and model[:200]
        self.messages.append(
            StoredMessage(number, role, text, parent=parent, shown=shown, model=named)
        )
        return number


def with_thought(thought: str, text: str) -> str:
    """Return a reply as models write it: its thought between marks, if it has one, then ``text``."""
    return f"{THINK}{thought}{THOUGHT}{text}" if thought else text


def text_of(value: object) -> str:
    """Return a value that should be a text, as one that can be stored: without zeros, and without halves
    of surrogate pairs, which programs leave where they cut a title."""
    text = value if isinstance(value, str) else ""
    return text.replace("\0", "").encode("utf-8", "replace").decode()


def dict_of(value: object) -> dict[str, Any]:
    """Return a value that should be an object, as one."""
    return value if isinstance(value, dict) else {}


def list_of(value: object) -> list[Any]:
    """Return a value that should be a list, as one."""
    return value if isinstance(value, list) else []


def seconds_of(value: object, unit: float = 1.0) -> float | None:
    """Return a time as seconds since 1970; None for what is no time before the year 3000."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    seconds = value * unit
    return seconds if 0 < seconds < 32_503_680_000 else None


LARGEST_ITEM = 64 << 20
"""Bytes of one object."""
LARGEST_LIST = 4 << 30
"""Bytes of a whole list, unpacked."""
MOST_CONTAINERS, MOST_VALUES = 1 << 18, 1 << 20
"""Lists and objects of one object, and values."""
_BLOCK = 1 << 16
"""Bytes that are searched by one call, during which no other thread runs."""
_REST = rb'(?:[^"\\]++|\\.)*+("?)'
_SIGNS = re.compile(rb'"' + _REST + rb"|[\[\]{},]", re.DOTALL)
"""Strings, brackets and commas. A string without its group has not ended yet."""
_STRING = re.compile(_REST, re.DOTALL)
"""What follows of a string that began in an earlier block."""


class TooLarge(ValueError):
    """An object or a list is larger than can be read."""


def objects(file: IO[bytes]) -> Iterator[Any]:
    """Yield the objects of a JSON list; of a single object, that one.

    An object that cannot be parsed is yielded as the ValueError. Raises ValueError if the last one does
    not end, and TooLarge.
    """
    buffer, begin, at, depth, total, quoted = bytearray(), -1, 0, 0, 0, False
    containers = values = 0
    while block := file.read(_BLOCK):
        done = at if begin < 0 else begin
        del buffer[:done]
        buffer += block
        at, begin = at - done, -1 if begin < 0 else 0
        total += len(block)
        if total > LARGEST_LIST:
            raise TooLarge(f"it is larger than {LARGEST_LIST >> 30} GB")
        while match := (_STRING.match if quoted else _SIGNS.search)(buffer, at):
            at, sign = match.end(), match[0][:1]
            if quoted or sign == b'"':
                quoted = not match[1]
                if quoted:
                    break
            elif sign == b",":
                values += 1
            elif sign in b"{[":
                if begin < 0 and sign == b"{":
                    begin, depth = match.start(), 0
                depth, containers = depth + 1, containers + 1
            else:
                depth -= 1
                if begin >= 0 and depth == 0:
                    yield _parsed(bytes(buffer[begin:at]))
                    begin, containers, values = -1, 0, 0
            if containers > MOST_CONTAINERS or values > MOST_VALUES:
                raise TooLarge(f"one chat in it has more than {MOST_VALUES:,} values")
        else:
            at = len(buffer)
        if len(buffer) - (at if begin < 0 else begin) > LARGEST_ITEM:
            raise TooLarge(f"one chat in it is larger than {LARGEST_ITEM >> 20} MB")
    if begin >= 0:
        raise ValueError("it ends in the middle of a chat")


def _parsed(raw: bytes) -> Any:
    try:
        return parse_json(raw)
    except ValueError as error:  # UnicodeDecodeError is one
        return error
