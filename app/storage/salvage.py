"""Setting a damaged file of chats aside, and reading out of it what can still be read.

SQLite stops at the first page that it cannot read, so rows are taken from the pages themselves, and known
by what stands in their columns.
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

LATER = ("folders",)
"""Tables that files of earlier versions lack."""

LOST = "Recovered"
"""The title of a chat whose own row could not be read."""

Row = dict[str, Any]

_STORED: dict[str, tuple[type, ...]] = {"INTEGER": (int,), "REAL": (int, float), "TEXT": (str,)}
"""How values of a column are stored, by its type."""


def set_aside(file: Path, damage: DamagedStore) -> str:
    """Puts a new file in the place of a damaged one, with what could be read; returns what to say of it.

    The damaged file keeps its content under another name beside it. Raises StoreError, sqlite3.Error or
    OSError where the new one cannot be written; the damaged one is then where it was.
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
    Path(f"{file}-shm").unlink(missing_ok=True)  # belongs to no file any more
    new.rename(file)
    found = (
        f"{messages} messages in {chats} chats could be read"
        if messages
        else "Nothing of it could be read"
    )
    return (
        f"The file of your chats could not be used ({damage.reason}), so it was set aside as {aside}. "
        f"{found}, and Foretoken goes on with a new file."
    )


def _salvage(file: Path, saved: sqlite3.Connection) -> tuple[int, int]:
    """Copy what can be read; return how many chats and messages came over."""
    saved.execute("pragma foreign_keys = off")
    saved.execute("begin immediate")
    kinds = [_Kind.of(table, saved) for table in (*TABLES, *LATER)]
    log = file.with_name(file.name + "-wal")
    known: set[tuple[str, int]] = set()
    chained = False
    for number, values in sqlite_pages.rows(
        file.read_bytes(), log.read_bytes() if log.is_file() else b""
    ):
        kind = next((each for each in kinds if each.fits(values)), None)
        if kind is None or (kind.table, number) in known:
            continue
        known.add((kind.table, number))
        row = kind.row(number, values)
        chained = chained or "parent" in row
        _insert(saved, kind.table, _sound(kind.table, row))
    saved.execute(
        "insert into chats (id, title, created, updated) select chat, ?, min(created), max(created) "
        "from messages where chat not in (select id from chats) group by chat",
        [LOST],
    )
    saved.execute("delete from traces where message not in (select id from messages)")
    saved.execute("update chats set folder = null where folder not in (select id from folders)")
    store_tree.mend(saved, chained=chained)
    saved.execute("commit")
    counted = [saved.execute(f"select count(*) from {table}").fetchone()[0] for table in TABLES]
    return counted[0], counted[1]


@dataclass(frozen=True, slots=True)
class _Kind:
    """How rows of a table are known: ``columns`` are names with what may stand there. Those behind the
    first ``needed`` were added later, and are missing in rows from before."""

    table: str
    columns: tuple[tuple[str, tuple[type, ...]], ...]
    needed: int
    numbered: str | None
    """The column that is the row's number, which the row itself does not hold."""

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
            len(TABLES.get(table, columns)),
            numbered,
        )

    def fits(self, values: tuple[Value, ...]) -> bool:
        return self.needed <= len(values) <= len(self.columns) and all(
            isinstance(value, allowed)
            for value, (_, allowed) in zip(values, self.columns, strict=False)
        )

    def row(self, number: int, values: tuple[Value, ...]) -> Row:
        found = {name: value for (name, _), value in zip(self.columns, values, strict=False)}
        return found if self.numbered is None else found | {self.numbered: number}


def _insert(saved: sqlite3.Connection, table: str, row: Row) -> None:
    names, places = ", ".join(row), ", ".join("?" * len(row))
    with suppress(sqlite3.Error):  # a row that is damaged itself
        saved.execute(f"insert into {table} ({names}) values ({places})", list(row.values()))


def _sound(table: str, row: Row) -> Row:
    """What of a row is as it was written: pages that are missing read as zeros."""
    row = {name: v.replace("\0", "") if isinstance(v, str) else v for name, v in row.items()}
    for name in ("statistics", "files", "system"):
        if name in row and not _is_json(row[name]):
            row[name] = None
    if table == "settings" and not _is_json(row["value"]):
        row["value"] = None  # which makes the row none
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
    """What a salvage that was cut short left."""
    for end in ("", "-wal", "-shm"):
        Path(f"{new}{end}").unlink(missing_ok=True)
