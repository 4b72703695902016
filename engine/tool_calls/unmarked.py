"""Calls that small models write as JSON without their style's mark, as Qwen2.5-Coder does.

Its template shows calls with doubled braces in ``<tool_call>``; it writes them with single or doubled
ones, closed once or twice, bare, in a block of code, in other tags, and behind a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Collection

NAME = r'\{\{?\s*"name"\s*:\s*"'
MIDDLE = r'"\s*,\s*"arguments"\s*:'
"""Before and behind a call's name, for Python and for llguidance."""
_LONGEST = 512
"""Characters in which a call's head has to fit to be waited for."""
_MAY_OPEN = re.compile(r"\s*(?:[`<{\[j]|$)")
_NEXT_HEAD = re.compile(rf'{NAME}([^"]+){MIDDLE}\s*(?=\{{)')
_HEAD = re.compile(
    r"\s*(?:```\s*)?(?:```(?:json)?\s*)?(?:<[a-z_]+>\s*)?(?:\[\s*)?" + _NEXT_HEAD.pattern
)
_DENSE_LEAD = re.compile(r"`*(?:json)?(?:<[a-z_]+>)?\[?(\{\{?)?")
_CUT_LEAD = re.compile(r"(?:j|js|jso|<[a-z_]*)?")


class Unmarked:
    """Finds such calls of the tools ``names`` in a text that grows."""

    def __init__(self, names: Collection[str]) -> None:
        self._heads = {name: f'"name":"{name}","arguments":{{' for name in names}

    def find(self, text: str, *, begins_line: bool) -> tuple[int, re.Match[str] | None]:
        """Return where a line of ``text`` begins that may be a call, and its head once that is whole.

        The place is ``len(text)`` where no line may. The head's first group is the tool's name.
        """
        starts = [0] if begins_line else []
        for start in starts + [line.end() for line in re.finditer("\n", text)]:
            head = _HEAD.match(text, start)
            if head is not None and head[1] in self._heads:
                return start, head
            if head is None and _MAY_OPEN.match(text, start) and self._may_be(text[start:]):
                return start, None
        return len(text), None

    def find_next(self, text: str) -> re.Match[str] | None:
        """Return the head of the first call in ``text``, which stands behind another call."""
        heads = _NEXT_HEAD.finditer(text)
        return next((head for head in heads if head[1] in self._heads), None)

    def _may_be(self, text: str) -> bool:
        """Return whether more text could make ``text`` the head of a call."""
        if len(text) > _LONGEST:
            return False
        dense = "".join(text.split())
        lead = _DENSE_LEAD.match(dense)
        assert lead is not None  # it matches nothing too
        rest = dense[lead.end() :]
        if not lead[1]:
            return _CUT_LEAD.fullmatch(rest) is not None
        return any(head.startswith(rest) for head in self._heads.values())
