"""Chats, folders and messages as values, and how they are read from rows and written to them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from app.storage.attachments import Attachment, read_references, with_files
from app.storage.calls import StoredCalls, read_calls
from engine.files import parse_json
from engine.thoughts import Thoughts, split
from engine.values.image import Image
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
    ``left_out``: it is shown but not given to a model. ``model`` and ``method``: what wrote a reply.
    ``calls``: the calls of tools in a reply. ``edited``: the user changed a reply's text."""

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
    files: tuple[Attachment, ...] = ()
    model: str | None = None
    method: str | None = None
    calls: StoredCalls | None = None
    edited: bool = False

    @property
    def parts(self) -> Thoughts:
        """A reply's thought and answer; a user's message has only an answer."""
        if self.role != "assistant":
            return Thoughts.none(self.text)
        thought = (self.statistics or {}).get("thought")
        return split(self.text, opened=isinstance(thought, dict) and bool(thought.get("opened")))

    @property
    def content(self) -> str:
        """The message without thought and calls, after its files."""
        parts = self.parts
        answer = parts.answer
        if self.calls is not None:
            answer = answer[: max(0, self.calls.at - parts.start)].rstrip()
        return with_files(answer, self.files)

    @property
    def turn(self) -> tuple[Message, ...]:
        """The message as a model gets it: a reply that calls tools is followed by their results."""
        thought = self.parts.thought
        if self.calls is not None:
            return self.calls.messages(self.content, thought)
        images = tuple(Image(each.data) for each in self.files if each.data)
        return (Message(self.role, self.content, reasoning=thought, images=images),)


COLUMNS = (
    "select id, chat, role, text, marks, status, error, statistics, parent, shown, left_out, files, "
    "model, method, calls, edited from messages"
)


def read_message(
    row: dict[str, Any], siblings: Iterable[int], attachments: dict[int, Attachment]
) -> StoredMessage:
    """Return a row as a message; ``attachments`` are those of its chat, by number."""
    statistics, files, calls = (row.pop(each) for each in ("statistics", "files", "calls"))
    return StoredMessage(
        **{**row, **{name: bool(row[name]) for name in ("shown", "left_out", "edited")}},
        statistics=parse_json(statistics) if statistics else None,
        files=read_references(files, attachments),
        calls=read_calls(calls),
        siblings=tuple(siblings),
    )


def write_system(system: SystemPrompt | None) -> str | None:
    return None if system is None else json.dumps({"name": system.name, "text": system.text})


def read_system(text: str | None) -> SystemPrompt | None:
    return SystemPrompt(**parse_json(text)) if text else None
