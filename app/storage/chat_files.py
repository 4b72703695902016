"""Export chats as Markdown (the shown branch) or JSON (all branches), and import JSON."""

from __future__ import annotations

import json
import re
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from app.storage.history import TextFile
from app.storage.rows import Chat, Status, StoredMessage, SystemPrompt
from app.storage.store import Store
from engine.errors import InvalidRequest
from engine.files import parse_json

FORMAT = "foretoken-chat"
VERSION = 2
_SHOWN_ERRORS = 5
"""Errors of a file in one message, at most."""
_SPEAKERS = {"user": "You", "assistant": "Model"}


def written(store: Store, id: int, form: str) -> dict[str, str]:
    """Return the file's ``name`` and ``text``. Raises InvalidRequest for a chat that is gone."""
    chat = next((each for each in store.chats() if each.id == id), None)
    if chat is None:
        raise InvalidRequest("chat", "This chat is no longer there.")
    name = re.sub(r"[^\w-]+", "-", chat.title).strip("-").lower()[:60] or f"chat-{id}"
    if form == "markdown":
        return {"name": f"{name}.md", "text": _markdown(chat.title, store.messages(id))}
    return {"name": f"{name}.json", "text": _json(chat, store.all_messages(id))}


def read(store: Store, text: str) -> int:
    """Create a chat from the JSON that ``written`` wrote, and return its id.

    Raises InvalidRequest, which names the field, for anything else; then no chat is created.
    """
    file = _parsed(text)
    system = None if file.system is None else SystemPrompt(file.system.name, file.system.text)
    return store.take_chat(file.title, file.stored(), system)


def _markdown(title: str, messages: tuple[StoredMessage, ...]) -> str:
    parts = [f"# {title}"]
    parts += [f"## {_SPEAKERS.get(each.role, each.role)}\n\n{_body(each)}" for each in messages]
    return "\n\n".join(parts) + "\n"


def _body(message: StoredMessage) -> str:
    """Return a message's text, after its thought in a folded block."""
    answer, thought = message.turn.content, message.parts.thought
    if not thought:
        return answer
    return f"<details><summary>Thought</summary>\n\n{thought}\n\n</details>\n\n{answer}"


def _json(chat: Chat, messages: tuple[StoredMessage, ...]) -> str:
    numbers = {each.id: number for number, each in enumerate(messages, 1)}
    values = [
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
        "messages": values,
    }
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"


class _Part(BaseModel):
    model_config = ConfigDict(strict=True)


class _Text(_Part):
    """A message of a file, or a system prompt."""

    name: str
    text: str


class _Message(_Part):
    id: int
    parent: int | None
    shown: bool
    left_out: bool
    role: Literal["user", "assistant"]
    text: str
    files: list[_Text]
    model: str | None
    method: str | None
    marks: str | None = None
    status: Status | None = None
    error: str | None = None
    statistics: dict[str, int | float | bool | list[Any] | dict[str, Any] | None] | None = None

    def stored(self) -> StoredMessage:
        """Return the message for the store; a running reply becomes an interrupted one.

        The pair in the statistics is left out: a button of the page loads it, and a file from elsewhere
        must not choose that.
        """
        status, statistics = self.status or "done", self.statistics
        if statistics is not None:
            statistics = {name: value for name, value in statistics.items() if name != "pair"}
        return StoredMessage(
            id=self.id,
            chat=0,
            role=self.role,
            text=self.text,
            marks=self.marks or "",
            status="interrupted" if status == "running" else status,
            error=self.error,
            statistics=statistics,
            parent=self.parent,
            shown=self.shown,
            left_out=self.left_out,
            files=tuple(TextFile(file.name, file.text) for file in self.files),
            model=self.model,
            method=self.method,
        )


class _ChatFile(_Part):
    title: str
    system: _Text | None = None
    messages: list[_Message]

    def stored(self) -> list[StoredMessage]:
        """Return the messages. Raises InvalidRequest unless each stands after its parent."""
        seen: set[int | None] = {None}
        for number, each in enumerate(self.messages):
            if each.id in seen or each.parent not in seen:
                raise _no_chat(
                    f"messages[{number}] has no id of its own, or follows none before it"
                )
            seen.add(each.id)
        return [each.stored() for each in self.messages]


def _parsed(text: str) -> _ChatFile:
    try:
        value = parse_json(text)
        # A page could not read infinite numbers, nor the store write lone surrogates.
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
    if version != VERSION:
        raise _no_chat("its version is none that can be read")
    try:
        return _ChatFile.model_validate(value)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False)
        shown = [f"{_path(each['loc'])}: {each['msg'].lower()}" for each in errors[:_SHOWN_ERRORS]]
        more = [f"and {len(errors) - _SHOWN_ERRORS} more"] if len(errors) > _SHOWN_ERRORS else []
        raise _no_chat("; ".join([*shown, *more])) from None


def _path(path: tuple[int | str, ...]) -> str:
    """Return the path of a value: ``messages[3].text``."""
    return "".join(f"[{at}]" if isinstance(at, int) else f".{at}" for at in path).removeprefix(".")


def _no_chat(why: str) -> InvalidRequest:
    return InvalidRequest(
        "file", f"This file holds no chat ({why}). Choose one that was exported here as JSON."
    )
