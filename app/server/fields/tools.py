"""Fields about tools in OpenAI's form, those that a body offers and calls that a client sends back; and
about thinking: how much, to what budget, and what the chat template is told."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BeforeValidator, Discriminator, Field, Tag

from app.server.fields.structured import Body, check_closed
from engine.errors import InvalidRequest
from engine.request import MAX_TEMPLATE_VALUES, OptionValue
from engine.tool_calls.in_reply import call_of
from engine.values import require
from engine.values.tools import NO_PARAMETERS, Calling, Tool, ToolCall, ToolChoice

MAX_TOOLS = 128
"""Tools of a request, at most, as in OpenAI's API."""


class NamedFunctionBody(Body):
    name: str


class FunctionBody(NamedFunctionBody):
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ToolBody(Body):
    type: Literal["function"]
    function: FunctionBody


class NamedToolBody(Body):
    type: Literal["function"]
    function: NamedFunctionBody


class AllowedBody(Body):
    mode: Literal["auto", "required"]
    tools: list[NamedToolBody]


class AllowedToolsBody(Body):
    """Only some of the tools may be called."""

    type: Literal["allowed_tools"]
    allowed_tools: AllowedBody


class CalledFunctionBody(NamedFunctionBody):
    arguments: str | None = None


class ToolCallBody(Body):
    """A call in an assistant's message."""

    id: str
    type: Literal["function"] = "function"
    function: CalledFunctionBody


WORD, FUNCTION, ALLOWED = "(word)", "(function)", "(allowed_tools)"
"""Kinds of a choice: tags that cannot be confused with names of fields."""


def kind_of_choice(value: Any) -> str:
    """Return the tag of a choice, so that errors are about the kind that was meant."""
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", "word")
    return f"({kind})"


_FORM = '{"type": "function", "function": {"name": NAME}}'


def check_choice(value: Any, inner: str, form: str) -> Any:
    """Return a choice. Raises ValueError for an object without the field ``inner``, which ``form`` shows:
    protocols have a function's name in different places."""
    if isinstance(value, dict):
        kind = kind_of_choice(value)
        if kind not in (FUNCTION, ALLOWED) or (kind == FUNCTION and inner not in value):
            raise ValueError(f"must be 'auto', 'required', 'none', allowed_tools or {form}")
    return value


class ToolsBody(Body):
    """The fields of a body that are about tools."""

    tools: list[ToolBody] | None = None
    tool_choice: (
        Annotated[
            Annotated[Literal["auto", "required", "none"], Tag(WORD)]
            | Annotated[NamedToolBody, Tag(FUNCTION)]
            | Annotated[AllowedToolsBody, Tag(ALLOWED)],
            Discriminator(kind_of_choice),
            BeforeValidator(partial(check_choice, inner="function", form=_FORM)),
        ]
        | None
    ) = None
    parallel_tool_calls: bool | None = None


def tools_of(body: ToolsBody) -> dict[str, Any]:
    """Return the engine's ``tools`` and ``tool_choice``. Raises InvalidRequest.

    With ``none`` the model does not see the tools, so it calls none; nor does it see tools that are not
    allowed.
    """
    choice, tools = body.tool_choice, body.tools or []
    if isinstance(choice, AllowedToolsBody):
        tools = _allowed(tools, choice.allowed_tools)
        choice = choice.allowed_tools.mode
    if not tools:
        if choice == "required" or isinstance(choice, NamedToolBody):
            raise InvalidRequest(
                "tool_choice", "tool_choice requires a call, but there are no tools. Send tools."
            )
        return {}
    if choice == "none":
        return {}
    many = f"has {len(tools)} entries; at most {MAX_TOOLS} are allowed."
    require(len(tools) <= MAX_TOOLS, "tools", many)
    return {
        "tools": tuple(_tool(each.function, at) for at, each in enumerate(tools)),
        "tool_choice": ToolChoice(
            Calling.REQUIRED if choice == "required" else Calling.AUTO,
            choice.function.name if isinstance(choice, NamedToolBody) else None,
            body.parallel_tool_calls is not False,
        ),
    }


def calls_of(calls: Sequence[ToolCallBody] | None) -> tuple[ToolCall, ...]:
    """Return the calls of a message."""
    return tuple(
        call_of(call.id, call.function.name, call.function.arguments) for call in calls or ()
    )


def called_tool(id: str, names: Mapping[str, str], field: str, instead: str = "") -> str:
    """Return the name of the tool that call ``id`` called. ``names``: by ids of calls.

    Raises InvalidRequest, which names ``field``, for an unknown id; ``instead`` is another remedy than
    sending the call.
    """
    if id not in names:
        raise InvalidRequest(
            field,
            f"{field} is {id[:80]!r}, which no earlier call has. Send the call before its "
            f"result{instead}.",
        )
    return names[id]


def _allowed(tools: Sequence[ToolBody], allowed: AllowedBody) -> list[ToolBody]:
    names, offered = [one.function.name for one in allowed.tools], {t.function.name for t in tools}
    for name in names:
        if name not in offered:
            raise InvalidRequest(
                "tool_choice",
                f"tool_choice allows {name!r}, which is not one of the tools: "
                f"{', '.join(offered)}.",
            )
    return [tool for tool in tools if tool.function.name in names]


def _tool(function: FunctionBody, at: int) -> Tool:
    parameters = function.parameters
    if function.strict and parameters:
        check_closed(parameters, f"tools[{at}].function.parameters")
    return Tool(
        function.name,
        function.description or "",
        json.dumps(parameters, ensure_ascii=False) if parameters else NO_PARAMETERS,
        bool(function.strict),
    )


Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
"""OpenAI's, and "max" of other APIs."""
_ENGINE: dict[str, str] = {"none": "off", "minimal": "low", "xhigh": "high", "max": "high"}
_UNLIMITED = -1


class ThinkingBody(Body):
    """``thinking_budget`` is Qwen's name; vLLM and llama.cpp have the others."""

    reasoning_effort: Effort | None = None
    thinking_budget: Annotated[
        int | None,
        Field(
            ge=_UNLIMITED,
            validation_alias=AliasChoices(
                "thinking_budget",
                "thinking_token_budget",
                "thinking_budget_tokens",
                "reasoning_budget_tokens",
            ),
        ),
    ] = None
    chat_template_kwargs: (
        Annotated[dict[str, OptionValue | None], Field(max_length=MAX_TEMPLATE_VALUES)] | None
    ) = None


def thinking_of(body: ThinkingBody, effort: str | None = None) -> dict[str, Any]:
    """Return the engine's fields. ``effort``: one that another field of the body has."""
    effort = body.reasoning_effort or effort or ""
    values = body.chat_template_kwargs or {}
    budget = body.thinking_budget
    return {
        "thinking": _ENGINE.get(effort, effort),
        "thinking_budget": None if budget == _UNLIMITED else budget,
        "template_values": tuple(
            (name, value) for name, value in values.items() if value is not None
        ),
    }
