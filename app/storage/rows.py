"""Chats, folders and messages as values, and how they are read from rows and written to them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from app.storage.history import TextFile, with_files
from engine.files import parse_json
from engine.thoughts import Thoughts, split
from engine.values.messages import Message


@dataclass(frozen=True, slots=True)
class SystemPrompt:
    """A chat's system prompt, and the name of the preset that it was taken from."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Chat:
    """A conversation in the list. ``system`` None: that of the settings."""

    id: int
    title: str
    updated: float
    folder: int | None = None
    system: SystemPrompt | None = None


@dataclass(frozen=True, slots=True)
class Folder:
    """A group of chats. ``folded``: its chats are hidden in the list."""

    id: int
    name: str
    folded: bool


Status = Literal["running", "done", "length", "cancelled", "failed", "interrupted"]
STATUSES: tuple[str, ...] = get_args(Status)

Figures = dict[str, int | float | bool | list[Any] | dict[str, Any] | None]
"""What is stored of a reply's statistics."""


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """One message. ``marks``: where each token of a reply came from, see ``app.ui.rounds.view``.

    ``siblings``: ids of all messages with the same parent, itself included, oldest first.
    ``left_out``: it is shown but not given to a model. ``model`` and ``method``: what wrote a reply."""

    id: int
    role: Literal["user", "assistant"]
    text: str
    chat: int = 0
    marks: str = ""
    status: Status = "done"
    error: str | None = None
    statistics: Figures | None = None
    parent: int | None = None
    siblings: tuple[int, ...] = ()
    shown: bool = True
    left_out: bool = False
    files: tuple[TextFile, ...] = ()
    model: str | None = None
    method: str | None = None

    @property
    def parts(self) -> Thoughts:
        """A reply's thought and answer; a user's message has only an answer."""
        if self.role != "assistant":
            return Thoughts.none(self.text)
        thought = (self.statistics or {}).get("thought")
        return split(self.text, opened=isinstance(thought, dict) and bool(thought.get("opened")))

    @property
    def turn(self) -> Message:
        """The message as a model gets it."""
        parts = self.parts
        return Message(self.role, with_files(parts.answer, self.files), reasoning=parts.thought)


COLUMNS = (
    "select id, chat, role, text, marks, status, error, statistics, parent, shown, left_out, files, "
    "model, method from messages"
)


def read_message(row: dict[str, Any], siblings: Iterable[int]) -> StoredMessage:
    statistics, files = row.pop("statistics"), row.pop("files")
    return StoredMessage(
        **{**row, "shown": bool(row["shown"]), "left_out": bool(row["left_out"])},
        statistics=parse_json(statistics) if statistics else None,
        files=tuple(TextFile(**each) for each in parse_json(files)) if files else (),
        siblings=tuple(siblings),
    )


def write_files(files: Iterable[TextFile]) -> str | None:
    values = [{"name": each.name, "text": each.text} for each in files]
    return json.dumps(values, ensure_ascii=False) if values else None


def write_system(system: SystemPrompt | None) -> str | None:
    return None if system is None else json.dumps({"name": system.name, "text": system.text})


def read_system(text: str | None) -> SystemPrompt | None:
    return SystemPrompt(**parse_json(text)) if text else None
