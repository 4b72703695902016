"""Set a damaged file of chats aside, and recover the rows that can still be read.

SQLite stops at the first page that it cannot read. So rows are read from the pages themselves, and a
row's table is identified by the number and types of its values.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any

from app.storage import sqlite_pages
from app.storage import tree as store_tree
from app.storage.rows import STATUSES
from app.storage.schema import TABLES, DamagedStore, fold_log, open_database
from app.storage.sqlite_pages import Value
from engine.files import parse_json

LOST = "Recovered"
"""The title of a chat whose own row could not be read."""

Row = dict[str, Any]

_STORED: dict[str, tuple[type, ...]] = {"INTEGER": (int,), "REAL": (int, float), "TEXT": (str,)}
"""Python types of a column's values, by its declared type."""


def set_aside(file: Path, damage: DamagedStore) -> str:
    """Replace a damaged file with a new one that has every readable row; return a message about it.

    The damaged file is renamed and stays beside it. Raises StoreError, sqlite3.Error or OSError if the
    new file cannot be written; the damaged one is then where it was.
    """
    new = file.with_name(file.name + ".new")
    _remove(new)
    with closing(open_database(new).conn) as saved:
        chats, messages = _salvage(file, saved)
        fold_log(saved)
    aside = _free_name(file)
    for end in ("", "-wal"):
        with suppress(FileNotFoundError):
            Path(f"{file}{end}").rename(f"{aside}{end}")
    Path(f"{file}-shm").unlink(missing_ok=True)
    new.rename(file)
    sentence = (
        f"{messages} messages in {chats} chats could be read"
        if messages
        else "Nothing of it could be read"
    )
    return (
        f"The file of your chats could not be used ({damage.reason}), so it was set aside as {aside}. "
        f"{sentence}, and Foretoken goes on with a new file."
    )


def _salvage(file: Path, saved: sqlite3.Connection) -> tuple[int, int]:
    """Copy what can be read; return the numbers of chats and messages copied."""
    saved.execute("pragma foreign_keys = off")
    saved.execute("begin immediate")
    kinds = [_Kind.of(table, saved) for table in TABLES]
    log = file.with_name(file.name + "-wal")
    seen: set[tuple[str, int]] = set()
    for number, values in sqlite_pages.rows(
        file.read_bytes(), log.read_bytes() if log.is_file() else b""
    ):
        kind = next((each for each in kinds if each.fits(values)), None)
        if kind is not None and (kind.table, number) not in seen:
            seen.add((kind.table, number))
            _insert(saved, kind.table, _sound(kind.table, kind.row(number, values)))
    saved.execute(
        "insert into chats (id, title, created, updated) select chat, ?, min(created), max(created) "
        "from messages where chat not in (select id from chats) group by chat",
        [LOST],
    )
    saved.execute("delete from traces where message not in (select id from messages)")
    saved.execute("update chats set folder = null where folder not in (select id from folders)")
    store_tree.mend(saved)
    saved.execute("commit")
    chats, messages = (
        saved.execute(f"select count(*) from {table}").fetchone()[0]
        for table in ("chats", "messages")
    )
    return chats, messages


@dataclass(frozen=True, slots=True)
class _Kind:
    """A table, and how its rows are identified: by the types that each column's values may have."""

    table: str
    columns: tuple[tuple[str, tuple[type, ...]], ...]
    numbered: str | None
    """The integer primary key: SQLite stores it as the row's number, and NULL in the row."""

    @classmethod
    def of(cls, table: str, saved: sqlite3.Connection) -> _Kind:
        columns = saved.execute(f"pragma table_info({table})").fetchall()
        keys = [name for _, name, type_, _, _, key in columns if key and type_ == "INTEGER"]
        numbered = keys[0] if len(keys) == 1 else None
        return cls(
            table,
            tuple(
                (
                    name,
                    (type(None),)
                    if name == numbered
                    else _STORED[type_]
                    if not_null
                    else (*_STORED[type_], type(None)),
                )
                for _, name, type_, not_null, _, _ in columns
            ),
            numbered,
        )

    def fits(self, values: tuple[Value, ...]) -> bool:
        return len(values) == len(self.columns) and all(
            isinstance(value, allowed)
            for value, (_, allowed) in zip(values, self.columns, strict=True)
        )

    def row(self, number: int, values: tuple[Value, ...]) -> Row:
        row = {name: value for (name, _), value in zip(self.columns, values, strict=True)}
        return row if self.numbered is None else row | {self.numbered: number}


def _insert(saved: sqlite3.Connection, table: str, row: Row) -> None:
    names, places = ", ".join(row), ", ".join("?" * len(row))
    with suppress(sqlite3.Error):  # the row itself is damaged
        saved.execute(f"insert into {table} ({names}) values ({places})", list(row.values()))


def _sound(table: str, row: Row) -> Row:
    """Return a row without its damaged values: missing pages read as zeros."""
    row = {name: v.replace("\0", "") if isinstance(v, str) else v for name, v in row.items()}
    for name in ("statistics", "files", "system"):
        if name in row and not _is_json(row[name]):
            row[name] = None
    if table == "messages":
        row["status"] = row["status"] if row["status"] in STATUSES else "interrupted"
    if table == "traces":
        row["lines"] = "\n".join(filter(_is_json, str(row["lines"]).split("\n")))
    return row


def _is_json(text: object) -> bool:
    try:
        parse_json(str(text))
    except ValueError:
        return False
    return text is not None


def _free_name(file: Path) -> Path:
    day = datetime.now().strftime("%Y-%m-%d")
    for number in count(1):
        end = "" if number == 1 else f"-{number}"
        aside = file.with_name(f"{file.stem}-damaged-{day}{end}{file.suffix}")
        if not aside.exists():
            return aside
    raise AssertionError("numbers do not end")


def _remove(new: Path) -> None:
    """Delete what an interrupted salvage left."""
    for end in ("", "-wal", "-shm"):
        Path(f"{new}{end}").unlink(missing_ok=True)
