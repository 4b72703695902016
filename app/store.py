"""Chats in one SQLite file of the data folder: messages, their statistics and every round.

Write-ahead logging, and each change is its own transaction: what was written survives ``kill -9``.
Safe to use from any thread. What the file looks like, and looked like, stands in ``app.store_schema``.
"""

from __future__ import annotations

import json
import re
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlite_utils import Database

from app import store_salvage, store_schema
from app.store_schema import REPLY_FORM, DamagedStore, StoreError

__all__ = ["Chat", "Store", "StoreError", "StoredMessage", "shorten"]

FILE = "chats.db"
TITLE_LENGTH = 60


@dataclass(frozen=True, slots=True)
class Chat:
    """One conversation, as the list shows it."""

    id: int
    title: str
    updated: float


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """One message. ``marks`` are a reply's origin marks (see ``app.ui.view``); ``status`` is
    running, done, length, cancelled, failed or interrupted. ``form`` is that of these and of
    ``statistics``, see ``app.store_schema.REPLY_FORM``."""

    id: int
    chat: int
    role: str
    text: str
    marks: str = ""
    status: str = "done"
    error: str | None = None
    statistics: dict[str, Any] | None = None
    form: int = REPLY_FORM


class Store:
    """All chats of one data folder."""

    def __init__(self, folder: Path, *, alone: bool = True) -> None:
        """Open or make the file, bring it up to date, and mark replies that a crash cut short.

        A file that is damaged, or another program's, is set aside with what can be read kept; ``notice``
        then says so. Unless ``alone`` nothing of that is done and running replies are left as they are:
        for a second process beside the app, which may be writing one just now. Raises StoreError for a
        file that cannot be used, or that a newer version of Foretoken has written.
        """
        self._lock = threading.RLock()
        self._file, self._alone = folder / FILE, alone
        self.notice: str | None = None
        self._db = self._checked() if alone else store_schema.open_database(self._file)
        if alone:
            try:
                with store_schema.explained(self._file), self._change() as db:
                    db.execute(
                        "update messages set status = 'interrupted' where status = 'running'"
                    )
            except BaseException:
                self.close()
                raise

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
            if self._alone:
                store_schema.fold_log(self._db.conn)
            self._db.conn.close()

    @contextmanager
    def _change(self) -> Iterator[Any]:
        """One transaction; the whole of it is in the file afterwards, or nothing. Raises StoreError for
        what the file, the disk or another program is the reason of."""
        with self._lock, self._explained():
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

    # ---- chats

    def chats(self) -> tuple[Chat, ...]:
        """Newest first."""
        rows = self._rows("select id, title, updated from chats order by updated desc, id desc")
        return tuple(Chat(**row) for row in rows)

    def search(self, text: str) -> tuple[int, ...]:
        """The chats that hold all words of ``text``, in their titles or messages; newest first."""
        found = "select id from chats where title like ? escape '~' union "
        found += "select chat from messages where text like ? escape '~'"
        words = [re.sub(r"([%_~])", r"~\1", word) for word in text.split()]
        holding = " and ".join([f"id in ({found})"] * len(words)) or "1"
        patterns = [f"%{word}%" for word in words for _ in range(2)]
        rows = self._rows(
            f"select id from chats where {holding} order by updated desc, id desc", patterns
        )
        return tuple(row["id"] for row in rows)

    def has_chat(self, chat: int) -> bool:
        return bool(self._rows("select 1 from chats where id = ?", [chat]))

    def new_chat(self, title: str = "") -> int:
        now = time.time()
        with self._change() as db:
            cursor = db.execute(
                "insert into chats (title, created, updated) values (?, ?, ?)",
                [shorten(title), now, now],
            )
            return int(cursor.lastrowid)

    def rename(self, chat: int, title: str) -> None:
        with self._change() as db:
            db.execute("update chats set title = ? where id = ?", [shorten(title), chat])

    def delete(self, chat: int) -> None:
        with self._change() as db:
            db.execute("delete from chats where id = ?", [chat])

    # ---- messages

    def messages(self, chat: int) -> tuple[StoredMessage, ...]:
        """In order."""
        rows = self._rows(
            "select id, chat, role, text, marks, status, error, statistics, form "
            "from messages where chat = ? order by id",
            [chat],
        )
        return tuple(_message(row) for row in rows)

    def begin_turn(
        self, chat: int, text: str | None, *, keep: int | None
    ) -> tuple[int | None, int]:
        """Start a turn: drop what follows message ``keep`` (None: nothing is dropped, 0: all),
        add the user's ``text`` if any and an empty running reply. Returns both ids."""
        now = time.time()
        with self._change() as db:
            if keep is not None:
                db.execute("delete from messages where chat = ? and id > ?", [chat, keep])
            user = None if text is None else _insert(db, chat, "user", text, "done", now)
            reply = _insert(db, chat, "assistant", "", "running", now)
            db.execute("update chats set updated = ? where id = ?", [now, chat])
            if text is not None:
                db.execute(
                    "update chats set title = ? where id = ? and title = ''", [shorten(text), chat]
                )
            return user, reply

    def save_reply(
        self,
        message: int,
        *,
        text: str,
        marks: str,
        status: str,
        error: str | None = None,
        statistics: dict[str, Any] | None = None,
        trace: Iterable[str] = (),
    ) -> None:
        """Keep a reply as it stands, and append ``trace`` (JSON lines) to its rounds."""
        lines = "\n".join(trace)
        with self._change() as db:
            cursor = db.execute(
                "update messages set text = ?, marks = ?, status = ?, error = ?, statistics = ? "
                "where id = ?",
                [text, marks, status, error, json.dumps(statistics), message],
            )
            if lines and cursor.rowcount:  # the message may have been deleted meanwhile
                db.execute(
                    "insert into traces (message, part, lines) values "
                    "(?, (select count(*) from traces where message = ?), ?)",
                    [message, message, lines],
                )

    def trace(self, message: int) -> tuple[str, ...]:
        """The reply's events as JSON lines."""
        rows = self._rows("select lines from traces where message = ? order by part", [message])
        return tuple(line for row in rows for line in row["lines"].split("\n"))

    def clear(self, chat: int) -> None:
        """Delete all messages of a chat; the chat stays."""
        with self._change() as db:
            db.execute("delete from messages where chat = ?", [chat])

    # ---- settings

    def setting(self, name: str) -> Any:
        """A kept value, or None."""
        rows = self._rows("select value from settings where name = ?", [name])
        return json.loads(rows[0]["value"]) if rows else None

    def keep_setting(self, name: str, value: Any) -> None:
        with self._change() as db:
            db.execute(
                "insert into settings (name, value) values (?, ?) "
                "on conflict (name) do update set value = excluded.value",
                [name, json.dumps(value)],
            )


def shorten(title: str) -> str:
    """The first line, at most ``TITLE_LENGTH`` characters."""
    line = next(iter(title.strip().splitlines()), "").strip()
    return line if len(line) <= TITLE_LENGTH else line[: TITLE_LENGTH - 1].rstrip() + "…"


def _insert(db: Any, chat: int, role: str, text: str, status: str, now: float) -> int:
    cursor = db.execute(
        "insert into messages (chat, role, text, status, created, form) values (?, ?, ?, ?, ?, ?)",
        [chat, role, text, status, now, REPLY_FORM],
    )
    return int(cursor.lastrowid)


def _message(row: dict[str, Any]) -> StoredMessage:
    statistics = row.pop("statistics")
    return StoredMessage(**row, statistics=json.loads(statistics) if statistics else None)
