"""The SQLite file that chats are kept in: opened, set right where it is damaged, read and changed.

Write-ahead logging, and each change is its own transaction: what was written survives ``kill -9``.
Safe to use from any thread.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlite_utils import Database

from app.storage import salvage as store_salvage
from app.storage import schema as store_schema
from app.storage import tree as store_tree
from app.storage.schema import DamagedStore, NoRoom, StoreError

FILE = "chats.db"


class StoreFile:
    """One open file; ``app.storage.store.Store`` says what is asked of it."""

    def __init__(self, folder: Path, *, alone: bool = True) -> None:
        """Open or make the file, bring it up to date, and mark replies that a crash cut short.

        A file that is damaged, or another program's, is set aside with what can be read kept; ``notice``
        then says so. On a full disk the file can only be read, which ``notice`` says too, until a change
        finds room. Unless ``alone`` damage is not mended and running replies are left as they are: for a
        second process beside the app, which may be writing one just now. Raises StoreError for a file
        that cannot be used, or that a newer version of Foretoken has written.
        """
        self._lock = threading.RLock()
        self._file, self._alone = folder / FILE, alone
        self.notice: str | None = None
        self._no_room = False  # the file can only be read
        try:
            self._open()
        except NoRoom as error:
            try:
                self._db = store_schema.open_readable(self._file)
            except StoreError:
                raise error from None
            self._no_room, self.notice = True, f"{error} Until then chats can be read."

    @property
    def alone(self) -> bool:
        """Whether no other process writes replies into the file."""
        return self._alone

    def _open(self) -> None:
        """Open the file to be written. Raises StoreError; nothing is open then."""
        self._db = self._checked() if self._alone else store_schema.open_database(self._file)
        self._no_room = False
        if self._alone:
            try:
                with store_schema.explained(self._file), self._change() as db:
                    db.execute(
                        "update messages set status = 'interrupted' where status = 'running'"
                    )
                    store_tree.forget(db, time.time())
            except BaseException:
                self.close()
                raise

    def _open_again(self) -> None:
        """Open for writing what could only be read. Raises StoreError; it is as before then."""
        self._db.conn.close()
        try:
            self._open()
        except BaseException:
            self._no_room, self._db = True, store_schema.open_readable(self._file)
            raise
        self.notice = None

    def _checked(self) -> Database:
        try:
            return store_schema.open_database(self._file, check=True)
        except DamagedStore as damage:
            with store_schema.explained(self._file):
                self.notice = store_salvage.set_aside(self._file, damage)
            return store_schema.open_database(self._file)

    def close(self) -> None:
        """Afterwards the app's file holds everything by itself: its log is folded in."""
        with self._lock:
            if self._alone and not self._no_room:
                store_schema.fold_log(self._db.conn)
            self._db.conn.close()

    @contextmanager
    def _change(self) -> Iterator[Any]:
        """One transaction; the whole of it is in the file afterwards, or nothing. Raises StoreError for
        what the file, the disk or another program is the reason of."""
        with self._lock, self._explained():
            if self._no_room:
                self._open_again()
            connection = self._db.conn
            connection.execute("begin immediate")
            try:
                yield connection
                connection.execute("commit")
            except BaseException:
                with suppress(sqlite3.Error):  # sqlite has rolled back by itself after some errors
                    connection.execute("rollback")
                raise

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            # Its subclasses are the app's own mistakes, but for this one.
            if type(error) in (sqlite3.DatabaseError, sqlite3.OperationalError):
                raise store_schema.explain(error, self._file) from error
            raise

    def _rows(self, sql: str, parameters: Iterable[object] = ()) -> list[dict[str, Any]]:
        with self._lock, self._explained():
            return list(self._db.query(sql, list(parameters)))
