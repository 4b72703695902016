"""The messages of a chat that a model gets."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from engine.values.messages import Message


@dataclass(frozen=True, slots=True)
class TextFile:
    """A text file attached to a message."""

    name: str
    text: str


def history(messages: Iterable[Message], system: str = "") -> tuple[Message, ...]:
    """Return the messages for the model, after the ``system`` prompt.

    A question without a reply, or with an empty one, is left out: templates need alternating roles.
    """
    turns: list[Message] = []
    for message in messages:
        unanswered = bool(turns) and turns[-1].role == "user"
        if message.role == "assistant" and not message.content.strip():
            if unanswered:
                turns.pop()
            continue
        if message.role == "user" and unanswered:
            turns.pop()
        turns.append(message)
    if system.strip():
        turns.insert(0, Message("system", system.strip()))
    return tuple(turns)


def with_files(text: str, files: Iterable[TextFile]) -> str:
    """Return a message as the model reads it: each file's name and fenced text, then ``text``."""
    parts = [f"{file.name}\n{_fenced(file.text)}" for file in files]
    return "\n\n".join([*parts, text] if text.strip() else parts) or text


def _fenced(text: str) -> str:
    """Return ``text`` in a fence longer than any in it."""
    longest = max(map(len, re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}\n{text.rstrip()}\n{fence}"
