"""Attachments of messages: read, stored, weighed and shown. Plain values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.documents.fitting import Weighed, fitted, pages_in
from app.documents.reading import ReadDocument, read_file
from app.documents.web import PrivateAddress, fetch_page
from app.storage.attachments import Attachment, ranges, with_files
from app.storage.pictures import is_picture, read_picture, tokens_of, with_bytes
from app.storage.rows import StoredMessage
from app.storage.store import Store
from app.ui import words
from app.ui.endpoints import View, endpoint, local_endpoint, waits
from engine.api import Engine
from engine.errors import InvalidRequest, NotLoaded
from engine.values.units import counted

LARGEST = 2 << 20
"""Characters that all attachments of a message give to the model."""
MOST = 20
"""Attachments of one message."""
_CHARACTERS = 4
"""Characters of a token, where the tokenizer is not known."""
_FRAME = 16
"""Tokens of the template around a message, and of an attachment's name and fence, about."""


class Attachments:
    """The attachments of one data folder."""

    def __init__(self, store: Store, engine: Engine) -> None:
        self._store, self._engine = store, engine

    # ---- adding

    def add_file(self, path: Path, name: str) -> View:
        """Read and store an uploaded file; return what the page shows of it. Raises InvalidRequest."""
        with path.open("rb") as file:
            start = file.read(16)
        if is_picture(start):
            return self._added(ReadDocument(read_picture(path.read_bytes(), one_line(name))))
        return self._added(read_file(path, one_line(name)))

    @waits
    @endpoint
    def add_page(self, data: View) -> View:
        """Read the web page at ``address`` and store its text. Raises InvalidRequest.

        ``private``: the address is of a private network, for which ``add_private_page`` is called.
        """
        try:
            return self._added(fetch_page(str(data["address"])))
        except PrivateAddress as error:
            return {"private": str(error)}

    @waits
    @local_endpoint(
        "Pages on the computer that runs Foretoken, or on its network, can only be added "
        "in a browser on that computer."
    )
    def add_private_page(self, data: View) -> View:
        """Read a web page of this machine or its network, whose number the user typed."""
        return self._added(fetch_page(str(data["address"]), private=True))

    def _added(self, read: ReadDocument) -> View:
        return {**show_attachment(self._store.add_attachment(read.attachment)), "notes": read.notes}

    @endpoint
    def attachment_text(self, data: View) -> View:
        """Return the whole text of the attachment ``attachment``."""
        found = self._store.attachments([number := int(data["attachment"])]).get(number)
        if found is None:
            raise InvalidRequest("attachment", words.ATTACHMENT_GONE)
        return {"text": replace(found, left_out=()).given}

    # ---- what fits

    @endpoint
    def weigh_files(self, data: View) -> View:
        """Return how many tokens each of the ``files`` takes, and which pages are left out to fit.

        Each file names a stored attachment by ``id``; ``choice`` is empty, or the pages to give as the
        user typed them ("1-5, 12"). ``chat`` is the chat they are for, ``message`` the one that is
        edited. ``tokens`` are estimated where ``exact`` is false; ``said`` is a sentence about the whole,
        ``over`` the tokens that are too many.
        """
        sent = [each for each in data.get("files") or () if isinstance(each, dict)]
        files = self.named(sent)
        notes, weighed = [], []
        for each, asked in zip(files, sent, strict=True):
            chosen, note = _chosen_pages(str(asked.get("choice") or ""), each)
            notes.append(note)
            tokens = [tokens_of(each)] if each.kind == "image" else self._count(each.parts)
            weighed.append(Weighed(tokens, bool(each.pages), chosen))
        loaded = self._engine.loaded
        context = loaded.context if loaded else 0
        used = self._used(data)
        fit = fitted(weighed, context, used)
        shown = [
            {
                "id": each.id,
                "left_out": out,
                "tokens": part.given(out) + _FRAME,
                "said": " ".join(
                    filter(None, (note, _shown_pages(each, out, part.chosen is None)))
                ),
            }
            for each, part, out, note in zip(files, weighed, fit.left_out, notes, strict=True)
        ]
        over = max(0, fit.over) if files else 0
        return {
            "files": shown,
            "context": context or None,
            "used": used,
            "exact": self._exact,
            "over": over,
            "said": words.too_many_tokens(over, context, used) if over else "",
        }

    @property
    def _exact(self) -> bool:
        loaded = self._engine.loaded
        return loaded is not None and not loaded.server

    def _count(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, estimated where no tokenizer is known."""
        try:
            found = self._engine.tokenize(texts)
        except NotLoaded:
            found = None
        return (
            [len(text) // _CHARACTERS + 1 for text in texts]
            if found is None
            else [*map(len, found)]
        )

    def _used(self, data: View) -> int:
        """Return the tokens of what the model gets of the chat so far, about."""
        chat = data.get("chat")
        if chat is None:
            return _FRAME
        messages: Sequence[StoredMessage] = self._store.messages(int(chat))
        edited = data.get("message")
        before = [m for m in messages if edited is None or m.id < int(edited)]
        given = (each for m in before if not m.left_out for each in m.turn)
        texts = [each.content for each in given]
        system = self._store.system_of(int(chat))
        return sum(self._count([system.text if system else "", *texts])) + _FRAME * len(texts)

    # ---- sending

    def given(self, sent: Any) -> tuple[Attachment, ...]:
        """Return the attachments of a message that is sent, with their tokens and the bytes of pictures.
        Raises as ``named``."""
        files = self.named(sent)
        pictures = [each.id for each in files if each.kind == "image" and each.id is not None]
        files = with_bytes(files, self._store.pictures(pictures)) if pictures else files
        if not self._exact:
            return files
        counted = self._count([with_files("", [each]) for each in files])
        return tuple(
            replace(each, tokens=tokens_of(each) if each.kind == "image" else n)
            for each, n in zip(files, counted, strict=True)
        )

    def picture(self, number: int) -> bytes | None:
        """Return the bytes of a stored picture."""
        return self._store.pictures([number]).get(number)

    def named(self, sent: Any) -> tuple[Attachment, ...]:
        """Return the attachments of a message: each names a stored one by ``id``, with the numbers of
        pages ``left_out``, or has a ``name`` and a ``text``.

        Raises InvalidRequest if one is gone or malformed, or if they are too many or too large.
        """
        sent = [each if isinstance(each, dict) else {} for each in sent or []]
        size = f"{LARGEST >> 20} MB of text in total"
        too_much = f"At most {MOST} files with {size} per message. Remove some."
        if len(sent) > MOST:
            raise InvalidRequest("files", too_much)
        known = self._store.attachments(each["id"] for each in sent if type(each.get("id")) is int)
        found = tuple(_attachment(each, known) for each in sent)
        if sum(len(each.given) for each in found) > LARGEST:
            raise InvalidRequest("files", too_much)
        return found


def _attachment(sent: dict[str, Any], known: dict[int, Attachment]) -> Attachment:
    if sent.get("id") is not None:
        stored = known.get(sent["id"]) if type(sent["id"]) is int else None
        if stored is None:
            raise InvalidRequest("files", words.ATTACHMENT_GONE)
        pages = range(1, len(stored.pages) + 1)
        wanted = sent.get("left_out")
        out = wanted if isinstance(wanted, list) else []
        return replace(stored, left_out=tuple(n for n in pages if n in out))
    name, text = sent.get("name"), sent.get("text")
    if not isinstance(name, str) or not isinstance(text, str) or "\0" in text:
        raise InvalidRequest(
            "files", "An attachment is not text. Remove it, or attach a PDF, Word or text file."
        )
    return Attachment(one_line(name), text)


def _chosen_pages(choice: str, attachment: Attachment) -> tuple[frozenset[int] | None, str]:
    """Return the pages that the user typed, None for all that fit; and a note on what is wrong, or "".

    What names no page counts as none typed.
    """
    count = len(attachment.pages)
    if not choice.strip() or not count:
        return None, ""
    found = pages_in(choice, count)
    if not found:
        return None, (
            f"“{choice.strip()[:40]}” names no page from 1 to {count}, so all that fit are "
            "included. Type pages as 1-3, 7."
        )
    unit = (attachment.unit or "Page").lower()
    beyond = any(int(each) > count for each in re.findall(r"\d+", choice))
    only = f"There {'is' if count == 1 else 'are'} only {counted(count, unit)}."
    return found, only if beyond else ""


def _shown_pages(attachment: Attachment, left_out: Sequence[int], to_fit: bool) -> str:
    """Return a sentence on the pages that are left out; "" if none is."""
    if not left_out:
        return ""
    count = len(attachment.pages)
    given = ranges(n for n in range(1, count + 1) if n not in set(left_out))
    return words.pages_given(attachment.unit or "Page", given, count, ranges(left_out), to_fit)


def one_line(name: str) -> str:
    """Return a name of a file on one line, cut to 200 characters."""
    return " ".join(name.split())[:200] or "file"


def show_attachment(attachment: Attachment) -> View:
    """Return an attachment as the page shows it; ``size`` in characters.

    Of documents the text is left out: ``attachment_text`` has it."""
    return {
        "id": attachment.id,
        "name": attachment.name,
        "kind": attachment.kind,
        "size": attachment.size,
        "text": attachment.text if attachment.kind == "text" else "",
        "pages": len(attachment.pages),
        "left_out": attachment.left_out,
        "said": _shown_pages(attachment, attachment.left_out, False),
        "tokens": attachment.tokens,
        "source": attachment.source,
    }
