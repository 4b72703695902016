"""Read a file of chats and store them, with a summary of what came and what did not."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from app.storage import chat_files
from app.storage.imports import chatgpt, lm_studio
from app.storage.imports.conversation import (
    LARGEST_ITEM,
    LARGEST_LIST,
    Conversation,
    NotAChat,
    TooLarge,
    dict_of,
    objects,
    text_of,
)
from app.storage.store import Store
from engine.errors import InvalidRequest, what_failed

LARGEST = 2 << 30
"""Bytes of a file to import; packed, if it is a zip file."""
MOST_CHATS = 20_000
"""Chats of one file."""
MOST_FAILURES = 1000
"""Chats of one file that cannot be imported."""
_MOST_PACKED = 100
"""How many times a large zip file's size its chats may have. Texts are packed to a fifth or so."""
_LARGEST_LISTING = 8 << 20
"""Bytes of the list of files in a zip file, each of which takes ten times as much memory."""
_SHOWN = 20
"""Chats that could not be imported, of which the summary tells the reason."""
_IN_ZIP = re.compile(r"(?:^|/)(?:conversations(?:-\d+)?\.json|[^/]+\.conversation\.json)$")
_BROKEN = (ValueError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError)
_CHATGPT, _LM_STUDIO = "ChatGPT", "LM Studio"


@dataclass(slots=True)
class Summary:
    """``chats``: ids of the new ones; ``known``: of those that were here already. ``source``: the other
    program, "" for Foretoken. ``left_out`` counts parts of messages by kind; ``failed``: titles of chats
    and why they were not imported."""

    source: str = ""
    chats: list[int] = field(default_factory=list)
    known: list[int] = field(default_factory=list)
    messages: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    failed: list[tuple[str, str]] = field(default_factory=list)
    failures: int = 0

    def fail(self, title: str, why: str) -> None:
        """Note a chat that was not imported."""
        self.failures += 1
        if len(self.failed) < _SHOWN:
            self.failed.append((title, why))


class _Target:
    """The store that chats go into, and which chats it had before."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def known(self, found: Conversation) -> int | None:
        """Return the chat that has all messages of ``found`` in this order, and perhaps later ones."""
        texts = ((each.role, each.text) for each in found.messages)
        return self._beginnings.get(list(_keys(texts))[-1])

    @cached_property
    def _beginnings(self) -> dict[int, int]:
        """Chats by a hash of each beginning of their messages: a chat may have gone on here."""
        found: dict[int, int] = {}
        for chat in self.store.chats():
            found.update(dict.fromkeys(_keys(self.store.texts(chat.id)), chat.id))
        return found


def _keys(texts: Iterable[tuple[str, str]]) -> Iterator[int]:
    """Yield a hash of the first text, of the first two, and so on."""
    key = 0
    for each in texts:
        key = hash((key, each))
        yield key


def import_file(store: Store, path: Path, name: str) -> Summary:
    """Store the chats of a file. Raises InvalidRequest, which names the file, if it has none.

    Several chats of another program go into a folder with its name. Those that are here already are
    skipped.
    """
    summary, target = Summary(), _Target(store)
    try:
        for value in _values(path):
            if len(summary.chats) + len(summary.known) >= MOST_CHATS:
                raise TooLarge(f"it has more than {MOST_CHATS:,} chats")
            _take(target, value, summary)
            if summary.failures > MOST_FAILURES:
                raise TooLarge(f"it has more than {MOST_FAILURES:,} chats that cannot be imported")
    except _BROKEN as error:
        if isinstance(error, InvalidRequest) or not (summary.chats or summary.known):
            raise _no_chats(name, what_failed(error)) from error
        summary.fail("", f"The rest of the file cannot be read: {what_failed(error)}.")
    if not (summary.chats or summary.known):
        why = summary.failed[0][1] if summary.failed else "it has no chats"
        raise _no_chats(name, why)
    if summary.source and len(summary.chats) > 1:
        folder = store.folder_named(summary.source)
        store.move_all(summary.chats, folder)
    return summary


def _no_chats(name: str, why: str) -> InvalidRequest:
    return InvalidRequest(
        "file",
        f"No chat could be imported from {name}: {why.rstrip('.')}. Choose a chat "
        "exported here as JSON, ChatGPT's export (zip), or a conversation of LM Studio.",
    )


def _values(path: Path) -> Iterator[Any]:
    for file in _files(path):
        with file as stream:
            yield from objects(stream)


def _files(path: Path) -> Iterator[Any]:
    """Yield the JSON files: the file itself, or those of a zip file that hold conversations."""
    if not zipfile.is_zipfile(path):
        yield path.open("rb")
        return
    with _Listed(path.open("rb", buffering=0)) as file, zipfile.ZipFile(file) as archive:
        sizes = {m.filename: m.file_size for m in archive.infolist() if _IN_ZIP.search(m.filename)}
        if not sizes:
            raise ValueError("it has no conversations.json")
        if sum(sizes.values()) > LARGEST_LIST:  # zipfile reads no more of a file than its size
            raise TooLarge(f"it unpacks to more than {LARGEST_LIST >> 30} GB")
        if sum(sizes.values()) > LARGEST_ITEM + _MOST_PACKED * path.stat().st_size:
            raise TooLarge(f"it unpacks to more than {_MOST_PACKED} times its size")
        for name in sorted(sizes)[:MOST_CHATS]:
            yield archive.open(name)


class _Listed(io.BufferedReader):
    """A zip file, of which zipfile reads the list of files at once. Raises TooLarge."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size and size > _LARGEST_LISTING:
            raise TooLarge("it lists too many files")
        return super().read(size)


def _take(target: _Target, value: Any, summary: Summary) -> None:
    """Store one chat, or note why not."""
    if isinstance(value, ValueError):
        summary.fail("", f"it cannot be read: {what_failed(value)}")
        return
    named = dict_of(value)
    title = text_of(named.get("title") or named.get("name"))[:200]
    try:
        if isinstance(value, dict) and value.get("format") == chat_files.FORMAT:
            summary.chats.append(chat_files.take(target.store, value))
        elif chatgpt.is_conversation(value):
            summary.source = _CHATGPT
            _store(target, chatgpt.read(value), summary)
        elif lm_studio.is_conversation(value):
            summary.source = _LM_STUDIO
            _store(target, lm_studio.read(value), summary)
        else:
            summary.fail(title, f"it is no chat of Foretoken, {_CHATGPT} or {_LM_STUDIO}")
    except (NotAChat, InvalidRequest) as error:
        summary.fail(title, str(error))


def _store(target: _Target, found: Conversation, summary: Summary) -> None:
    if (known := target.known(found)) is not None:
        summary.known.append(known)
        return
    first = next((each.text for each in found.messages if each.role == "user"), "")
    title = found.title.strip() or first or "Chat"
    chat = target.store.take_chat(title, found.messages, found.system, updated=found.updated)
    summary.chats.append(chat)
    summary.messages += len(found.messages)
    summary.left_out.update(found.left_out)
