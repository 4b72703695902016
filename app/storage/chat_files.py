"""Export chats as Markdown (the shown branch) or JSON (all branches), and import JSON."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace

from pydantic import BaseModel, ConfigDict, ValidationError

from app.storage.rows import Chat, StoredMessage, SystemPrompt
from app.storage.store import Store
from engine.errors import InvalidRequest
from engine.files import parse_json

FORMAT = "foretoken-chat"
VERSION = 2
_SHOWN_ERRORS = 5
"""Errors of a file in one message, at most."""
_OF_STORE = ("chat", "siblings")
"""Fields of a message that stand in no file."""
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
    return store.take_chat(file.title, file.stored(), file.system)


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
    value = {
        "format": FORMAT,
        "version": VERSION,
        "title": chat.title,
        "system": chat.system and asdict(chat.system),
        "messages": [
            {
                **{name: field for name, field in asdict(each).items() if name not in _OF_STORE},
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
                    f"messages[{number}] has no id of its own, or follows none before it"
                )
            seen.add(each.id)
        return list(map(_from_elsewhere, self.messages))


def _from_elsewhere(message: StoredMessage) -> StoredMessage:
    """Return the message without its pair, and a running reply as an interrupted one.

    A button of the page loads the pair of the statistics, and a file must not choose that.
    """
    statistics = message.statistics
    if statistics is not None:
        statistics = {name: value for name, value in statistics.items() if name != "pair"}
    status = "interrupted" if message.status == "running" else message.status
    return replace(message, status=status, statistics=statistics)


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
        "file", f"This file holds no chat ({why}). Choose one that was exported here as JSON."
    )
