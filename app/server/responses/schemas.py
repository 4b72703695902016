"""The body of ``/v1/responses``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, TypeAdapter

from app.server.errors import REFUSED, Refused, is_nothing
from app.server.fields.schemas import (
    MAX_MESSAGES,
    Content,
    GenerationBody,
    MessageBody,
    TopLogprobs,
)
from app.server.fields.structured import Body, ResponseFormatBody, TextBody
from app.server.fields.tools import (
    ALLOWED,
    FUNCTION,
    WORD,
    AllowedBody,
    AllowedToolsBody,
    Effort,
    FunctionBody,
    NamedFunctionBody,
    NamedToolBody,
    ThinkingBody,
    ToolBody,
    ToolsBody,
    called_tool,
    check_choice,
    kind_of_choice,
)
from app.server.requests import message_of, text_of
from engine.errors import InvalidRequest
from engine.tool_calls.in_reply import call_of
from engine.values.messages import Message

LOGPROBS = "message.output_text.logprobs"
"""Their name in ``include``."""
_INCLUDED = (
    LOGPROBS,
    "reasoning.encrypted_content",
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "message.input_image.image_url",
    "web_search_call.action.sources",
    "web_search_call.results",
)
"""OpenAI's names. Clients always send the others, which are about items that no response here has."""
_TYPES = ("message", "reasoning", "function_call", "function_call_output", "item_reference")


class _SentBack(Body):
    """Fields of a response's item, which clients may send back."""

    id: str | None = None
    status: str | None = None


class MessageItem(_SentBack, MessageBody):
    type: Literal["message"]


class ReasoningPart(Body):
    type: Literal["reasoning_text", "summary_text"]
    text: str


class ReasoningItem(_SentBack):
    """A thought of the assistant, before its message or call."""

    type: Literal["reasoning"]
    summary: Annotated[list[ReasoningPart], Field(max_length=MAX_MESSAGES)] | None = None
    content: Annotated[list[ReasoningPart], Field(max_length=MAX_MESSAGES)] | None = None


class CallItem(_SentBack):
    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str


class OutputItem(_SentBack):
    """The result of a call."""

    type: Literal["function_call_output"]
    call_id: str
    output: Content


class ReferenceItem(Body):
    """A reference to an item of a stored response."""

    type: Literal["item_reference"]
    id: str


Item = Annotated[
    MessageItem | ReasoningItem | CallItem | OutputItem | ReferenceItem, Field(discriminator="type")
]


def _items(value: Any) -> Any:
    if isinstance(value, str):
        return [{"type": "message", "role": "user", "content": value}]
    if isinstance(value, list):
        return [_typed(item) for item in value]
    raise ValueError("must be a string or a list of items")


def _typed(item: Any) -> Any:
    """Add the type to an item without one. Raises ValueError for an unsupported type."""
    if not isinstance(item, dict):
        return item
    kind = item.get("type")
    if kind is None:
        referred = "id" in item and item.keys() <= {"id", "type"}
        return {**item, "type": "item_reference" if referred else "message"}
    if kind not in _TYPES:
        raise ValueError(
            "must hold messages, reasoning, calls and their results; items of type "
            f"{kind!r} are not supported"
        )
    return item


class FunctionToolBody(FunctionBody):
    """A tool; its fields are beside its type here."""

    type: Literal["function"]


def _functions(value: Any) -> Any:
    for tool in value if isinstance(value, list) else ():
        kind = tool.get("type") if isinstance(tool, dict) else None
        if kind not in (None, "function"):
            raise ValueError(f"must be functions; tools of type {kind!r} are not supported")
    return value


_FORM = '{"type": "function", "name": NAME}'


def _known(value: Any) -> Any:
    for name in value if isinstance(value, list) else ():
        if name not in _INCLUDED:
            raise ValueError(f"must be one of {', '.join(_INCLUDED)}")
    return value


class NamedFunctionToolBody(NamedFunctionBody):
    type: Literal["function"]


class AllowedFunctionsBody(Body):
    """Only some of the tools may be called."""

    type: Literal["allowed_tools"]
    mode: Literal["auto", "required"]
    tools: list[NamedFunctionToolBody]


class ReasoningBody(Body):
    effort: Effort | None = None
    summary: str | None = None


_Key = Annotated[str, Field(max_length=64)]
_Value = Annotated[str, Field(max_length=512)]


class ResponseBody(GenerationBody, ThinkingBody):
    """OpenAI's fields, and those that all APIs here share."""

    items: Annotated[
        list[Item],
        Field(min_length=1, max_length=MAX_MESSAGES, alias="input"),
        BeforeValidator(_items, json_schema_input_type=str | list[Item]),
    ]
    instructions: str | None = None
    text: TextBody | None = None
    tools: Annotated[list[FunctionToolBody] | None, BeforeValidator(_functions)] = None
    tool_choice: (
        Annotated[
            Annotated[Literal["auto", "required", "none"], Tag(WORD)]
            | Annotated[NamedFunctionToolBody, Tag(FUNCTION)]
            | Annotated[AllowedFunctionsBody, Tag(ALLOWED)],
            Discriminator(kind_of_choice),
            BeforeValidator(partial(check_choice, inner="name", form=_FORM)),
        ]
        | None
    ) = None
    parallel_tool_calls: bool | None = None
    reasoning: ReasoningBody | None = None
    max_output_tokens: int | None = None
    previous_response_id: str | None = None
    store: bool | None = None
    include: Annotated[list[str] | None, BeforeValidator(_known)] = None
    top_logprobs: TopLogprobs | None = None
    metadata: Annotated[dict[_Key, _Value], Field(max_length=16)] | None = None
    user: str | None = None

    @property
    def limit(self) -> int | None:
        return self.max_tokens if self.max_output_tokens is None else self.max_output_tokens

    @property
    def reply_format(self) -> ResponseFormatBody | None:
        format = None if self.text is None else self.text.format
        return None if format is None else format.response_format

    def engine_names(self) -> dict[str, str]:
        names = super().engine_names() | {
            "messages": "input",
            "template_values": "chat_template_kwargs",
        }
        if self.max_output_tokens is not None:
            names["max_tokens"] = "max_output_tokens"
        if "grammar" in names:
            names["grammar"] = names["grammar"].replace(
                "response_format.json_schema", "text.format"
            )
        for at in range(len(self.tools or ())):
            names[f"tools[{at}].function.parameters"] = f"tools[{at}].parameters"
        return names

    @property
    def offered(self) -> ToolsBody:
        """The tools in the form of chats."""
        choice = self.tool_choice
        return ToolsBody(
            tools=[ToolBody(type="function", function=tool) for tool in self.tools or ()],
            tool_choice=choice if choice is None or isinstance(choice, str) else _in_chats(choice),
            parallel_tool_calls=self.parallel_tool_calls,
        )


def _in_chats(
    choice: NamedFunctionToolBody | AllowedFunctionsBody,
) -> NamedToolBody | AllowedToolsBody:
    if isinstance(choice, NamedFunctionToolBody):
        return NamedToolBody(type="function", function=choice)
    named = [NamedToolBody(type="function", function=tool) for tool in choice.tools]
    return AllowedToolsBody(
        type="allowed_tools", allowed_tools=AllowedBody(mode=choice.mode, tools=named)
    )


REFUSED_IN_RESPONSES: Refused = {
    **REFUSED,
    "background": ("background mode", is_nothing),
    "conversation": ("conversations; use previous_response_id", is_nothing),
    "prompt": ("stored prompts", is_nothing),
    "truncation": ("truncation", lambda value: value in (None, "disabled")),
    "n": ("several choices", lambda value: value in (None, 1)),
}


Find = Callable[[str, str], dict[str, Any]]
"""Returns the stored item of an id; errors name the field."""
_ITEM: TypeAdapter[Item] = TypeAdapter(Item)


def resolved(items: Sequence[Item], find: Find) -> list[Item]:
    """Return ``items`` with references replaced by their items. Raises what ``find`` raises."""
    return [
        _ITEM.validate_python(find(item.id, f"input[{at}].id"))
        if isinstance(item, ReferenceItem)
        else item
        for at, item in enumerate(items)
    ]


def conversation_of(items: Sequence[Item], before: Sequence[Message] = ()) -> tuple[Message, ...]:
    """Return ``before`` and the messages of ``items``. Calls belong to the assistant's message before
    them, and a thought to the one behind it.

    Raises ApiError for content that is no text, and InvalidRequest for results without a call.
    """
    messages = list(before)
    names = {call.id: call.name for message in before for call in message.tool_calls}
    thought = ""
    for at, item in enumerate(items):
        path = f"input[{at}]"
        match item:
            case MessageItem(role="tool"):
                raise InvalidRequest(
                    f"{path}.role",
                    f"{path}.role is 'tool'; send a tool's result as an item of type "
                    "'function_call_output', with the call's call_id and its output.",
                )
            case ReasoningItem():
                thought = "\n\n".join(part.text for part in item.content or item.summary or ())
            case MessageItem():
                message = message_of(item, path)
                if message.role == "assistant" and not message.reasoning:
                    message, thought = replace(message, reasoning=thought), ""
                messages.append(message)
            case CallItem():
                call = call_of(item.call_id, item.name, item.arguments)
                names[call.id] = call.name
                if not messages or messages[-1].role != "assistant" or thought:
                    messages.append(Message("assistant", "", reasoning=thought))
                    thought = ""
                calls = (*messages[-1].tool_calls, call)
                messages[-1] = replace(messages[-1], tool_calls=calls)
            case OutputItem():
                instead = ", or the response that made it as previous_response_id"
                name = called_tool(item.call_id, names, f"{path}.call_id", instead)
                text = text_of(item.output, f"{path}.output")
                messages.append(Message("tool", text, tool_call_id=item.call_id, name=name))
            case ReferenceItem():
                raise AssertionError("references are resolved before")
    return tuple(messages)
