"""Tools for models whose chat template does not support them: described in text, called in text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from engine.tool_calls.styles import CallStyle
from engine.values.messages import Message
from engine.values.tools import ToolCall

_TOOLS_PROMPT = """\
You can call functions. Each line describes one, its parameters as a JSON schema:
{tools}

To call one, write this, with its name and its arguments as a JSON object, and nothing behind it:
{call}

What it returns follows between <tool_response> and </tool_response>."""


def in_words(
    messages: Sequence[Message], definitions: Sequence[Any], style: CallStyle
) -> list[Message]:
    """Return ``messages`` as plain turns, with ``definitions`` of tools in the system message."""
    turns = list(_plain(messages, style))
    if not definitions:
        return turns
    lines = "\n".join(json.dumps(each["function"], ensure_ascii=False) for each in definitions)
    example = style.written([ToolCall("", "NAME", "ARGUMENTS")])
    instructions = _TOOLS_PROMPT.format(tools=lines, call=example)
    if turns and turns[0].role == "system":
        return [Message("system", f"{turns[0].content}\n\n{instructions}"), *turns[1:]]
    return [Message("system", instructions), *turns]


def without_system(messages: Sequence[Message]) -> list[Message]:
    """Prepend the system message to the message after it, for templates without a system role."""
    if len(messages) < 2 or messages[0].role != "system":
        return list(messages)
    system, first, *rest = messages
    return [_joined(system, first), *rest]


def one_system(messages: Sequence[Message]) -> list[Message]:
    """Return ``messages`` with one system message at most, the first, for templates that take no more.

    Those at the beginning are joined. A later one becomes text of the user, joined to a user's message
    beside it.
    """
    turns: list[Message] = []
    was_late = False
    for message in messages:
        before = turns[-1].role if turns else "system"
        late = message.role == "system" != before
        role = "user" if late else message.role
        joins = turns and role == before and (role == "system" or late or was_late)
        turn = _joined(turns.pop(), message) if joins else message
        turns.append(replace(turn, role=role))
        was_late = late
    return turns


def _joined(first: Message, second: Message) -> Message:
    """Return ``second`` with the text and images of ``first`` before its own."""
    before = f"{first.content}\n\n"
    images = (replace(each, place=each.place + len(before)) for each in second.images)
    return replace(second, content=before + second.content, images=(*first.images, *images))


def _plain(messages: Sequence[Message], style: CallStyle) -> Iterator[Message]:
    """Write calls as the assistant's text, and tool results as one message of the user."""
    returned: list[str] = []
    for message in messages:
        if message.role == "tool":
            returned.append(f"<tool_response>\n{message.content}\n</tool_response>")
            continue
        if returned:
            yield Message("user", "\n".join(returned))
            returned = []
        parts = [message.content] if message.content else []
        if message.tool_calls:
            parts.append(style.written(message.tool_calls))
        yield Message(message.role, "\n".join(parts))
    if returned:
        yield Message("user", "\n".join(returned))
