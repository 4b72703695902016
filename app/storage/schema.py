"""The tables of the file of chats, its version, and how it is opened.

``pragma user_version`` holds the version. A change of the tables, or of the form of a reply's marks,
status and statistics in ``app.ui.rounds.view``, raises ``VERSION`` and adds a migration.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlite_utils import Database

from app.storage import attachments as store_attachments
from engine.errors import ForetokenError, what_failed

VERSION = 4


def _add_attachments(db: sqlite3.Connection) -> None:
    db.execute(store_attachments.TABLE)
    store_attachments.move_texts(db)


def _add_tools(db: sqlite3.Connection) -> None:
    """Add the calls of tools in replies, and which servers of tools a chat uses."""
    db.execute("alter table chats add column tools text")
    db.execute("alter table messages add column calls text")


def _add_edits(db: sqlite3.Connection) -> None:
    """Add which replies were edited, and who gave a chat its title. Older titles are the user's."""
    db.execute("alter table messages add column edited integer not null default 0")
    db.execute("alter table chats add column titled text not null default ''")
    db.execute("update chats set titled = 'user'")


MIGRATIONS: Mapping[int, Callable[[sqlite3.Connection], None]] = {
    1: _add_attachments,
    2: _add_tools,
    3: _add_edits,
}
"""Functions that migrate a file of each version to the next one, within a transaction."""

STATEMENTS = (
    """create table folders (
        id integer primary key autoincrement, name text not null, folded integer not null default 0
    )""",
    """create table chats (
        id integer primary key autoincrement, title text not null default '',
        created real not null, updated real not null,
        folder integer references folders(id) on delete set null, deleted real, system text,
        tools text, titled text not null default ''
    )""",
    # No constraint on parent: SQLite cannot delete a long chat down the tree row by row, which is too
    # deep.
    """create table messages (
        id integer primary key autoincrement,
        chat integer not null references chats(id) on delete cascade,
        role text not null, text text not null, marks text not null default '',
        status text not null default 'done', error text, statistics text, created real not null,
        parent integer, shown integer not null default 1, deleted real,
        left_out integer not null default 0, files text, model text, method text,
        calls text, edited integer not null default 0
    )""",
    """create table traces (
        message integer not null references messages(id) on delete cascade,
        part integer not null, lines text not null, primary key (message, part)
    )""",
    store_attachments.TABLE,
    "create index messages_of_chat on messages(chat, id)",
    "create index messages_of_parent on messages(parent)",
)
"""Tables first: so a file has each at the same page, also after ``vacuum``; see ``salvage``."""
TABLES = ("folders", "chats", "messages", "traces", "attachments")


class StoreError(ForetokenError):
    """The file of chats cannot be used: disk full, locked, not writable, or of another version."""


class NoRoom(StoreError):
    """The disk is full or fails. What was stored before may still be readable."""


class DamagedStore(StoreError):
    """The file of chats is damaged, or not a file of Foretoken. ``reason`` in a few words."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


def open_database(path: Path, *, check: bool = False) -> Database:
    """Open or create the file, readable by its owner alone, and migrate an older one.

    ``check`` reads all of the file first to find damage. Raises StoreError, of which DamagedStore; the
    file is then unchanged.
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
    """Open the file for reading only, on a disk that has no room even for the log's index. No other
    process can open it meanwhile. Raises StoreError, also for a file of another version."""
    with explained(path):
        connection = sqlite3.connect(
            f"{path.as_uri()}?mode=rw", uri=True, check_same_thread=False, isolation_level=None
        )
        try:
            connection.execute("pragma locking_mode = exclusive")  # the index is in memory then
            connection.execute("pragma query_only = on")
            if _version(connection) != VERSION:
                raise sqlite3.OperationalError("its version cannot be changed")
            return Database(connection)
        except BaseException:
            connection.close()
            raise


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Write what this block does as a whole, or nothing of it."""
    connection.execute("begin immediate")
    try:
        yield
        connection.execute("commit")
    except BaseException:
        with suppress(sqlite3.Error):  # sqlite has rolled back by itself after some errors
            connection.execute("rollback")
        raise


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn errors of opening the file into StoreErrors that say what to do."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise explain(error, path) from error
    except OSError as error:
        raise StoreError(
            f"Your chats in {path} cannot be opened: {what_failed(error)}. Check the "
            "permissions, or choose another folder with --data-dir."
        ) from error


def explain(error: sqlite3.Error, path: Path) -> StoreError:
    """Return what happened to the file, why, and what to do."""
    name = (getattr(error, "sqlite_errorname", None) or "").removeprefix("SQLITE_")
    # On a full disk, enlarging the log's index fails first.
    match "FULL" if name == "IOERR_SHMSIZE" else name.split("_")[0]:
        case "FULL":
            return NoRoom(
                f"The disk is full, so nothing more can be saved in {path}. Earlier chats are "
                "intact. Free some space and try again."
            )
        case "BUSY" | "LOCKED":
            return StoreError(
                f"Another program is locking {path}, so your chats cannot be read or saved. "
                "Close it and try again."
            )
        case "READONLY" | "PERM" | "CANTOPEN":
            return StoreError(
                f"Your chats in {path} cannot be written: {error}. Check the permissions, or "
                "choose another folder with --data-dir."
            )
        case "IOERR":
            return NoRoom(
                f"The disk failed at {path}: {error}. Free some space or check the disk, then "
                "try again."
            )
        case "CORRUPT" | "NOTADB":
            return DamagedStore(
                f"Your chats in {path} cannot be opened: {error}. Restart Foretoken: it sets "
                "the file aside and recovers what it can.",
                str(error),
            )
        case _:
            return StoreError(
                f"Your chats in {path} cannot be opened: {error}. If another program is locking "
                "the file, close it; otherwise move the file elsewhere, and Foretoken starts a "
                "new one."
            )


def fold_log(connection: sqlite3.Connection) -> None:
    """Move the write-ahead log into the file, so that a copy of the file is complete.

    For a connection that is closed next. What another reading process holds back stays in the log.
    """
    with suppress(sqlite3.Error):
        connection.execute("pragma busy_timeout = 500")
        connection.execute("pragma wal_checkpoint(truncate)")


def _keep_private(path: Path) -> None:
    """Create the file if needed; let its owner alone read it. The log gets the file's mode from
    SQLite."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    for file in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
        with suppress(OSError):  # somebody else's, or gone by now
            file.chmod(0o600)


def _prepared(connection: sqlite3.Connection, path: Path, check: bool) -> Database:
    connection.execute("pragma foreign_keys = on")
    _check_version(connection, path)
    if check:
        _check_damage(connection)
    connection.execute("pragma journal_mode = wal")
    connection.execute("pragma synchronous = normal")
    # In pages of 4 KB. Small, as a copy of the database file alone lacks what is only in the log.
    connection.execute("pragma wal_autocheckpoint = 64")
    with transaction(connection):  # another process may be opening the same file
        _check_version(connection, path)
        migrated = _migrate(connection)
    if migrated:
        with suppress(sqlite3.OperationalError):  # no room for a copy, or another process reads
            connection.execute("vacuum")  # every table at the page that new files have it at
    return Database(connection)


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("pragma user_version").fetchone()[0])


def _migrate(connection: sqlite3.Connection) -> bool:
    """Create the tables of an empty file, or change those of an older version; return True for that."""
    version = _version(connection)
    if version == 0:
        for statement in STATEMENTS:
            connection.execute(statement)
    else:
        for each in range(version, VERSION):
            MIGRATIONS[each](connection)
    connection.execute(f"pragma user_version = {VERSION}")
    return 0 < version < VERSION


def _check_version(connection: sqlite3.Connection, path: Path) -> None:
    """Raise StoreError for a version that this one can neither use nor migrate, or another program's."""
    version = _version(connection)
    if version > VERSION:
        raise StoreError(
            f"Your chats in {path} were written by a newer version of Foretoken ({version}). "
            "Nothing was changed. Update Foretoken, or choose another folder with --data-dir."
        )
    names = "select name from sqlite_master where type = 'table' and name not like 'sqlite_%'"
    tables = {name for (name,) in connection.execute(names)}
    if tables and not {"chats", "messages", "traces"} <= tables:
        raise DamagedStore(
            f"{path} is a database of another program. Move it elsewhere, and Foretoken "
            "starts a new one.",
            "it is another program's database",
        )
    if tables and not set(range(version, VERSION)) <= MIGRATIONS.keys():
        raise StoreError(
            f"Your chats in {path} were written by an older version of Foretoken "
            f"({version}) that this version cannot read. Nothing was changed. Move the file "
            "elsewhere, and Foretoken starts a new one, or choose another folder with "
            "--data-dir."
        )


def _check_damage(connection: sqlite3.Connection) -> None:
    (result,) = connection.execute("pragma quick_check(1)").fetchone()
    if result != "ok":
        error = sqlite3.DatabaseError(result)
        error.sqlite_errorname = "SQLITE_CORRUPT"
        raise error
