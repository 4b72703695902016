"""Export chats as Markdown (the shown branch) or JSON (all branches), and import JSON."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from app.storage import pictures
from app.storage.attachments import exported, fenced
from app.storage.imports.conversation import MOST_MESSAGES
from app.storage.rows import Chat, StoredMessage, SystemPrompt
from app.storage.store import Store
from engine.errors import InvalidRequest

FORMAT = "foretoken-chat"
VERSION = 3
_READ = (2, VERSION)
_SHOWN_ERRORS = 5
"""Errors of a file in one message, at most."""
_OF_STORE = ("chat", "siblings")
"""Fields of a message that stand in no file."""
_SPEAKERS = {"user": "You", "assistant": "Model"}


def written(store: Store, id: int, form: str) -> dict[str, str]:
    """Return the file's ``name`` and ``text``. Raises InvalidRequest for a chat that is gone."""
    chat = next((each for each in store.chats() if each.id == id), None)
    if chat is None:
        raise InvalidRequest("chat", "This chat no longer exists.")
    name = re.sub(r"[^\w-]+", "-", chat.title).strip("-").lower()[:60] or f"chat-{id}"
    if form == "markdown":
        return {"name": f"{name}.md", "text": _markdown(chat.title, store.messages(id))}
    return {
        "name": f"{name}.json",
        "text": _json(chat, store.with_pictures(store.all_messages(id))),
    }


def take(store: Store, value: Any) -> int:
    """Create a chat from the parsed JSON that ``written`` wrote, and return its id.

    Raises InvalidRequest, which names the field, for anything else; then no chat is created.
    """
    file = _checked(value)
    return store.take_chat(file.title, file.stored(), file.system)


def _markdown(title: str, messages: tuple[StoredMessage, ...]) -> str:
    parts = [f"# {title}"]
    parts += [
        f"## {_SPEAKERS.get(each.role, each.role)}\n\n{_body(each) or '(empty)'}"
        for each in messages
    ]
    return "\n\n".join(parts) + "\n"


def _body(message: StoredMessage) -> str:
    """Return a message's text, after its thought in a folded block and before its calls, as blocks of
    code that nothing in them can end."""
    thought = message.parts.thought
    folded = f"<details><summary>Thought</summary>\n\n{thought}\n\n</details>"
    parts = [folded] if thought else []
    parts += [message.content] if message.content or not message.calls else []
    for call in message.calls.calls if message.calls else ():
        where = f" on {call.server}" if call.server else ""
        parts.append(f"Called `{call.name}`{where} ({call.state}):\n\n{fenced(call.arguments)}")
        if call.result:
            parts.append(f"Result:\n\n{fenced(call.result)}")
    return "\n\n".join(parts)


def _json(chat: Chat, messages: tuple[StoredMessage, ...]) -> str:
    numbers = {each.id: number for number, each in enumerate(messages, 1)}
    value = {
        "format": FORMAT,
        "version": VERSION,
        "title": chat.title,
        "system": chat.system and asdict(chat.system),
        "messages": [
            {
                **{name: field for name, field in asdict(each).items() if name not in _OF_STORE},
                "files": [
                    {**exported(file), **(pictures.written(file) if file.kind == "image" else {})}
                    for file in each.files
                ],
                "id": numbers[each.id],
                "parent": numbers.get(each.parent or 0),
            }
            for each in messages
        ],
    }
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"


class _ChatFile(BaseModel):
    model_config = ConfigDict(strict=True)

    title: str
    system: SystemPrompt | None = None
    messages: list[StoredMessage]

    def stored(self) -> list[StoredMessage]:
        """Return the messages for the store. Raises InvalidRequest unless each stands after its
        parent."""
        seen: set[int | None] = {None}
        for number, each in enumerate(self.messages):
            if each.id in seen or each.parent not in seen:
                raise _no_chat(
                    f"messages[{number}] has no id of its own, or does not follow an earlier message"
                )
            seen.add(each.id)
        return list(map(_from_elsewhere, self.messages))


def _from_elsewhere(message: StoredMessage) -> StoredMessage:
    """Return the message without its pair, and a running reply or call as an interrupted one.

    A button of the page loads the pair of the statistics, and a file must not choose that.
    """
    statistics = message.statistics
    if statistics is not None:
        statistics = {name: value for name, value in statistics.items() if name != "pair"}
    status = "interrupted" if message.status == "running" else message.status
    read = (
        pictures.read_written(each) if each.kind == "image" else replace(each, data=b"")
        for each in message.files
    )
    files = tuple(replace(each, id=None) for each in read if each)  # ids are of another store
    calls = message.calls and message.calls.interrupted()
    return replace(message, status=status, statistics=statistics, files=files, calls=calls)


def _checked(value: Any) -> _ChatFile:
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise _no_chat("it is not marked as one")
    version = value.get("version")
    if isinstance(version, int) and version > VERSION:
        raise InvalidRequest(
            "file",
            "This chat was exported by a newer version of Foretoken. Update, then import it.",
        )
    if version not in _READ:
        raise _no_chat("its version is unknown")
    messages = value.get("messages")
    if isinstance(messages, list) and len(messages) > MOST_MESSAGES:
        raise _no_chat(f"it has more than {MOST_MESSAGES:,} messages")
    try:
        # A page could not read infinite numbers, nor the store write lone surrogates.
        text = json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except ValueError as error:
        raise _no_chat(str(error)) from None
    try:
        return _ChatFile.model_validate_json(text)
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
        "file",
        f"This file is not an exported chat ({why}). Choose a JSON file that was exported here.",
    )
