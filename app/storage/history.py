"""The messages of a chat that a model gets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from engine.values.messages import Message


def history(messages: Iterable[Message], system: str = "") -> tuple[Message, ...]:
    """Return the messages for the model, after the ``system`` prompt.

    A question without a reply, or with an empty one, is left out: templates need alternating roles. For
    the same reason a question after results of tools that no reply followed joins the question before.
    """
    turns: list[Message] = []
    for message in messages:
        unanswered = bool(turns) and turns[-1].role == "user"
        if message.role == "assistant" and not (message.content.strip() or message.tool_calls):
            if unanswered:
                turns.pop()
            continue
        if message.role == "user" and unanswered:
            turns.pop()
        elif message.role == "user" and turns and turns[-1].role == "tool":
            _ask_before_calls(turns, message)
            continue
        turns.append(message)
    if system.strip():
        turns.insert(0, Message("system", system.strip()))
    return tuple(turns)


def _ask_before_calls(turns: list[Message], message: Message) -> None:
    """Add a question to the last one in ``turns``, or put it first if there is none."""
    at = next((at for at in reversed(range(len(turns))) if turns[at].role == "user"), None)
    if at is None:
        turns.insert(0, message)
        return
    begun = f"{turns[at].content}\n\n"
    images = (replace(each, place=each.place + len(begun)) for each in message.images)
    turns[at] = replace(
        turns[at], content=begun + message.content, images=(*turns[at].images, *images)
    )
