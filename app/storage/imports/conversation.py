"""A chat of another program, ready to be stored, and what of it was left out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from app.storage.rows import StoredMessage, SystemPrompt
from engine.thoughts import THINK, THOUGHT

MOST_MESSAGES = 20_000
"""Messages of one chat."""
LONGEST = 4_000_000
"""Characters of one message."""
PICTURE, FILE, SOUND, TOOL = "pictures", "files", "recordings", "calls of tools"
"""What may be left out."""


class NotAChat(ValueError):
    """A conversation without a message that can be read. The message says why."""


@dataclass(slots=True)
class Conversation:
    """One chat. ``updated``: seconds since 1970, if known. ``left_out`` counts by kind."""

    title: str = ""
    system: SystemPrompt | None = None
    updated: float | None = None
    messages: list[StoredMessage] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)

    def add(
        self,
        role: Literal["user", "assistant"],
        text: str,
        parent: int | None,
        *,
        shown: bool = True,
        model: str | None = None,
    ) -> int:
        """Add a message and return its number. Raises NotAChat if there are too many."""
        if len(self.messages) >= MOST_MESSAGES:
            raise NotAChat(f"it has more than {MOST_MESSAGES:,} messages")
        # A lone half of a surrogate pair cannot be stored.
        text = text[:LONGEST].replace("\0", "").encode("utf-8", "replace").decode()
        number = len(self.messages) + 1
        named = model and model[:200]
        self.messages.append(
            StoredMessage(number, role, text, parent=parent, shown=shown, model=named)
        )
        return number


def with_thought(thought: str, text: str) -> str:
    """Return a reply as models write it: its thought between marks, if it has one, then ``text``."""
    return f"{THINK}{thought}{THOUGHT}{text}" if thought else text


def text_of(value: object) -> str:
    """Return a value that should be a text, as one."""
    return value if isinstance(value, str) else ""


def seconds_of(value: object, unit: float = 1.0) -> float | None:
    """Return a time as seconds since 1970; None for what is no time before the year 3000."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    seconds = value * unit
    return seconds if 0 < seconds < 32_503_680_000 else None
