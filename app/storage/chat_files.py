"""A chat as a file: Markdown to read the branch that is shown, JSON to read all of it back."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from app.storage.history import TextFile
from app.storage.rows import Chat, Status, StoredMessage, SystemPrompt
from app.storage.store import Store
from engine.errors import InvalidRequest
from engine.files import parse_json

FORMAT = "foretoken-chat"
VERSION = 2
_TOLD = 5
"""Mistakes of a file that are told at once, at most."""
_SPEAKERS = {"user": "You", "assistant": "Model"}


def written(store: Store, chat: int, form: str) -> dict[str, str]:
    """The file's ``name`` and ``text``. Raises InvalidRequest for a chat that is gone."""
    found = next((each for each in store.chats() if each.id == chat), None)
    if found is None:
        raise InvalidRequest("chat", "This chat is no longer there.")
    name = re.sub(r"[^\w-]+", "-", found.title).strip("-").lower()[:60] or f"chat-{chat}"
    if form == "markdown":
        return {"name": f"{name}.md", "text": _markdown(found.title, store.messages(chat))}
    return {"name": f"{name}.json", "text": _json(found, store.all_messages(chat))}


def read(store: Store, text: str) -> int:
    """Makes a chat of what ``written`` wrote as JSON, in this version or an older one, and returns it.

    Raises InvalidRequest for anything else, which names the field; then nothing is made.
    """
    found = _parsed(text)
    given = found.system
    system = None if given is None else SystemPrompt(given.name, given.text)
    return store.take_chat(found.title, found.stored(), system)


def _markdown(title: str, messages: tuple[StoredMessage, ...]) -> str:
    parts = [f"# {title}"]
    parts += [f"## {_SPEAKERS.get(each.role, each.role)}\n\n{_read(each)}" for each in messages]
    return "\n\n".join(parts) + "\n"


def _read(message: StoredMessage) -> str:
    """Return a message for readers: a thought is folded away in front of its answer."""
    told, parts = message.turn.content, message.parts
    if not parts.thought:
        return told
    return f"<details><summary>Thought</summary>\n\n{parts.thought}\n\n</details>\n\n{told}"


def _json(chat: Chat, messages: tuple[StoredMessage, ...]) -> str:
    numbers = {each.id: number for number, each in enumerate(messages, 1)}
    told = [
        {
            "id": numbers[each.id],
            "parent": numbers.get(each.parent or 0),
            "shown": each.shown,
            "role": each.role,
            "text": each.text,
            "files": [{"name": file.name, "text": file.text} for file in each.files],
            "model": each.model,
            "method": each.method,
            "left_out": each.left_out,
            "marks": each.marks,
            "status": each.status,
            "error": each.error,
            "statistics": each.statistics,
        }
        for each in messages
    ]
    system = chat.system and {"name": chat.system.name, "text": chat.system.text}
    value = {
        "format": FORMAT,
        "version": VERSION,
        "title": chat.title,
        "system": system,
        "messages": told,
    }
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"


class _Part(BaseModel):
    model_config = ConfigDict(strict=True)


class _Text(_Part):
    """A file of a message, or a system prompt."""

    name: str
    text: str


class _Message(_Part):
    """A message of version 1, or what both versions have of one."""

    role: Literal["user", "assistant"]
    text: str
    marks: str | None = None
    status: Status | None = None
    error: str | None = None
    statistics: dict[str, int | float | bool | list[Any] | dict[str, Any] | None] | None = None

    def stored(self, number: int, parent: int | None) -> StoredMessage:
        """One that was being written is one that was cut short. What loads its writer is left behind: a
        file from elsewhere must not name what a button here opens."""
        status, statistics = self.status or "done", self.statistics
        if statistics is not None:
            statistics = {name: value for name, value in statistics.items() if name != "pair"}
        return StoredMessage(
            id=number,
            chat=0,
            role=self.role,
            text=self.text,
            marks=self.marks or "",
            status="interrupted" if status == "running" else status,
            error=self.error,
            statistics=statistics,
            parent=parent,
        )


class _Branched(_Message):
    id: int
    parent: int | None
    shown: bool
    left_out: bool
    files: list[_Text]
    model: str | None
    method: str | None


class _Line(_Part):
    """Version 1: each message follows the one before it."""

    title: str
    system: _Text | None = None
    messages: list[_Message]

    def stored(self) -> list[StoredMessage]:
        return [
            each.stored(number, number - 1 or None) for number, each in enumerate(self.messages, 1)
        ]


class _Tree(_Line):
    """Version 2: each message says which one it follows, and that stands before it."""

    messages: list[_Branched]  # type: ignore[assignment]  # it is only read

    def stored(self) -> list[StoredMessage]:
        known: set[int | None] = {None}
        found = []
        for number, each in enumerate(self.messages):
            if each.id in known or each.parent not in known:
                raise _no_chat(
                    f"messages[{number}] has no id of its own, or follows none before it"
                )
            known.add(each.id)
            found.append(
                replace(
                    each.stored(each.id, each.parent),
                    shown=each.shown,
                    left_out=each.left_out,
                    files=tuple(TextFile(file.name, file.text) for file in each.files),
                    model=each.model,
                    method=each.method,
                )
            )
        return found


_READERS: dict[int, type[_Line]] = {1: _Line, 2: _Tree}


def _parsed(text: str) -> _Line:
    try:
        value = parse_json(text)
        # A page could not read infinite numbers, the store not keep half characters.
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except ValueError as error:
        raise _no_chat(str(error)) from None
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise _no_chat("it does not say that it is one")
    version = value.get("version")
    if isinstance(version, int) and version > VERSION:
        raise InvalidRequest(
            "file",
            "This chat was exported by a newer version of Foretoken. Update, then import it.",
        )
    if not isinstance(version, int) or version not in _READERS:
        raise _no_chat("its version is none that there was")
    try:
        return _READERS[version].model_validate(value)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        told = [f"{_place(each['loc'])}: {each['msg'].lower()}" for each in found[:_TOLD]]
        more = [f"and {len(found) - _TOLD} more"] if len(found) > _TOLD else []
        raise _no_chat("; ".join([*told, *more])) from None


def _place(path: tuple[int | str, ...]) -> str:
    """Return where a value stands: ``messages[3].text``."""
    return "".join(f"[{at}]" if isinstance(at, int) else f".{at}" for at in path).removeprefix(".")


def _no_chat(why: str) -> InvalidRequest:
    return InvalidRequest(
        "file", f"This file holds no chat ({why}). Choose one that was exported here as JSON."
    )
