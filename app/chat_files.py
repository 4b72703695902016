"""A chat as a file: Markdown to read the branch that is shown, JSON to read all of it back."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from app.history import TextFile
from app.store import Store
from app.store_rows import Chat, StoredMessage, SystemPrompt
from engine.errors import InvalidRequest

FORMAT = "foretoken-chat"
VERSION = 2
_ROLES = ("user", "assistant")
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

    Raises InvalidRequest for anything else; then nothing is made.
    """
    value = _parsed(text)
    try:
        messages = _READERS[value["version"]](value["messages"])
        system = value.get("system")
        return store.take_chat(
            str(value["title"]),
            messages,
            None if system is None else SystemPrompt(str(system["name"]), str(system["text"])),
        )
    except (TypeError, KeyError, ValueError, AttributeError):
        raise _no_chat() from None


def _markdown(title: str, messages: tuple[StoredMessage, ...]) -> str:
    parts = [f"# {title}"]
    parts += [f"## {_SPEAKERS.get(each.role, each.role)}\n\n{each.prompt}" for each in messages]
    return "\n\n".join(parts) + "\n"


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


def _parsed(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
        ours, version = value["format"] == FORMAT, value["version"]
        sound = isinstance(value["title"], str) and all(map(_is_message, value["messages"]))
    except (ValueError, TypeError, KeyError):
        raise _no_chat() from None
    if ours and isinstance(version, int) and version > VERSION:
        raise InvalidRequest(
            "file",
            "This chat was exported by a newer version of Foretoken. Update, then import it.",
        )
    if not ours or not sound or version not in _READERS:
        raise _no_chat()
    found: dict[str, Any] = value
    return found


def _no_chat() -> InvalidRequest:
    return InvalidRequest(
        "file", "This file holds no chat. Choose one that was exported here as JSON."
    )


def _is_message(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.get("role") in _ROLES
        and isinstance(value.get("text"), str)
        and isinstance(value.get("marks", ""), str)
        and isinstance(value.get("statistics"), dict | None)
    )


def _message(number: int, parent: int | None, told: dict[str, Any]) -> StoredMessage:
    """What both versions have of a message. One that was being written is one that was cut short."""
    status = str(told.get("status") or "done")
    return StoredMessage(
        id=number,
        chat=0,
        role=told["role"],
        text=told["text"],
        marks=told.get("marks") or "",
        status="interrupted" if status == "running" else status,
        error=told.get("error"),
        statistics=told.get("statistics"),
        parent=parent,
    )


def _one_line(told: list[dict[str, Any]]) -> list[StoredMessage]:
    """Version 1: each message follows the one before it."""
    return [_message(number, number - 1 or None, each) for number, each in enumerate(told, 1)]


def _tree(told: list[dict[str, Any]]) -> list[StoredMessage]:
    """Version 2: each message says which one it follows, and that stands before it."""
    known: set[int] = set()
    found = []
    for each in told:
        number, parent = int(each["id"]), each["parent"]
        if number in known or (parent is not None and parent not in known):
            raise ValueError(f"message {number} follows {parent}")
        known.add(number)
        files = [TextFile(str(file["name"]), str(file["text"])) for file in each["files"]]
        found.append(
            replace(
                _message(number, parent, each),
                shown=bool(each["shown"]),
                left_out=bool(each["left_out"]),
                files=tuple(files),
                model=_text_or_none(each["model"]),
                method=_text_or_none(each["method"]),
            )
        )
    return found


def _text_or_none(value: Any) -> str | None:
    return None if value is None else str(value)


_READERS: dict[int, Callable[[list[dict[str, Any]]], list[StoredMessage]]] = {
    1: _one_line,
    2: _tree,
}
