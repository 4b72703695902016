"""What the file of chats looks like, and the steps by which older ones come to look so.

The file itself names the steps that were taken (in ``_sqlite_migrations``). A step that was once released
is never changed: what is to be different gets a step of its own, at the end.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlite_utils import Database, Migrations

from engine.errors import ForetokenError, what_failed
from engine.files import parse_json

steps = Migrations("foretoken")
REPLY_FORM = 1
"""The form of a reply's marks, status and statistics in ``app.ui.rounds.view``; each message has it.

A change of that form raises it, and takes a step here whose name ends in ``reply_form_N``: by that step
older versions refuse the file. Rows keep the form that they were written in, and can be read for ever.
A figure that is added is no such change: older rows do without it.
"""


class StoreError(ForetokenError):
    """The file of chats cannot be used: full disk, locked, not to be written, from a newer version."""


class NoRoom(StoreError):
    """The disk is full, or fails: what was kept before may still be read."""


class DamagedStore(StoreError):
    """The file of chats is damaged, or is none of Foretoken's. ``reason`` in a few words."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


@steps(name="0001_chats_messages_traces_settings")
def _first(db: Any) -> None:
    """All tables. Files from before there were steps have them already."""
    for statement in (
        """create table if not exists chats (
            id integer primary key autoincrement, title text not null default '',
            created real not null, updated real not null
        )""",
        """create table if not exists messages (
            id integer primary key autoincrement,
            chat integer not null references chats(id) on delete cascade,
            role text not null, text text not null, marks text not null default '',
            status text not null default 'done', error text, statistics text, created real not null
        )""",
        "create index if not exists messages_of_chat on messages(chat, id)",
        """create table if not exists traces (
            message integer not null references messages(id) on delete cascade,
            part integer not null, lines text not null, primary key (message, part)
        )""",
        "create table if not exists settings (name text primary key, value text not null)",
    ):
        db.execute(statement)


@steps(name="0002_reply_form_1")
def _number_forms(db: Any) -> None:
    """The form of each message; what was written before is of the first."""
    db.execute("alter table messages add column form integer not null default 1")


@steps(name="0003_branches_folders_files")
def _branch(db: Any) -> None:
    """Messages form a tree, of which one path is shown; what is deleted can be taken back for a while.

    ``parent`` refers to no row by a constraint: deleting a long chat row by row down the tree would be
    deeper than SQLite goes.
    """
    for statement in (
        "alter table messages add column parent integer",
        "alter table messages add column shown integer not null default 1",
        "alter table messages add column deleted real",
        "alter table messages add column left_out integer not null default 0",
        "alter table messages add column files text",
        "alter table messages add column model text",
        "alter table messages add column method text",
        """create table folders (
            id integer primary key autoincrement, name text not null, folded integer not null default 0
        )""",
        "alter table chats add column folder integer references folders(id) on delete set null",
        "alter table chats add column deleted real",
        "alter table chats add column system text",
        "create index messages_of_parent on messages(parent)",
        CHAIN,
    ):
        db.execute(statement)
    # Who wrote a reply stands in its first events.
    first = db.execute("select message, lines from traces where part = 0")
    for message, lines in [(row[0], row[1]) for row in first.fetchall()]:
        for line in lines.split("\n")[:3]:
            with suppress(ValueError, AttributeError):
                event = parse_json(line)
                if event.get("type") == "started":
                    model = event.get("model")
                    model = "Pip" if model == "target" else model  # so its folder is called
                    found = [model, event.get("proposer"), message]
                    db.execute("update messages set model = ?, method = ? where id = ?", found)


CHAIN = """update messages set parent = (
    select max(before.id) from messages before
    where before.chat = messages.chat and before.id < messages.id
)"""
"""Makes each message follow the one before it, as where there were no branches."""

TABLES = {
    "chats": ("id", "title", "created", "updated"),
    "messages": ("id", "chat", "role", "text", "marks", "status", "error", "statistics", "created"),
    "traces": ("message", "part", "lines"),
    "settings": ("name", "value"),
}
"""What every version's file has; parents stand before what refers to them."""


def open_database(path: Path, *, check: bool = False) -> Database:
    """Opens or makes the file, readable by its owner alone, and takes the steps it lacks, all or none.

    With ``check`` all of an older file is looked at first. Raises StoreError, of which DamagedStore; the
    file is then as it was.
    """
    with explained(path):
        _keep_private(path)
        connection = sqlite3.connect(
            str(path), check_same_thread=False, isolation_level=None, timeout=10
        )
        try:
            return _prepared(connection, path, check)
        except BaseException:
            connection.close()
            raise


def open_readable(path: Path) -> Database:
    """Open the file for reading only, on a disk without room even for the log's index. Nobody else can
    open it meanwhile. Raises StoreError, also for a file of an older version."""
    with explained(path):
        connection = sqlite3.connect(
            f"{path.as_uri()}?mode=rw", uri=True, check_same_thread=False, isolation_level=None
        )
        try:
            connection.execute("pragma locking_mode = exclusive")  # the index is in memory then
            connection.execute("pragma query_only = on")
            db = Database(connection)
            if steps.pending(db):
                raise sqlite3.OperationalError("it is of an older version, which cannot be changed")
            return db
        except BaseException:
            connection.close()
            raise


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """What fails while the file is opened, as a StoreError that says what to do."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise explain(error, path) from error
    except OSError as error:
        raise StoreError(
            f"Your chats in {path} cannot be opened: {what_failed(error)}. Choose another folder with "
            "--data-dir, or give yourself the right to write there."
        ) from error


def explain(error: sqlite3.Error, path: Path) -> StoreError:
    """What happened to the file, why, and what to do."""
    name = (getattr(error, "sqlite_errorname", None) or "").removeprefix("SQLITE_")
    # To make the log's index larger is the first that fails on a full disk.
    match "FULL" if name == "IOERR_SHMSIZE" else name.split("_")[0]:
        case "FULL":
            return NoRoom(
                f"The disk is full, so nothing more can be kept in {path}. What was kept before is "
                "there. Make room, then try again."
            )
        case "BUSY" | "LOCKED":
            return StoreError(
                f"Another program holds {path}, so your chats cannot be read or kept. Close it, then "
                "try again."
            )
        case "READONLY" | "PERM" | "CANTOPEN":
            return StoreError(
                f"Your chats in {path} cannot be opened to be written: {error}. Give yourself the right "
                "to write there, or choose another folder with --data-dir."
            )
        case "IOERR":
            return NoRoom(
                f"The disk failed at {path}: {error}. Make room if it is full, look after the disk if it "
                "is not, then try again."
            )
        case "CORRUPT" | "NOTADB":
            return DamagedStore(
                f"Your chats in {path} cannot be opened: {error}. Start Foretoken anew: it sets the "
                "file aside, and keeps what can be read of it.",
                str(error),
            )
        case _:
            return StoreError(
                f"Your chats in {path} cannot be opened: {error}. If another program holds the file, "
                "close it; else move the file elsewhere, and Foretoken starts with a new one."
            )


def fold_log(connection: sqlite3.Connection) -> None:
    """Brings what stands in the write-ahead log into the file itself, so that a copy of it is whole.

    For a connection that is closed next. Where another process reads, what it keeps back stays there.
    """
    with suppress(sqlite3.Error):
        connection.execute("pragma busy_timeout = 500")
        connection.execute("pragma wal_checkpoint(truncate)")


def _keep_private(path: Path) -> None:
    """Chats are their owner's alone; the log beside the file gets the file's mode by itself."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    for file in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
        with suppress(OSError):  # somebody else's, or gone by now
            file.chmod(0o600)


def _prepared(connection: sqlite3.Connection, path: Path, check: bool) -> Database:
    db = Database(connection)
    db.execute("pragma foreign_keys = on")
    _refuse_newer(db, path)
    if check:
        _refuse_foreign(connection, path)
        _refuse_damaged(connection)
    db.execute("pragma journal_mode = wal")
    db.execute("pragma synchronous = normal")
    # Pages of 4 KB. What stands in the log alone is lost with it, and to who copies the file alone.
    db.execute("pragma wal_autocheckpoint = 64")
    # One transaction around them: another process may open the same old file just now.
    connection.execute("begin immediate")
    try:
        _refuse_newer(db, path)
        steps.apply(db)
    except BaseException:
        with suppress(sqlite3.Error):  # sqlite has rolled back by itself after some errors
            connection.execute("rollback")
        raise
    connection.execute("commit")
    return db


def _refuse_foreign(connection: sqlite3.Connection, path: Path) -> None:
    """A database that some other program made."""
    there = {
        str(name): {str(row[1]) for row in connection.execute(f"pragma table_info([{name}])")}
        for (name,) in connection.execute("select name from sqlite_master where type = 'table'")
    }
    if there and not all(set(TABLES[name]) <= there.get(name, set()) for name in TABLES):
        raise DamagedStore(
            f"{path} is a database of another program: it has no tables of Foretoken's. Move it "
            "elsewhere, and Foretoken starts with a new one.",
            "it is another program's database",
        )


def _refuse_damaged(connection: sqlite3.Connection) -> None:
    (found,) = connection.execute("pragma quick_check(1)").fetchone()
    if found != "ok":
        error = sqlite3.DatabaseError(found)
        error.sqlite_errorname = "SQLITE_CORRUPT"
        raise error


def _known() -> frozenset[str]:
    """The names of all steps: what an empty file lacks."""
    empty = Database(memory=True)
    try:
        return frozenset(step.name for step in steps.pending(empty))
    finally:
        empty.close()


def _refuse_newer(db: Database, path: Path) -> None:
    known = _known()
    unknown = [step.name for step in steps.applied(db) if step.name not in known]
    if unknown:
        raise StoreError(
            f"Your chats in {path} were written by a newer version of Foretoken ({unknown[-1]}). "
            "Nothing was changed. Update Foretoken, or choose another folder with --data-dir."
        )
