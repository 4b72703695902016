"""Convert the items of a response's input to the messages of a conversation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter

from app.server.fields.tools import called_tool
from app.server.requests import message_of, text_of
from app.server.responses.schemas import (
    CallItem,
    Item,
    MessageItem,
    OutputItem,
    ReasoningItem,
    ReferenceItem,
)
from engine.errors import InvalidRequest
from engine.tool_calls.in_reply import call_of
from engine.values.messages import Message

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
                messages.append(_output(item, path, names))
            case ReferenceItem():
                raise AssertionError("references are resolved before")
    return tuple(messages)


def _output(item: OutputItem, path: str, names: dict[str, str]) -> Message:
    instead = ", or the response that made it as previous_response_id"
    name = called_tool(item.call_id, names, f"{path}.call_id", instead)
    text = text_of(item.output, f"{path}.output")
    return Message("tool", text, tool_call_id=item.call_id, name=name)
