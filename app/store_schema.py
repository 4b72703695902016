"""What the file of chats looks like, and the steps by which older ones come to look so.

The file itself names the steps that were taken (in ``_sqlite_migrations``). A step that was once released
is never changed: what is to be different gets a step of its own, at the end.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlite_utils import Database, Migrations

from engine.errors import ForetokenError

steps = Migrations("foretoken")
REPLY_FORM = 1
"""In what form ``app.ui.view`` tells a reply's marks, status and statistics; each message has its number.

A change of that form raises it, and takes a step here whose name ends in ``reply_form_N``: by that step
older versions refuse the file. Rows keep the form that they were written in, and can be read for ever.
A figure that is added is no such change: older rows do without it.
"""


class StoreError(ForetokenError):
    """The file of chats cannot be used: damaged, or from a newer version."""


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


def open_database(path: Path) -> Database:
    """Opens or makes the file and takes the steps it lacks, all or none.

    Raises StoreError; the file is then as it was.
    """
    with explained(path):
        connection = sqlite3.connect(
            str(path), check_same_thread=False, isolation_level=None, timeout=10
        )
        try:
            return _prepared(connection, path)
        except BaseException:
            connection.close()
            raise


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """What fails while the file is opened, as a StoreError that says what to do."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise StoreError(
            f"Your chats in {path} cannot be opened: {error}. If another program holds the file, close "
            "it. If the file is damaged, move it elsewhere, and Foretoken starts with a new one; "
            "`sqlite3 chats.db .recover` may save what is in the old one."
        ) from error


def _prepared(connection: sqlite3.Connection, path: Path) -> Database:
    db = Database(connection)
    db.execute("pragma foreign_keys = on")
    _refuse_newer(db, path)
    db.execute("pragma journal_mode = wal")
    db.execute("pragma synchronous = normal")
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
