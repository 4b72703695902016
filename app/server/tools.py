"""Tools in OpenAI's words: what a body offers and asks for, and how calls are told."""

from __future__ import annotations

import json
import secrets
import string
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from app.server.structured import StructureBody
from engine.errors import InvalidRequest
from engine.events import Emitted, Event, Finished, FinishReason
from engine.tool_calls.reading import Arguments, Called, CallReader, Part, Said
from engine.tool_calls.styles import CallStyle
from engine.tool_calls.values import NO_PARAMETERS, Calling, Tool, ToolCall, ToolChoice

MAX_TOOLS = 128
"""Of a request, as OpenAI has it."""
_ID = string.ascii_letters + string.digits
_ID_LENGTH = 9
"""Some templates (Mistral's) take ids of this length alone."""


class FunctionBody(StructureBody):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ToolBody(StructureBody):
    type: Literal["function"]
    function: FunctionBody


class NamedFunctionBody(StructureBody):
    name: str


class NamedToolBody(StructureBody):
    type: Literal["function"]
    function: NamedFunctionBody


class CalledFunctionBody(StructureBody):
    name: str
    arguments: str | None = None


class ToolCallBody(StructureBody):
    """A call in an assistant's message."""

    id: str
    type: Literal["function"] = "function"
    function: CalledFunctionBody


class ToolsBody(BaseModel):
    """The fields of a body that are about tools."""

    model_config = ConfigDict(strict=True, extra="ignore")

    tools: list[ToolBody] | None = None
    tool_choice: Literal["auto", "required", "none"] | NamedToolBody | None = None
    parallel_tool_calls: bool | None = None


def tools_of(body: ToolsBody) -> dict[str, Any]:
    """The engine's ``tools`` and ``tool_choice``. Raises InvalidRequest.

    With ``none`` the model is not told of the tools, so it calls none.
    """
    choice, given = body.tool_choice, body.tools or []
    if not given:
        if choice == "required" or isinstance(choice, NamedToolBody):
            raise InvalidRequest(
                "tool_choice", "tool_choice asks for a call, but there are no tools. Send tools."
            )
        return {}
    if choice == "none":
        return {}
    if len(given) > MAX_TOOLS:
        raise InvalidRequest("tools", f"tools are {len(given)}; {MAX_TOOLS} are the most.")
    return {
        "tools": tuple(_tool(each.function) for each in given),
        "tool_choice": ToolChoice(
            Calling.REQUIRED if choice == "required" else Calling.AUTO,
            choice.function.name if isinstance(choice, NamedToolBody) else None,
            body.parallel_tool_calls is not False,
        ),
    }


def calls_of(calls: Sequence[ToolCallBody] | None, path: str) -> tuple[ToolCall, ...]:
    """Those of a message at ``path``. Raises InvalidRequest for arguments that are no JSON object."""
    found = []
    for at, call in enumerate(calls or ()):
        field = f"{path}.tool_calls[{at}].function.arguments"
        arguments = call.function.arguments or "{}"
        try:
            parsed = json.loads(arguments)
        except (ValueError, RecursionError):
            parsed = None
        if not isinstance(parsed, dict):
            raise InvalidRequest(field, f"{field} must be a JSON object, as text.")
        found.append(ToolCall(call.id, call.function.name, json.dumps(parsed, ensure_ascii=False)))
    return tuple(found)


class CallsInReply:
    """One choice's reply, told apart into content and calls."""

    def __init__(self, style: CallStyle) -> None:
        self._reader = CallReader(style)
        self.content = ""
        self.calls: list[dict[str, Any]] = []

    def add(self, event: Event) -> list[dict[str, Any]]:
        """The deltas that a stream tells of ``event``."""
        match event:
            case Emitted():
                return list(self._deltas(self._reader.read(event.text)))
            case Finished():
                return list(self._deltas((*self._reader.read(event.tail), *self._reader.end())))
            case _:
                return []

    @property
    def message(self) -> dict[str, Any]:
        """The whole reply's."""
        said = {"role": "assistant", "content": self.content, "refusal": None}
        if not self.calls:
            return said
        return said | {"content": self.content or None, "tool_calls": self.calls}

    def reason(self, reason: FinishReason | None) -> str | None:
        """Why it ended, in OpenAI's words."""
        return "tool_calls" if self.calls and reason is FinishReason.STOP else reason

    def _deltas(self, parts: Sequence[Part] | Iterator[Part]) -> Iterator[dict[str, Any]]:
        for part in parts:
            match part:
                case Said(text):
                    self.content += text
                    yield {"content": text}
                case Called(index, name):
                    function = {"name": name, "arguments": ""}
                    self.calls.append({"id": _new_id(), "type": "function", "function": function})
                    yield {
                        "tool_calls": [
                            {"index": index, **self.calls[-1], "function": dict(function)}
                        ]
                    }
                case Arguments(index, text):
                    self.calls[index]["function"]["arguments"] += text
                    yield {"tool_calls": [{"index": index, "function": {"arguments": text}}]}


def _tool(function: FunctionBody) -> Tool:
    given = function.parameters
    return Tool(
        function.name,
        function.description or "",
        json.dumps(given, ensure_ascii=False) if given else NO_PARAMETERS,
        bool(function.strict),
    )


def _new_id() -> str:
    return "".join(secrets.choice(_ID) for _ in range(_ID_LENGTH))
