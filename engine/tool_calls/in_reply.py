"""The calls in a reply, and the rest of its text."""

from __future__ import annotations

import secrets
import string
from dataclasses import dataclass, field
from typing import Any

from engine.request import Request
from engine.tool_calls.reading import Arguments, CallReader, CallStart, Content, Part
from engine.tool_calls.styles import CallStyle
from engine.values.tools import ToolCall, json_object, json_text

_ID = string.ascii_letters + string.digits
_ID_LENGTH = 9
"""Some templates (Mistral's) take only ids of this length."""


def call_of(id: str, name: str, arguments: str | None) -> ToolCall:
    """Return a call as it is sent back. Arguments that are no JSON object stay as they are: they
    are ours, cut by ``max_tokens``."""
    text = arguments or "{}"
    parsed = json_object(text)
    return ToolCall(id, name, text if parsed is None else json_text(parsed))


def _new_id() -> str:
    return "".join(secrets.choice(_ID) for _ in range(_ID_LENGTH))


@dataclass(slots=True)
class WrittenCall:
    """A call in a reply, perhaps incomplete."""

    name: str
    arguments: str = ""
    id: str = field(default_factory=_new_id)

    @property
    def object(self) -> dict[str, Any] | None:
        """The arguments; None if they are incomplete."""
        return json_object(self.arguments)


class CallsInReply:
    """A reply's text split into content and calls."""

    def __init__(self, style: CallStyle, request: Request) -> None:
        choice = request.tool_choice
        self._reader = CallReader(
            style,
            required=choice.must,
            structured=request.grammar is not None,
            tools=[tool.name for tool in request.tools],
            parallel=choice.parallel,
            schemas={tool.name: tool.schema for tool in request.tools},
        )
        self.content = ""
        self.calls: list[WrittenCall] = []

    def add(self, text: str, *, last: bool) -> list[Part]:
        """Add the next ``text``; return the parts that are certain now. ``last``: no more text comes."""
        parts = [*self._reader.read(text), *(self._reader.end() if last else ())]
        for part in parts:
            match part:
                case Content(text):
                    self.content += text
                case CallStart(_, name):
                    self.calls.append(WrittenCall(name))
                case Arguments(index, text):
                    self.calls[index].arguments += text
        return parts

    @property
    def made(self) -> tuple[ToolCall, ...]:
        """The calls as a client would send them back."""
        return tuple(call_of(call.id, call.name, call.arguments) for call in self.calls)
