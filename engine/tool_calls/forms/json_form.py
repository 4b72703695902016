"""Arguments as a JSON object, which most models write."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


class JsonArguments:
    """Finds where a JSON object ends."""

    def __init__(self) -> None:
        self._depth, self._quoted, self._escaped = 0, False, False
        self.ended = False

    def read(self, text: str) -> tuple[int, str]:
        """Return how many characters of ``text`` belong to the object, and these."""
        length = self._length(text)
        return length, text[:length]

    def _length(self, text: str) -> int:
        for at, character in enumerate(text):
            if self._quoted:
                self._quoted = self._escaped or character != '"'
                self._escaped = not self._escaped and character == "\\"
            elif character == '"':
                self._quoted = True
            elif character in "{[":
                self._depth += 1
            elif character in "}]":
                if not self._depth:  # the object is missing
                    self.ended = True
                    return at
                self._depth -= 1
                if not self._depth:
                    self.ended = True
                    return at + 1
        return len(text)


def json_options(strict: bool) -> dict[str, Any]:
    """Return llguidance's options for a JSON schema; the schema's own "x-guidance" takes precedence.

    JSON in one line as ``json.dumps`` writes it: what models were trained to write in calls, what leaves
    most to be forced, and what no model can fill up with spaces without end.
    """
    one_line = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
    return {**one_line, "lenient": not strict}


def json_rule(schema: Mapping[str, Any], strict: bool) -> str:
    """Return what matches JSON by ``schema`` in Lark."""
    return "%json " + json.dumps({"x-guidance": json_options(strict), **schema})
