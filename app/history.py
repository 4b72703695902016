"""What a model is given of a chat."""

from __future__ import annotations

from collections.abc import Iterable

from engine.request import Message


def history(messages: Iterable[tuple[str, str]], system: str = "") -> tuple[Message, ...]:
    """The turns the model is given, from (role, text) pairs.

    A question whose reply never came to a word is left out: templates want roles to alternate.
    """
    turns: list[Message] = []
    for role, text in messages:
        if role == "assistant" and not text.strip():
            if turns and turns[-1].role == "user":
                turns.pop()
            continue
        turns.append(Message(role, text))
    if system.strip():
        turns.insert(0, Message("system", system.strip()))
    return tuple(turns)
