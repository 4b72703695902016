"""Messages in the form that chat templates take, which differs a little between families."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from engine.tool_calls.styles import CallStyle, is_harmony
from engine.values.messages import Message, pieces
from engine.values.tools import ToolCall, json_object

Turn = dict[str, Any]


def turns_of(
    messages: Sequence[Message], style: CallStyle, reasoning: str, template: str
) -> list[Turn]:
    """Return the messages as ``template`` takes them.

    ``style``: that of its calls. ``reasoning``: its name of an earlier thought. The template decides
    which of them it renders: most render those behind the last message of the user, which the model still
    needs for its tools.
    """
    if is_harmony(template):
        messages = [*_one_call_each(messages)]
    elif "tool_calls" not in template:
        messages = [_with_calls_written(each, style) for each in messages]
    turns = [_turn(each, reasoning) for each in messages]
    return _with_responses(turns) if "tool_responses" in template else turns


def _turn(message: Message, reasoning: str) -> Turn:
    """Return a message as templates take it: arguments as an object, or as text if they are cut off."""
    turn: Turn = {"role": message.role, "content": message.content}
    if message.images:
        turn["content"] = [
            {"type": "text", "text": each} if isinstance(each, str) else {"type": "image"}
            for each in pieces(message)
        ]
    if message.reasoning:
        turn[reasoning] = message.reasoning
    if message.tool_calls:
        turn["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": _arguments(call)},
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        turn["tool_call_id"] = message.tool_call_id
    if message.name is not None:
        turn["name"] = message.name
    return turn


def _arguments(call: ToolCall) -> dict[str, Any] | str:
    arguments = call.object
    return call.arguments if arguments is None else arguments


def _with_calls_written(message: Message, style: CallStyle) -> Message:
    """Return a message with its calls in its text, for a template that renders tools but no calls."""
    if not message.tool_calls:
        return message
    return replace(message, content=message.content + style.written(message.tool_calls))


def _one_call_each(messages: Sequence[Message]) -> Iterator[Message]:
    """Yield the messages with one call in each, before its result.

    gpt-oss calls one tool at a time. Its template renders the first call of a message alone, and refuses
    content beside a thought.
    """
    calls: dict[str, Message] = {}
    for message in messages:
        if message.tool_calls:
            yield from calls.values()
            thought = "\n\n".join(filter(None, (message.reasoning, message.content)))
            first, *more = message.tool_calls
            calls = {
                call.id: replace(message, content="", reasoning="", tool_calls=(call,))
                for call in more
            }
            yield replace(message, content="", reasoning=thought, tool_calls=(first,))
            continue
        if message.role == "tool" and message.tool_call_id in calls:
            yield calls.pop(str(message.tool_call_id))
        elif message.role != "tool":
            yield from calls.values()
            calls = {}
        yield message
    yield from calls.values()


def _with_responses(turns: Sequence[Turn]) -> list[Turn]:
    """Return the turns with what tools returned in the turn that called them, as Gemma 4 has it."""
    kept: list[Turn] = []
    names: dict[str, str] = {}
    for turn in turns:
        if turn["role"] == "tool" and kept and kept[-1].get("tool_calls"):
            name = turn.get("name") or names.get(turn.get("tool_call_id", ""), "unknown")
            value = json_object(turn["content"])
            response = {"name": name, "response": turn["content"] if value is None else value}
            kept[-1].setdefault("tool_responses", []).append(response)
            continue
        names = {call["id"]: call["function"]["name"] for call in turn.get("tool_calls", ())}
        kept.append(turn)
    return kept
