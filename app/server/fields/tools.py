"""Tools in OpenAI's words: what a body offers and asks for; a reply told apart into text and calls."""

from __future__ import annotations

import json
import secrets
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Tag

from app.server.fields.structured import StructureBody, check_closed
from engine.errors import InvalidRequest
from engine.request import Request
from engine.tool_calls.reading import Arguments, Called, CallReader, Part, Said
from engine.tool_calls.styles import CallStyle
from engine.values.tools import NO_PARAMETERS, Calling, Tool, ToolCall, ToolChoice, json_object

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


class AllowedBody(StructureBody):
    mode: Literal["auto", "required"]
    tools: list[NamedToolBody]


class AllowedToolsBody(StructureBody):
    """Some of the tools alone may be called."""

    type: Literal["allowed_tools"]
    allowed_tools: AllowedBody


class CalledFunctionBody(StructureBody):
    name: str
    arguments: str | None = None


class ToolCallBody(StructureBody):
    """A call in an assistant's message."""

    id: str
    type: Literal["function"] = "function"
    function: CalledFunctionBody


WORD, FUNCTION, ALLOWED = "(word)", "(function)", "(allowed_tools)"
"""What a choice may be, by tags that are names of no fields."""


def kind_of_choice(value: Any) -> str:
    """So that what is wrong is told of what was meant."""
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", "word")
    return f"({kind})"


def check_choice(value: Any, inner: str, form: str) -> Any:
    """A choice as it came. Raises ValueError for an object of another form than ``form``, in which a
    function is named ``inner``: where each protocol has the name is easily confused."""
    if isinstance(value, dict):
        kind = kind_of_choice(value)
        if kind not in (FUNCTION, ALLOWED) or (kind == FUNCTION and inner not in value):
            raise ValueError(f"must be 'auto', 'required', 'none', allowed_tools or {form}")
    return value


def _choice(value: Any) -> Any:
    return check_choice(value, "function", '{"type": "function", "function": {"name": NAME}}')


class ToolsBody(BaseModel):
    """The fields of a body that are about tools."""

    model_config = ConfigDict(strict=True, extra="ignore")

    tools: list[ToolBody] | None = None
    tool_choice: (
        Annotated[
            Annotated[Literal["auto", "required", "none"], Tag(WORD)]
            | Annotated[NamedToolBody, Tag(FUNCTION)]
            | Annotated[AllowedToolsBody, Tag(ALLOWED)],
            Discriminator(kind_of_choice),
            BeforeValidator(_choice),
        ]
        | None
    ) = None
    parallel_tool_calls: bool | None = None


def tools_of(body: ToolsBody) -> dict[str, Any]:
    """The engine's ``tools`` and ``tool_choice``. Raises InvalidRequest.

    With ``none`` the model is not told of the tools, so it calls none; and of those that are not allowed
    it is told neither.
    """
    choice, given = body.tool_choice, body.tools or []
    if isinstance(choice, AllowedToolsBody):
        given = _allowed(given, choice.allowed_tools)
        choice = choice.allowed_tools.mode
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
        "tools": tuple(_tool(each.function, at) for at, each in enumerate(given)),
        "tool_choice": ToolChoice(
            Calling.REQUIRED if choice == "required" else Calling.AUTO,
            choice.function.name if isinstance(choice, NamedToolBody) else None,
            body.parallel_tool_calls is not False,
        ),
    }


def calls_of(calls: Sequence[ToolCallBody] | None) -> tuple[ToolCall, ...]:
    """Those of a message."""
    return tuple(
        call_of(call.id, call.function.name, call.function.arguments) for call in calls or ()
    )


def call_of(id: str, name: str, arguments: str | None) -> ToolCall:
    """A call as a client sends it back. What is no JSON object stays as it is: it is what we told, where
    ``max_tokens`` cut the call."""
    text = arguments or "{}"
    parsed = json_object(text)
    return ToolCall(id, name, text if parsed is None else json.dumps(parsed, ensure_ascii=False))


def answered(id: str, names: Mapping[str, str], field: str, instead: str = "") -> str:
    """The tool whose call ``id``, which came in ``field``, a message answers. ``names``: those that were
    called, by the ids of their calls. Raises InvalidRequest for what answers none of them, with what
    could be done ``instead`` of sending the call."""
    if id not in names:
        raise InvalidRequest(
            field,
            f"{field} is {id[:80]!r}, which no call of this conversation has. Send the call before what "
            f"it returned{instead}.",
        )
    return names[id]


def _new_id() -> str:
    return "".join(secrets.choice(_ID) for _ in range(_ID_LENGTH))


@dataclass(slots=True)
class WrittenCall:
    """A call as far as a reply has written it."""

    name: str
    arguments: str = ""
    id: str = field(default_factory=_new_id)

    @property
    def object(self) -> dict[str, Any] | None:
        """The arguments; None where the reply was cut before their end."""
        return json_object(self.arguments)


class CallsInReply:
    """One choice's reply to a request, told apart into content and calls."""

    def __init__(self, style: CallStyle, request: Request) -> None:
        choice = request.tool_choice
        self._reader = CallReader(
            style,
            must=choice.must,
            structured=request.grammar is not None,
            offered=[tool.name for tool in request.tools],
            several=choice.parallel,
        )
        self.content = ""
        self.calls: list[WrittenCall] = []

    def add(self, text: str, *, last: bool) -> list[Part]:
        """What the reply's next ``text`` makes sure; ``last``: no more comes."""
        parts = [*self._reader.read(text), *(self._reader.end() if last else ())]
        for part in parts:
            match part:
                case Said(text):
                    self.content += text
                case Called(_, name):
                    self.calls.append(WrittenCall(name))
                case Arguments(index, text):
                    self.calls[index].arguments += text
        return parts

    @property
    def made(self) -> tuple[ToolCall, ...]:
        """All of them, the last as far as it was written, as a client would send them back."""
        return tuple(call_of(call.id, call.name, call.arguments) for call in self.calls)


def _allowed(tools: Sequence[ToolBody], allowed: AllowedBody) -> list[ToolBody]:
    names, known = [one.function.name for one in allowed.tools], {t.function.name for t in tools}
    for name in names:
        if name not in known:
            raise InvalidRequest(
                "tool_choice",
                f"tool_choice allows {name!r}, which is not among the tools: {', '.join(known)}.",
            )
    return [tool for tool in tools if tool.function.name in names]


def _tool(function: FunctionBody, at: int) -> Tool:
    given = function.parameters
    if function.strict and given:
        check_closed(given, f"tools[{at}].function.parameters")
    return Tool(
        function.name,
        function.description or "",
        json.dumps(given, ensure_ascii=False) if given else NO_PARAMETERS,
        bool(function.strict),
    )
