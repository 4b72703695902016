"""Split a streamed reply into text and tool calls.

Small models also write calls as JSON without their style's mark. Qwen2.5-Coder's template shows calls
with doubled braces in ``<tool_call>``; it writes them with single or doubled ones, closed once or
twice, bare, in a block of code, in other tags, and behind a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.tool_calls.forms import JSON, ArgumentsReader, reader_of
from engine.tool_calls.forms.json_form import JsonArguments
from engine.tool_calls.styles import CallStyle

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


@dataclass(frozen=True, slots=True)
class Content:
    """Text for people."""

    text: str


@dataclass(frozen=True, slots=True)
class Thought:
    """Text of a thought, which comes before the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStart:
    """The start of the ``index``-th call of the reply, to the tool ``name``."""

    index: int
    name: str


@dataclass(frozen=True, slots=True)
class Arguments:
    """More of the JSON arguments of the current call."""

    index: int
    text: str


Part = Content | Thought | CallStart | Arguments
_NAME = re.compile(r"[A-Za-z0-9_.-]*")


class CallReader:
    """Turn streamed text that follows ``grammar_of_calls`` into parts, each as soon as it is certain.

    A call that the reply made before with the same arguments is left out: small models that may call
    several tools repeat one call without end.
    """

    def __init__(
        self,
        style: CallStyle,
        *,
        required: bool = False,
        structured: bool = False,
        tools: Collection[str] = (),
        parallel: bool = True,
        schemas: Mapping[str, Any] | None = None,
    ) -> None:
        """``required``: the reply may hold nothing but calls. ``structured``: text outside
        calls is JSON. ``tools``: names of tools whose calls are also read without the style's
        mark at the start of a line. ``parallel``: whether more calls may follow such a call.
        ``schemas``: those of tools, by name, where values are read by their types."""
        self._style, self._required, self._structured = style, required, structured
        self._schemas = schemas or {}
        unmarked = tools and not structured and not style.whole and style.form == JSON
        self._unmarked = Unmarked(tools) if unmarked else None
        self._parallel = parallel
        self._text = ""  # not yet reported
        self._json: ArgumentsReader | None = None  # of the current call
        self._begun = self._plain = self._bare = False  # a call began, text was said, no mark
        self._begins_line = True
        self._call = ""  # the one begun last: its name, a line feed, its arguments
        self._made: list[str] = []
        self._maybe_repeated = False  # the call may repeat another and is not reported yet
        self.calls = 0
        """Calls reported so far."""
        self.repeated = False
        """True if a repeated call was left out."""

    def read(self, text: str) -> Iterator[Part]:
        """Yield the parts that the reply's next ``text`` completes."""
        self._text += text
        while (parts := self._next()) is not None:
            yield from parts

    def end(self) -> Iterator[Part]:
        """Yield the pending text at the reply's end, unless it is the beginning of a truncated call."""
        rest, self._text = self._text, ""
        if rest and not self._begun and not self._opens(rest):
            yield Content(rest)

    def _opens(self, rest: str) -> bool:
        """Return True if ``rest`` can only begin a call. In a ``whole`` style JSON may."""
        style = self._style
        if style.whole:
            return self._required or not self._structured
        named = self._unmarked is not None and '"name":"' in "".join(rest.split())
        return self._required or named or rest.startswith(style.trigger)

    def _next(self) -> Sequence[Part] | None:
        """Return the parts that the text completes, perhaps none; None if more text is needed."""
        if self._json is not None:
            return self._more_arguments(self._json)
        style = self._style
        if self._bare:
            return self._bare_call()
        if self._begun:
            return self._marked_call(style.tail + style.between + style.head)
        opened = style.opening + style.head
        at = self._text.find(opened)
        if at == 0 and (not style.whole or not self._plain):
            return self._marked_call(opened)
        if style.whole and self._plain:
            at = -1
        safe = at if at > 0 else len(self._text) - _overlap(self._text, opened, style, self._plain)
        if self._unmarked is not None:
            start, head = self._unmarked.find(self._text, begins_line=self._begins_line)
            if head is not None and not start:
                self._bare = True
                return self._begin(head[1], head.end())
            safe = min(safe, start)
        if not safe:
            return None
        said, self._text = self._text[:safe], self._text[safe:]
        self._plain, self._begins_line = True, said.endswith("\n")
        return [Content(said)]

    def _marked_call(self, before: str) -> Sequence[Part] | None:
        """Begin the next call once the text around its name is complete."""
        if not self._text.startswith(before):
            return None
        if not self._style.middle:  # the name ends where no name goes on
            name = _NAME.match(self._text, len(before))
            end = name.end() if name is not None else len(self._text)
            end = end if end < len(self._text) else -1
        else:
            end = self._text.find(self._style.middle, len(before))
        if end < 0:
            return None
        return self._begin(self._text[len(before) : end], end + len(self._style.middle))

    def _bare_call(self) -> Sequence[Part] | None:
        """Begin the next call without a mark; drop the text before it."""
        head = self._unmarked.find_next(self._text) if self._unmarked and self._parallel else None
        if head is not None:
            return self._begin(head[1], head.end())
        self._text = self._text[max(self._text.rfind("{"), 0) :]
        return None

    def _begin(self, name: str, end: int) -> Sequence[Part]:
        """Begin a call of ``name``, whose arguments start at ``end``."""
        self._text = self._text[end:]
        reader = (
            JsonArguments() if self._bare else reader_of(self._style.form, self._schema_of(name))
        )
        self._json, self._begun, self._call = reader, True, f"{name}\n"
        self._maybe_repeated = self._repeats()
        if self._maybe_repeated:
            return []
        self.calls += 1
        return [CallStart(self.calls - 1, name)]

    def _schema_of(self, name: str) -> Mapping[str, Any]:
        schema = self._schemas.get(name)
        return schema if isinstance(schema, Mapping) else {}

    def _more_arguments(self, json: ArgumentsReader) -> Sequence[Part] | None:
        length, more = json.read(self._text)
        if not length and not json.ended:
            return None
        self._text = self._text[length:]
        self._call += more
        if json.ended:
            self._json = None
        if not self._maybe_repeated:
            parts: list[Part] = [Arguments(self.calls - 1, more)] if more else []
        elif self._call in self._made and json.ended:
            self.repeated = True
            return []
        elif self._repeats() and not json.ended:
            return []
        else:
            self._maybe_repeated = False
            self.calls += 1
            name, arguments = self._call.split("\n", 1)
            parts = [CallStart(self.calls - 1, name), Arguments(self.calls - 1, arguments)]
        if json.ended:
            self._made.append(self._call)
        return parts

    def _repeats(self) -> bool:
        """Return True if the call may still turn out to repeat an earlier one."""
        return any(made.startswith(self._call) for made in self._made)


def _overlap(text: str, opened: str, style: CallStyle, plain: bool) -> int:
    """Return the length of the longest suffix of ``text`` with which a call may begin."""
    if style.whole:
        return len(text) if not plain and opened.startswith(text) else 0
    longest = min(len(opened) - 1, len(text))
    return next((size for size in range(longest, 0, -1) if opened.startswith(text[-size:])), 0)
