"""The chats of a data folder: messages, their statistics and every round. ``app.storage.schema`` has the
tables."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable
from typing import Any, Literal

from app.storage import tree as store_tree
from app.storage.file import StoreFile
from app.storage.history import TextFile, history
from app.storage.rows import (
    COLUMNS,
    Chat,
    Folder,
    StoredMessage,
    SystemPrompt,
    read_message,
    read_system,
    write_files,
    write_system,
)
from engine.files import parse_json
from engine.values.messages import Message

TITLE_LENGTH = 120
UNDO_S = 3600.0
"""Seconds in which a deletion can be undone, unless the app ends sooner."""


class Store(StoreFile):
    """All chats of one data folder."""

    # ---- chats

    def chats(self) -> tuple[Chat, ...]:
        """Return all chats, newest first."""
        rows = self._rows(
            "select id, title, updated, folder, system from chats where deleted is null "
            "order by updated desc, id desc"
        )
        return tuple(Chat(**{**row, "system": read_system(row["system"])}) for row in rows)

    def written(self) -> float:
        """Return when any chat last changed."""
        (row,) = self._rows("select max(updated) latest from chats")
        return float(row["latest"] or 0.0)

    def search(self, text: str) -> tuple[int, ...]:
        """Return the chats that contain all words of ``text`` in titles, answers or files, but not those
        with words only in thoughts; newest first."""
        self._db.conn.create_function("answer", 3, _answer)
        matching = "select id from chats where title like ? escape '~' union "
        matching += (
            "select chat from messages where deleted is null and (files like ? escape '~' or "
        )
        matching += "text like ? escape '~' and answer(role, text, statistics) like ? escape '~')"
        words = [re.sub(r"([%_~])", r"~\1", word) for word in text.split()]
        holding = " and ".join(["deleted is null", *[f"id in ({matching})"] * len(words)])
        patterns = [f"%{word}%" for word in words for _ in range(4)]
        rows = self._rows(
            f"select id from chats where {holding} order by updated desc, id desc", patterns
        )
        return tuple(row["id"] for row in rows)

    def has_chat(self, chat: int) -> bool:
        return bool(self._rows("select 1 from chats where id = ? and deleted is null", [chat]))

    def new_chat(
        self, title: str = "", system: SystemPrompt | None = None, folder: int | None = None
    ) -> int:
        with self._change() as db:
            return _new_chat(db, title, system, folder)

    def rename(self, chat: int, title: str) -> None:
        with self._change() as db:
            db.execute("update chats set title = ? where id = ?", [shorten(title), chat])

    def use_system(self, chat: int, system: SystemPrompt | None) -> None:
        """Set a chat's system prompt; None: that of the settings."""
        with self._change() as db:
            db.execute("update chats set system = ? where id = ?", [write_system(system), chat])

    def system_of(self, chat: int) -> SystemPrompt | None:
        rows = self._rows("select system from chats where id = ?", [chat])
        return read_system(rows[0]["system"]) if rows else None

    # ---- folders

    def folders(self) -> tuple[Folder, ...]:
        """Return all folders by name."""
        rows = self._rows("select id, name, folded from folders order by name collate nocase, id")
        return tuple(Folder(**{**row, "folded": bool(row["folded"])}) for row in rows)

    def new_folder(self, name: str) -> int:
        with self._change() as db:
            cursor = db.execute("insert into folders (name) values (?)", [shorten(name)])
            return int(cursor.lastrowid)

    def change_folder(
        self, folder: int, *, name: str | None = None, folded: bool | None = None
    ) -> None:
        with self._change() as db:
            db.execute(
                "update folders set name = coalesce(?, name), folded = coalesce(?, folded) "
                "where id = ?",
                [None if name is None else shorten(name), folded, folder],
            )

    def delete_folder(self, folder: int) -> None:
        """Delete a folder; its chats stay, in no folder."""
        with self._change() as db:
            db.execute("delete from folders where id = ?", [folder])

    def move(self, chat: int, folder: int | None) -> None:
        """Move a chat into a folder, or out of all if ``folder`` is None or gone."""
        with self._change() as db:
            db.execute(
                "update chats set folder = (select id from folders where id = ?) where id = ?",
                [folder, chat],
            )

    # ---- deleting and undoing it

    def delete(self, chat: int) -> float:
        """Delete a chat; return the time that ``restore`` takes."""
        with self._change() as db:
            return self._deleted(db, store_tree.remove_chat(db, chat))

    def clear(self, chat: int) -> float:
        """Delete all messages of a chat but not the chat; return the time that ``restore`` takes."""
        with self._change() as db:
            return self._deleted(db, store_tree.remove_messages(db, chat))

    def delete_message(self, message: int) -> float:
        """Delete a message and its descendants; return the time that ``restore`` takes."""
        with self._change() as db:
            return self._deleted(db, store_tree.remove(db, message))

    def restore(self, deleted: float) -> int | None:
        """Undo a deletion; return the chat, or None if it is too late."""
        with self._change() as db:
            return store_tree.restore(db, deleted)

    def forget_all(self) -> None:
        """Delete all chats and folders for good; the file and its log keep nothing of them."""
        with self._change() as db:
            for table in ("traces", "messages", "chats", "folders"):
                db.execute(f"delete from {table}")
        with self._lock, self._explained():
            self._db.conn.execute("vacuum")  # free pages still contain what was deleted
            self._db.conn.execute("pragma wal_checkpoint(truncate)")

    @staticmethod
    def _deleted(db: Any, stamp: float) -> float:
        store_tree.forget(db, stamp - UNDO_S)
        return stamp

    # ---- messages

    def messages(self, chat: int) -> tuple[StoredMessage, ...]:
        """Return the shown messages, in order."""
        with self._lock, self._explained():
            rows = list(
                self._db.query(
                    f"{store_tree.PATH} {COLUMNS} join path using (id) order by id", [chat]
                )
            )
            siblings = store_tree.siblings(self._db.conn, chat)
        return tuple(read_message(row, siblings[row["parent"]]) for row in rows)

    def questions(self, chat: int) -> list[tuple[Message, ...]]:
        """Return the conversation up to each question of a chat, as a model gets it."""
        turns: list[Message] = []
        found = []
        for message in self.messages(chat):
            turns.append(message.turn)
            if message.role == "user":
                found.append(history(turns))
        return found

    def all_messages(self, chat: int) -> tuple[StoredMessage, ...]:
        """Return the messages of all branches, each after its parent."""
        rows = self._rows(f"{COLUMNS} where chat = ? and deleted is null order by id", [chat])
        return tuple(read_message(row, ()) for row in rows)

    def show_branch(self, message: int) -> None:
        """Show this message and its descendants instead of its siblings."""
        with self._change() as db:
            store_tree.show(db, message)

    def leave_out(self, messages: Iterable[int], left_out: bool = True) -> None:
        """Leave messages out of what models get, or put them back; they stay shown."""
        with self._change() as db:
            db.executemany(
                "update messages set left_out = ? where id = ?",
                [(left_out, message) for message in messages],
            )

    def begin_turn(
        self,
        chat: int,
        text: str | None,
        *,
        keep: int | None,
        files: Iterable[TextFile] = (),
        model: str | None = None,
        method: str | None = None,
    ) -> tuple[int | None, int]:
        """Add the user's ``text``, if any, and an empty running reply after message ``keep``; return both
        ids. ``keep`` None: after the last shown message; 0: at the beginning.

        What followed ``keep`` is then another branch, no longer shown.
        """
        now = time.time()
        with self._change() as db:
            parent = store_tree.end_of(db, chat) if keep is None else keep or None
            user = None
            if text is not None:
                user = parent = _insert(
                    db,
                    chat=chat,
                    parent=parent,
                    role="user",
                    text=text,
                    created=now,
                    files=write_files(files),
                )
            reply = _insert(
                db,
                chat=chat,
                parent=parent,
                role="assistant",
                text="",
                status="running",
                created=now,
                model=model,
                method=method,
            )
            store_tree.show(db, reply if user is None else user)
            db.execute("update chats set updated = ? where id = ?", [now, chat])
            if text is not None:
                db.execute(
                    "update chats set title = ? where id = ? and title = ''", [shorten(text), chat]
                )
            return user, reply

    def go_on(self, chat: int, message: int) -> None:
        """Mark a finished reply as running again; its text stays."""
        with self._change() as db:
            db.execute(
                "update messages set status = 'running', error = null where id = ?", [message]
            )
            db.execute("update chats set updated = ? where id = ?", [time.time(), chat])

    def take_chat(
        self, title: str, messages: Iterable[StoredMessage], system: SystemPrompt | None = None
    ) -> int:
        """Create a chat of these messages, whose ids and parents refer to each other; return its id."""
        now = time.time()
        with self._change() as db:
            chat = _new_chat(db, title, system, None)
            numbers: dict[int | None, int | None] = {None: None}
            for each in messages:
                numbers[each.id] = _insert(
                    db,
                    chat=chat,
                    parent=numbers[each.parent],
                    role=each.role,
                    text=each.text,
                    status=each.status,
                    created=now,
                    marks=each.marks,
                    error=each.error,
                    statistics=json.dumps(each.statistics),
                    shown=each.shown,
                    left_out=each.left_out,
                    files=write_files(each.files),
                    model=each.model,
                    method=each.method,
                )
            store_tree.settle(db)
            return chat

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
        anew: bool = False,
    ) -> None:
        """Save a reply, and append ``trace`` (JSON lines) to its events; ``anew``: replace them."""
        lines = "\n".join(trace)
        with self._change() as db:
            if anew:
                db.execute("delete from traces where message = ?", [message])
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
        """Return the reply's events as JSON lines."""
        rows = self._rows("select lines from traces where message = ? order by part", [message])
        return tuple(line for row in rows for line in row["lines"].split("\n"))


def _answer(role: Literal["user", "assistant"], text: str, statistics: str | None) -> str:
    """Return a message without its thought; a function for SQL."""
    parsed = parse_json(statistics) if statistics else None
    return StoredMessage(0, role, text, statistics=parsed).parts.answer


def shorten(title: str) -> str:
    """Return the first line, cut to ``TITLE_LENGTH`` characters."""
    line = next(iter(title.strip().splitlines()), "").strip()
    return line if len(line) <= TITLE_LENGTH else line[: TITLE_LENGTH - 1].rstrip() + "…"


def _new_chat(db: Any, title: str, system: SystemPrompt | None, folder: int | None) -> int:
    now = time.time()
    cursor = db.execute(
        "insert into chats (title, created, updated, system, folder) values "
        "(?, ?, ?, ?, (select id from folders where id = ?))",
        [shorten(title), now, now, write_system(system), folder],
    )
    return int(cursor.lastrowid)


def _insert(db: Any, **values: object) -> int:
    places = ", ".join("?" * len(values))
    cursor = db.execute(
        f"insert into messages ({', '.join(values)}) values ({places})", list(values.values())
    )
    return int(cursor.lastrowid)
