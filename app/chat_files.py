"""A chat as a file of its own: Markdown to read, JSON to read back."""

from __future__ import annotations

import json
import re
from typing import Any

from app.store import Store, StoredMessage
from engine.errors import InvalidRequest

FORMAT = "foretoken-chat"
VERSION = 1
_ROLES = ("user", "assistant")
_SPEAKERS = {"user": "You", "assistant": "Model"}


def written(store: Store, chat: int, form: str) -> dict[str, str]:
    """The file's ``name`` and ``text``. Raises InvalidRequest for a chat that is gone."""
    title = next((each.title for each in store.chats() if each.id == chat), None)
    if title is None:
        raise InvalidRequest("chat", "This chat is no longer there.")
    messages = store.messages(chat)
    name = re.sub(r"[^\w-]+", "-", title).strip("-").lower()[:60] or f"chat-{chat}"
    if form == "markdown":
        return {"name": f"{name}.md", "text": _markdown(title, messages)}
    return {"name": f"{name}.json", "text": _json(title, messages)}


def read(store: Store, text: str) -> int:
    """Makes a chat of what ``written`` wrote as JSON, and returns it.

    Raises InvalidRequest for anything else; then nothing is made.
    """
    title, messages = _parsed(text)
    chat = store.new_chat(title)
    waiting: str | None = None
    for message in (*messages, None):
        if waiting is not None and (message is None or message["role"] == "user"):
            _turn(store, chat, waiting, {"text": "", "status": "interrupted"})
            waiting = None
        if message is None:
            break
        if message["role"] == "user":
            waiting = message["text"]
        else:
            _turn(store, chat, waiting, message)
            waiting = None
    return chat


def _turn(store: Store, chat: int, asked: str | None, reply: dict[str, Any]) -> None:
    _, number = store.begin_turn(chat, asked, keep=None)
    store.save_reply(
        number,
        text=reply["text"],
        marks=str(reply.get("marks") or ""),
        status=str(reply.get("status") or "done"),
        statistics=reply.get("statistics"),
    )


def _markdown(title: str, messages: tuple[StoredMessage, ...]) -> str:
    parts = [f"# {title}"]
    parts += [f"## {_SPEAKERS.get(each.role, each.role)}\n\n{each.text}" for each in messages]
    return "\n\n".join(parts) + "\n"


def _json(title: str, messages: tuple[StoredMessage, ...]) -> str:
    told = [
        {
            "role": each.role,
            "text": each.text,
            "marks": each.marks,
            "status": each.status,
            "statistics": each.statistics,
        }
        for each in messages
    ]
    value = {"format": FORMAT, "version": VERSION, "title": title, "messages": told}
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"


def _parsed(text: str) -> tuple[str, list[dict[str, Any]]]:
    try:
        value = json.loads(text)
        ours, version = value["format"] == FORMAT, value["version"]
        title, messages = value["title"], value["messages"]
        sound = isinstance(title, str) and all(map(_is_message, messages))
    except (ValueError, TypeError, KeyError):
        ours, version, sound = False, VERSION, False
    if ours and isinstance(version, int) and version > VERSION:
        raise InvalidRequest(
            "file",
            "This chat was exported by a newer version of Foretoken. Update, then import it.",
        )
    if not ours or not sound:
        raise InvalidRequest(
            "file", "This file holds no chat. Choose one that was exported here as JSON."
        )
    return title, messages


def _is_message(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.get("role") in _ROLES
        and isinstance(value.get("text"), str)
        and isinstance(value.get("marks", ""), str)
        and isinstance(value.get("statistics"), dict | None)
    )
