"""Set a damaged file of chats aside, and recover the rows that can still be read.

A scan of a table ends at the first page that SQLite cannot read. So each row is looked up by its number,
which needs only the pages above it. A file without a readable first page gets that of a new file, which
has the same tables in the same places.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any

from app.storage import attachments as store_attachments
from app.storage import tree as store_tree
from app.storage.rows import STATUSES
from app.storage.schema import TABLES, DamagedStore, fold_log, open_database
from engine.files import parse_json
from engine.values.units import counted

LOST = "Recovered"
"""The title of a chat whose own row could not be read."""
OLDEST = frozenset(("folders", "chats", "messages", "traces"))
"""Tables that a file of every version has."""
MOST_ROWS = 1_000_000
"""Rows of a table that are looked for."""
_SMALLEST = 16
"""Bytes of a row, at least; how many there may be where no table says so."""

Row = dict[str, Any]


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
        f"Foretoken recovered {counted(messages, 'message')} in {counted(chats, 'chat')}"
        if messages
        else "Foretoken could recover nothing"
    )
    return (
        f"The chat file was damaged ({damage.reason}) and is kept as {aside}. "
        f"{sentence}, and continues with a new file."
    )


def _salvage(file: Path, saved: sqlite3.Connection) -> tuple[int, int]:
    """Copy what can be read; return the numbers of chats and messages copied."""
    saved.execute("pragma foreign_keys = off")
    saved.execute("begin immediate")
    with _readable(file) as damaged:
        there = _tables(damaged) or set()
        for table in TABLES if there >= OLDEST else ():
            if table not in there:  # the file is of an older version
                continue
            for row in _rows(damaged, table, file.stat().st_size):
                _insert(saved, table, _sound(table, row))
    # Of a row on the last page of a cut file, zeros may be left.
    saved.execute("delete from messages where role not in ('user', 'assistant')")
    store_attachments.move_texts(saved)
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


@contextmanager
def _readable(file: Path) -> Iterator[sqlite3.Connection]:
    """Open a copy of the file, with its log and a first page."""
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        copy, new = Path(folder) / "copy.db", Path(folder) / "new.db"
        for end in ("", "-wal"):
            with suppress(FileNotFoundError):
                shutil.copy(f"{file}{end}", f"{copy}{end}")
        with closing(_opened(copy)) as found:
            headless = _tables(found) is None
        if headless:
            with closing(open_database(new).conn) as fresh:
                fold_log(fresh)
            _give_first_page(copy, new.read_bytes())
        with closing(_opened(copy)) as found:
            yield found


def _opened(file: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(file)
    connection.row_factory = sqlite3.Row
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    # Without this nothing of a file that was cut can be read.
    connection.execute("pragma writable_schema = on")
    return connection


def _tables(found: sqlite3.Connection) -> set[str] | None:
    """Return the names of tables; None if the schema cannot be read."""
    try:
        return {row["name"] for row in found.execute("select name from sqlite_master")}
    except sqlite3.Error:
        return None


def _give_first_page(copy: Path, new: bytes) -> None:
    """Replace the first page by that of a new file, with the number of pages that there are
    (sqlite.org/fileformat2.html, 1.3)."""
    size = int.from_bytes(new[16:18], "big")
    pages = -(-copy.stat().st_size // size)
    with copy.open("r+b") as raw:
        raw.write(new[:28] + pages.to_bytes(4, "big") + new[32:size])


def _rows(damaged: sqlite3.Connection, table: str, size: int) -> Iterator[Row]:
    """Yield the rows of a table that can be read; ``size``: bytes of the file."""
    last = []
    for sql in (
        f"select max(rowid) from {table}",
        f"select seq from sqlite_sequence where name = '{table}'",
    ):
        with suppress(sqlite3.Error):
            last += [row[0] for row in damaged.execute(sql) if isinstance(row[0], int)]
    for number in range(1, min(max(last, default=size // _SMALLEST), MOST_ROWS) + 1):
        row = None
        with suppress(sqlite3.Error):
            row = damaged.execute(f"select * from {table} where rowid = ?", [number]).fetchone()
        if row is not None:
            yield dict(row)


def _insert(saved: sqlite3.Connection, table: str, row: Row) -> None:
    names, places = ", ".join(row), ", ".join("?" * len(row))
    with suppress(sqlite3.Error):  # the row itself is damaged
        saved.execute(f"insert into {table} ({names}) values ({places})", list(row.values()))


def _sound(table: str, row: Row) -> Row:
    """Return a row without its damaged values: missing pages read as zeros."""
    row = {name: v.replace("\0", "") if isinstance(v, str) else v for name, v in row.items()}
    for name in ("statistics", "files", "system", "pages", "calls", "tools"):
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
    ends = ("" if number == 1 else f"-{number}" for number in count(1))
    names = (file.with_name(f"{file.stem}-damaged-{day}{end}{file.suffix}") for end in ends)
    return next(aside for aside in names if not aside.exists())


def _remove(new: Path) -> None:
    """Delete what an interrupted salvage left."""
    for end in ("", "-wal", "-shm"):
        Path(f"{new}{end}").unlink(missing_ok=True)
