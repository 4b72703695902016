"""What the file of chats holds, as values: chats, folders and messages, and how their rows are read."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from app.storage.history import TextFile, with_files
from app.storage.schema import REPLY_FORM
from engine.files import parse_json
from engine.thoughts import Thoughts, split
from engine.values.messages import Message


@dataclass(frozen=True, slots=True)
class SystemPrompt:
    """What a chat's model is told first, and the preset that it was taken from."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Chat:
    """One conversation, as the list shows it. ``system`` None: as the settings say, for all chats."""

    id: int
    title: str
    updated: float
    folder: int | None = None
    system: SystemPrompt | None = None


@dataclass(frozen=True, slots=True)
class Folder:
    """Chats that belong together. ``folded``: they are not listed just now."""

    id: int
    name: str
    folded: bool


Status = Literal["running", "done", "length", "cancelled", "failed", "interrupted"]
STATUSES: tuple[str, ...] = get_args(Status)


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """One message. ``marks`` are a reply's origin marks (see ``app.ui.rounds.view``); ``status`` is one
    of ``STATUSES``. ``form`` is theirs and that of ``statistics``, see ``app.storage.schema.REPLY_FORM``.

    ``beside``: the messages that could be shown in this place, itself among them, oldest first.
    ``left_out``: it is shown, and no model is given it. ``model`` and ``method`` wrote a reply."""

    id: int
    chat: int
    role: str
    text: str
    marks: str = ""
    status: str = "done"
    error: str | None = None
    statistics: dict[str, Any] | None = None
    form: int = REPLY_FORM
    parent: int | None = None
    beside: tuple[int, ...] = ()
    shown: bool = True
    left_out: bool = False
    files: tuple[TextFile, ...] = ()
    model: str | None = None
    method: str | None = None

    @property
    def parts(self) -> Thoughts:
        """A reply's thought and its answer; a user's message is no reply."""
        if self.role != "assistant":
            return Thoughts.none(self.text)
        known = (self.statistics or {}).get("thought")
        return split(self.text, opened=isinstance(known, dict) and bool(known.get("opened")))

    @property
    def turn(self) -> Message:
        """What a model is given of it."""
        parts = self.parts
        return Message(self.role, with_files(parts.answer, self.files), reasoning=parts.thought)


COLUMNS = (
    "select id, chat, role, text, marks, status, error, statistics, form, parent, shown, left_out, "
    "files, model, method from messages"
)


def read_message(row: dict[str, Any], beside: Iterable[int]) -> StoredMessage:
    statistics, files = row.pop("statistics"), row.pop("files")
    return StoredMessage(
        **{**row, "shown": bool(row["shown"]), "left_out": bool(row["left_out"])},
        statistics=parse_json(statistics) if statistics else None,
        files=tuple(TextFile(**each) for each in parse_json(files)) if files else (),
        beside=tuple(beside),
    )


def write_files(files: Iterable[TextFile]) -> str | None:
    told = [{"name": each.name, "text": each.text} for each in files]
    return json.dumps(told, ensure_ascii=False) if told else None


def write_system(system: SystemPrompt | None) -> str | None:
    return None if system is None else json.dumps({"name": system.name, "text": system.text})


def read_system(kept: str | None) -> SystemPrompt | None:
    return SystemPrompt(**parse_json(kept)) if kept else None
