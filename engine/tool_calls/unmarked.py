"""Calls that small models write as JSON, bare or as a block of code, where their template has a mark."""

from __future__ import annotations

import re
from collections.abc import Collection

from engine.tool_calls.values import json_object

_FENCES = ("", "```json", "```", "``````json", "``````")
"""What may stand before a call without its style's mark: a block of code begins, or one ends first."""
_UNMARKED = re.compile(
    r'\s*(?:```\s*)?(?:```(?:json)?\s*)?\{\s*"name"\s*:\s*"([^"]+)"\s*,\s*"arguments"\s*:\s*(?=\{)'
)


class Unmarked:
    """Looks for such a call of one of the tools ``names`` at the beginning of a text that grows."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names
        self._read, self._arguments = 0, JsonObject()
        self.possible = True
        """Whether the text may still be one."""

    def find(self, text: str) -> tuple[str, str] | None:
        """The tool's name, and the text from the call's arguments on, once the call is whole in ``text``,
        which begins with what was given before."""
        head = _UNMARKED.match(text)
        if head is None:
            dense = "".join(text.split())
            heads = (
                f'{f}{{"name":"{name}","arguments":{{' for f in _FENCES for name in self._names
            )
            self.possible = any(each.startswith(dense) for each in heads)
            return None
        if head[1] not in self._names:
            self.possible = False
            return None
        self._read = max(self._read, head.end())
        if not self._arguments.ended:
            self._read += self._arguments.read(text[self._read :])
        rest = text[self._read :].lstrip()
        if not self._arguments.ended or not rest:
            return None
        arguments = text[head.end() : self._read]
        self.possible = rest[0] == "}" and json_object(arguments) is not None
        return (head[1], arguments + rest[1:]) if self.possible else None


class JsonObject:
    """Finds where a JSON object ends."""

    def __init__(self) -> None:
        self._depth, self._quoted, self._escaped = 0, False, False
        self.ended = False

    def read(self, text: str) -> int:
        """How many characters of ``text`` belong to it."""
        for at, character in enumerate(text):
            if self._quoted:
                self._quoted = self._escaped or character != '"'
                self._escaped = not self._escaped and character == "\\"
            elif character == '"':
                self._quoted = True
            elif character in "{[":
                self._depth += 1
            elif character in "}]":
                self._depth -= 1
                if not self._depth:
                    self.ended = True
                    return at + 1
        return len(text)
