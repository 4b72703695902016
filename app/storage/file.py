"""The SQLite file of the chats: opened, repaired, read and changed.

Write-ahead logging, and each change is a transaction: what was written survives ``kill -9``. Thread-safe.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlite_utils import Database

from app.storage import attachments as store_attachments
from app.storage import salvage as store_salvage
from app.storage import schema as store_schema
from app.storage import tree as store_tree
from app.storage.schema import DamagedStore, NoRoom, StoreError

FILE = "chats.db"


class StoreFile:
    """An open file; ``app.storage.store.Store`` has its queries."""

    def __init__(self, folder: Path, *, alone: bool = True) -> None:
        """Open or create the file, migrate it, and mark replies that a crash interrupted.

        A damaged file, or another program's, is set aside and its readable rows are copied to a new one;
        ``notice`` says so. On a full disk the file is read-only until a change finds room; ``notice``
        says so too. ``alone`` False is for a second process beside the app, which may be writing a reply:
        it repairs nothing and leaves running replies. Raises StoreError for a file that cannot be used or
        has another version.
        """
        self._lock = threading.RLock()
        self._file, self._alone = folder / FILE, alone
        self.notice: str | None = None
        self._no_room = False  # the file is read-only
        try:
            self._open()
        except NoRoom as error:
            try:
                self._db = store_schema.open_readable(self._file)
            except StoreError:
                raise error from None
            self._no_room, self.notice = True, f"{error} Until then chats are read-only."
        left = "select id from messages where calls is not null or status = 'running'"
        self.own = {int(row["id"]) for row in self._rows(left)} if alone else set[int]()
        """Replies that no other process writes: this one's, and what earlier ones left."""

    def _open(self) -> None:
        """Open the file for writing. Raises StoreError, with nothing left open."""
        self._db = self._checked() if self._alone else store_schema.open_database(self._file)
        self._no_room = False
        if self._alone:
            try:
                with store_schema.explained(self._file), self._change() as db:
                    db.execute(
                        "update messages set status = 'interrupted' where status = 'running'"
                    )
                    store_tree.forget(db, time.time())
                    store_attachments.forget_unused(db, time.time() - store_attachments.UNUSED_S)
            except BaseException:
                self.close()
                raise

    def _open_again(self) -> None:
        """Open the read-only file for writing. Raises StoreError, and leaves it read-only."""
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
        """Close the file; the app first moves its log into it, so that the file alone is complete."""
        with self._lock:
            if self._alone and not self._no_room:
                store_schema.fold_log(self._db.conn)
            self._db.conn.close()

    @contextmanager
    def _change(self) -> Iterator[Any]:
        """Run one transaction, written as a whole or not at all. Raises StoreError for failures of the
        file or the disk, or if another program holds it."""
        with self._lock, self._explained():
            if self._no_room:
                self._open_again()
            with store_schema.transaction(self._db.conn):
                yield self._db.conn

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            # Other subclasses are mistakes of the app itself.
            if type(error) in (sqlite3.DatabaseError, sqlite3.OperationalError):
                raise store_schema.explain(error, self._file) from error
            raise

    def _rows(self, sql: str, parameters: Iterable[object] = ()) -> list[dict[str, Any]]:
        with self._lock, self._explained():
            return list(self._db.query(sql, list(parameters)))
