"""Setting a damaged file of chats aside, and reading out of it what can still be read.

SQLite stops at the first page that it cannot read. Rows before and behind such a page are reached from
both ends of their table, and those between by their numbers.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any

from app import store_tree
from app.store_schema import TABLES, DamagedStore, fold_log, open_database

MOST_PROBED = 100_000
"""Numbers of rows that are tried one by one between two readable ends."""

LATER = ("folders",)
"""Tables that files of earlier versions lack."""

LOST = "Recovered"
"""The title of a chat whose own row could not be read."""

Row = dict[str, Any]


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
    """How many chats and messages came over."""
    saved.execute("pragma foreign_keys = off")
    saved.execute("begin immediate")
    with closing(sqlite3.connect(str(file), isolation_level=None, timeout=10)) as damaged:
        damaged.row_factory = sqlite3.Row
        damaged.text_factory = lambda raw: raw.decode("utf-8", "replace")
        # Otherwise SQLite reads nothing at all of a file that is shorter than it says.
        damaged.execute("pragma writable_schema = on")
        chained = False
        for table in (*TABLES, *LATER):
            for row in _rows(damaged, table):
                chained = chained or "parent" in row
                _insert(saved, table, _sound(table, row))
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


def _insert(saved: sqlite3.Connection, table: str, row: Row) -> None:
    known = {str(column[1]) for column in saved.execute(f"pragma table_info({table})")}
    values = {name: value for name, value in row.items() if name in known}
    names, places = ", ".join(values), ", ".join("?" * len(values))
    with suppress(sqlite3.Error):  # a row that is damaged itself
        saved.execute(f"insert into {table} ({names}) values ({places})", list(values.values()))


def _sound(table: str, row: Row) -> Row:
    """What of a row is as it was written: pages that are missing read as zeros."""
    row = {name: v.replace("\0", "") if isinstance(v, str) else v for name, v in row.items()}
    for name in ("statistics", "files", "system"):
        if name in row and not _is_json(row[name]):
            row[name] = None
    if table == "settings" and not _is_json(row["value"]):
        row["value"] = None  # which makes the row none
    if table == "traces":
        row["lines"] = "\n".join(filter(_is_json, str(row["lines"]).split("\n")))
    return row


def _is_json(text: object) -> bool:
    try:
        json.loads(text)  # type: ignore[arg-type]  # a TypeError says as much
    except (TypeError, ValueError):
        return False
    return True


def _rows(damaged: sqlite3.Connection, table: str) -> Iterator[Row]:
    """Every row that can be read, each once."""
    first, last = 0, 0  # the numbers of the rows next to what cannot be read
    broken = False
    for order in ("asc", "desc"):
        try:
            for row in damaged.execute(
                f"select rowid as number_, * from {table} order by rowid {order}"
            ):
                number = row["number_"]
                if order == "desc" and number <= first:
                    return
                first, last = (number, last) if order == "asc" else (first, number)
                yield _values(row)
        except sqlite3.DatabaseError:
            broken = True
        if not broken:
            return
    for number in range(first + 1, min(last, first + MOST_PROBED)):
        with suppress(sqlite3.DatabaseError):
            found = damaged.execute(f"select * from {table} where rowid = ?", [number]).fetchone()
            if found is not None:
                yield _values(found)


def _values(row: sqlite3.Row) -> Row:
    return {name: row[name] for name in row.keys() if name != "number_"}  # noqa: SIM118 (no mapping)


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
