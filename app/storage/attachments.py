"""Attachments of messages: text files, documents and pictures, each stored once.

A message refers to its attachments by number, so branches, edits and forks share them. Functions here
take a connection within a transaction.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from engine.files import parse_json

Kind = Literal["text", "document", "image"]

TABLE = """create table attachments (
    id integer primary key autoincrement, created real not null,
    name text not null, kind text not null, text text not null default '', pages text,
    unit text not null default '', source text not null default '', data blob
)"""
"""``pages``: a JSON list of texts. ``data``: the bytes of a picture."""

UNUSED_S = 7 * 24 * 3600.0
"""Seconds that an attachment stays without a message: it may be in a draft."""

_COLUMNS = "id, name, kind, text, pages, unit, source"


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file or web page attached to a message.

    ``kind`` text: ``text`` is the file's own. ``kind`` document: its text was extracted; ``pages`` holds
    it if the document has pages, which are called ``unit`` ("Page", "Slide", "Sheet").
    ``left_out``: numbers of pages that the model does not get. ``source``: the address of a web page.
    ``tokens``: how many it gave the model that it was sent to. ``id`` is None until it is stored.
    ``kind`` image: ``unit`` is its size in pixels ("640x480"). ``data``: its bytes, if they were read.
    """

    name: str
    text: str = ""
    kind: Kind = "text"
    pages: tuple[str, ...] = ()
    unit: str = ""
    source: str = ""
    left_out: tuple[int, ...] = ()
    tokens: int | None = None
    id: int | None = None
    data: bytes = field(default=b"", repr=False)

    @property
    def size(self) -> int:
        """Return the number of characters of its whole text."""
        return len(self.text) + sum(map(len, self.pages))

    def page(self, number: int) -> str:
        """Return a page as the model reads it, with its mark; the first is number 1."""
        return f"[{self.unit or 'Page'} {number}]\n{self.pages[number - 1].strip()}"

    @property
    def parts(self) -> list[str]:
        """Return its pages as the model reads them, or its text as one."""
        return [self.page(n) for n in range(1, len(self.pages) + 1)] or [self.text]

    @property
    def given(self) -> str:
        """Return the text that the model reads: all pages but those left out, which are named."""
        if not self.pages:
            return self.text
        out = set(self.left_out)
        shown = [self.page(n) for n in range(1, len(self.pages) + 1) if n not in out]
        if out:
            shown.append(f"[{self.unit or 'Page'}s left out: {ranges(self.left_out)}]")
        return "\n\n".join(shown)


def ranges(numbers: Iterable[int]) -> str:
    """Return numbers as text: ``1-3, 7``."""
    spans: list[list[int]] = []
    for number in sorted(set(numbers)):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)


def with_files(text: str, files: Iterable[Attachment]) -> str:
    """Return a message as the model reads it: each file's name and fenced text, then ``text``."""
    parts = [
        f"{each.source or each.name}\n{fenced(each.given)}"
        for each in files
        if each.kind != "image"
    ]
    return "\n\n".join([*parts, text] if text.strip() else parts) or text


def fenced(text: str, language: str = "") -> str:
    """Return ``text`` in a fence longer than any in it."""
    longest = max(map(len, re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


# ---- rows


def add(db: Any, attachment: Attachment, now: float) -> Attachment:
    """Store an attachment that has no ``id`` yet; return it with one."""
    if attachment.id is not None:
        return attachment
    cursor = db.execute(
        "insert into attachments (created, name, kind, text, pages, unit, source, data) "
        "values (?, ?, ?, ?, ?, ?, ?, ?)",
        [
            now,
            attachment.name,
            attachment.kind,
            attachment.text,
            json.dumps(attachment.pages, ensure_ascii=False) if attachment.pages else None,
            attachment.unit,
            attachment.source,
            attachment.data or None,
        ],
    )
    return replace(attachment, id=int(cursor.lastrowid))


def write_references(db: Any, files: Iterable[Attachment], now: float) -> str | None:
    """Store what is not stored yet, and return what a message keeps of its attachments."""
    stored = [add(db, each, now) for each in files]
    values = [{"id": each.id, "left_out": each.left_out, "tokens": each.tokens} for each in stored]
    return json.dumps(values) if values else None


def read_references(text: str | None, known: dict[int, Attachment]) -> tuple[Attachment, ...]:
    """Return a message's attachments, of those ``known``; what was lost is left out."""
    found = []
    for each in parse_json(text) if text else []:
        stored = known.get(each.get("id") or 0) if isinstance(each, dict) else None
        if stored:
            out, tokens = tuple(each.get("left_out") or ()), each.get("tokens")
            found.append(replace(stored, left_out=out, tokens=tokens))
    return tuple(found)


def of_chat(db: Any, chat: int) -> dict[int, Attachment]:
    """Return the attachments of a chat's messages by number, without the bytes of pictures."""
    return _read(
        db,
        f"select {_COLUMNS} from attachments where id in (select json_extract(value, '$.id') "
        "from messages, json_each(messages.files) where chat = ? and messages.files is not null)",
        [chat],
    )


def by_ids(db: Any, ids: Iterable[int]) -> dict[int, Attachment]:
    """Return the attachments with these numbers."""
    return _read(
        db,
        f"select {_COLUMNS} from attachments where id in (select value from json_each(?))",
        [json.dumps(list(ids))],
    )


def _read(db: Any, sql: str, parameters: list[object]) -> dict[int, Attachment]:
    found = {}
    for id, name, kind, text, pages, unit, source in db.execute(sql, parameters).fetchall():
        texts = tuple(parse_json(pages)) if pages else ()
        found[id] = Attachment(name, text, kind, texts, unit, source, id=id)
    return found


def forget_unused(db: Any, before: float) -> None:
    """Delete attachments that no message has, and that are older than ``before``."""
    db.execute(
        "delete from attachments where created < ? and id not in (select json_extract(value, '$.id') "
        "from messages, json_each(messages.files) where messages.files is not null)",
        [before],
    )


def move_texts(db: Any) -> None:
    """Move the files that version 1 kept within messages into the table."""
    rows = db.execute(
        "select id, created, files from messages where files like '%\"text\"%'"
    ).fetchall()
    for message, created, files in rows:
        values = [each for each in parse_json(files) if isinstance(each, dict)]
        old = [Attachment(str(each.get("name")), str(each.get("text"))) for each in values]
        db.execute(
            "update messages set files = ? where id = ?",
            [write_references(db, old, created), message],
        )


def exported(attachment: Attachment) -> dict[str, Any]:
    """Return an attachment for a file, without its number here."""
    return {name: each for name, each in asdict(attachment).items() if name not in ("id", "data")}
