"""The chats of a data folder: messages, their statistics and every round. ``app.storage.schema`` has the
tables."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal

from app.storage import attachments as store_attachments
from app.storage import pictures as store_pictures
from app.storage import tree as store_tree
from app.storage.attachments import Attachment
from app.storage.file import StoreFile
from app.storage.rows import (
    COLUMNS,
    Chat,
    ChatTools,
    Folder,
    StoredCalls,
    StoredMessage,
    SystemPrompt,
    history,
    read_chat_tools,
    read_message,
    read_system,
    shorten,
    written,
)
from engine.files import parse_json
from engine.values.messages import Message

MOST_WORDS = 50
"""Words of a search. SQLite refuses more than some hundred, and each takes time."""
_AS_THEY_ARE = "role text status marks error shown left_out model method edited".split()
"""Fields of a message that are stored as they are."""


class Store(StoreFile):
    """All chats of one data folder."""

    def _do(self, statement: str, values: Sequence[object]) -> None:
        """Execute one statement as a transaction."""
        with self._change() as db:
            db.execute(statement, values)

    # ---- chats

    def chats(self) -> tuple[Chat, ...]:
        """Return all chats, newest first."""
        rows = self._rows(
            "select id, title, updated, folder, system from chats where deleted is null "
            "order by updated desc, id desc"
        )
        return tuple(Chat(**{**row, "system": read_system(row["system"])}) for row in rows)

    def written(self) -> str:
        """Return a text that changes whenever a chat goes on, or is named by a model."""
        (row,) = self._rows("select max(updated) latest, sum(titled = 'model') named from chats")
        return f"{row['latest']} {row['named']}"

    def search(self, text: str) -> tuple[int, ...]:
        """Return the chats that contain all words of ``text``, in any case, in titles, answers or files,
        but not those with words only in thoughts; newest first. Only ``MOST_WORDS`` count."""
        matching = (
            "id in (select id from chats where has(title, ?{0}) union "
            "select chat from messages where deleted is null and (exists (select 1 from "
            "json_each(messages.files) each join attachments on attachments.id = "
            "json_extract(each.value, '$.id') where has(attachments.name, ?{0}) or "
            "has(attachments.text, ?{0}) or has(attachments.pages, ?{0})) or "
            "has(text, ?{0}) and has(answer(role, text, statistics), ?{0})))"
        )
        words = text.casefold().split()[:MOST_WORDS]
        every = (matching.format(number) for number in range(1, len(words) + 1))
        holding = " and ".join(["deleted is null", *every])
        query = f"select id from chats where {holding} order by updated desc, id desc"
        with self._lock:  # no other thread may be in SQLite, which calls the functions back
            self._db.conn.create_function("has", 2, _has)
            self._db.conn.create_function("answer", 3, _answer)
            return tuple(row["id"] for row in self._rows(query, words))

    def has_chat(self, chat: int) -> bool:
        return bool(self._rows("select 1 from chats where id = ? and deleted is null", [chat]))

    def new_chat(
        self, title: str = "", system: SystemPrompt | None = None, folder: int | None = None
    ) -> int:
        with self._change() as db:
            return _new_chat(db, title, system, folder)

    def rename(self, chat: int, title: str) -> None:
        """Give a chat the title that the user typed."""
        self._do("update chats set title = ?, titled = 'user' where id = ?", [shorten(title), chat])

    def is_untitled(self, chat: int) -> bool:
        """Return whether a chat has the title of its first message, and no other."""
        return bool(self._rows("select 1 from chats where id = ? and titled = ''", [chat]))

    def name_chat(self, chat: int, title: str) -> None:
        """Give a chat a title by a model, unless the user has given it one."""
        self._do(
            "update chats set title = ?, titled = 'model' where id = ? and titled = ''",
            [shorten(title), chat],
        )

    def fork(self, chat: int, message: int, suffix: str) -> int | None:
        """Copy a chat as far as ``message``; return the new chat, or None if the message is gone.
        ``suffix`` is added to its title."""
        with self._change() as db:
            forked = store_tree.fork(db, chat, message, suffix, time.time())
        copies = self._rows("select id from messages where chat = ?", [forked])
        self.own.update(int(row["id"]) for row in copies)
        return forked

    def use_system(self, chat: int, system: SystemPrompt | None) -> None:
        """Set a chat's system prompt; None: that of the settings."""
        self._do("update chats set system = ? where id = ?", [written(system), chat])

    def system_of(self, chat: int) -> SystemPrompt | None:
        rows = self._rows("select system from chats where id = ?", [chat])
        return read_system(rows[0]["system"]) if rows else None

    def tools_of(self, chat: int) -> ChatTools:
        """Return which servers of tools a chat uses."""
        rows = self._rows("select tools from chats where id = ?", [chat])
        return read_chat_tools(rows[0]["tools"]) if rows else ChatTools()

    def use_tools(self, chat: int, tools: ChatTools) -> None:
        self._do("update chats set tools = ? where id = ?", [written(tools), chat])

    # ---- folders

    def folders(self) -> tuple[Folder, ...]:
        """Return all folders by name."""
        rows = self._rows("select id, name, folded from folders order by name collate nocase, id")
        return tuple(Folder(**{**row, "folded": bool(row["folded"])}) for row in rows)

    def new_folder(self, name: str) -> int:
        with self._change() as db:
            cursor = db.execute("insert into folders (name) values (?)", [shorten(name)])
            return int(cursor.lastrowid)

    def folder_named(self, name: str) -> int:
        """Return the folder of that name; create it if there is none."""
        found = self._rows("select id from folders where name = ? order by id", [shorten(name)])
        return int(found[0]["id"]) if found else self.new_folder(name)

    def change_folder(
        self, folder: int, *, name: str | None = None, folded: bool | None = None
    ) -> None:
        self._do(
            "update folders set name = coalesce(?, name), folded = coalesce(?, folded) "
            "where id = ?",
            [None if name is None else shorten(name), folded, folder],
        )

    def delete_folder(self, folder: int) -> None:
        """Delete a folder; its chats stay, in no folder."""
        self._do("delete from folders where id = ?", [folder])

    def move_all(self, chats: Iterable[int], folder: int) -> None:
        """Move several chats into a folder."""
        with self._change() as db:
            db.executemany(
                "update chats set folder = ? where id = ?", [(folder, chat) for chat in chats]
            )

    def move(self, chat: int, folder: int | None) -> None:
        """Move a chat into a folder, or out of all if ``folder`` is None or gone."""
        self._do(
            "update chats set folder = (select id from folders where id = ?) where id = ?",
            [folder, chat],
        )

    # ---- deleting and undoing it

    def delete(self, chat: int) -> float:
        """Delete a chat; return the time that ``restore`` takes."""
        with self._change() as db:
            return store_tree.remove_chat(db, chat)

    def clear(self, chat: int) -> float:
        """Delete all messages of a chat but not the chat; return the time that ``restore`` takes."""
        with self._change() as db:
            return store_tree.remove_messages(db, chat)

    def delete_message(self, message: int) -> float:
        """Delete a message and its descendants; return the time that ``restore`` takes."""
        with self._change() as db:
            return store_tree.remove(db, message)

    def restore(self, deleted: float) -> int | None:
        """Undo a deletion; return the chat, or None if it is too late."""
        with self._change() as db:
            return store_tree.restore(db, deleted)

    def forget_all(self) -> None:
        """Delete all chats and folders for good; the file and its log keep nothing of them."""
        with self._change() as db:
            for table in ("traces", "messages", "chats", "folders", "attachments"):
                db.execute(f"delete from {table}")
        with self._lock, self._explained():
            self._db.conn.execute("vacuum")  # free pages still contain what was deleted
            self._db.conn.execute("pragma wal_checkpoint(truncate)")

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
            known = store_attachments.of_chat(self._db.conn, chat)
        return tuple(read_message(row, siblings[row["parent"]], known) for row in rows)

    def questions(self, chat: int) -> list[tuple[Message, ...]]:
        """Return the conversation up to each question of a chat, as a model gets it."""
        turns: list[Message] = []
        found = []
        for message in self.messages(chat):
            turns += message.turn
            if message.role == "user":
                found.append(history(turns))
        return found

    def texts(self, chat: int) -> list[tuple[str, str]]:
        """Return role and text of the messages of all branches, oldest first."""
        rows = self._rows(
            "select role, text from messages where chat = ? and deleted is null order by id", [chat]
        )
        return [(row["role"], row["text"]) for row in rows]

    def all_messages(self, chat: int) -> tuple[StoredMessage, ...]:
        """Return the messages of all branches, each after its parent."""
        rows = self._rows(f"{COLUMNS} where chat = ? and deleted is null order by id", [chat])
        with self._lock, self._explained():
            known = store_attachments.of_chat(self._db.conn, chat)
        return tuple(read_message(row, (), known) for row in rows)

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

    def add_attachment(self, attachment: Attachment) -> Attachment:
        """Store an attachment for a message to come; return it with its ``id``."""
        with self._change() as db:
            return store_attachments.add(db, attachment, time.time())

    def attachments(self, ids: Iterable[int]) -> dict[int, Attachment]:
        """Return the attachments with these numbers that are there."""
        with self._lock, self._explained():
            return store_attachments.by_ids(self._db.conn, ids)

    def with_pictures(self, messages: Iterable[StoredMessage]) -> tuple[StoredMessage, ...]:
        """Return ``messages`` with the bytes of their pictures."""
        found = tuple(messages)
        if not (numbers := store_pictures.numbers_in(found)):
            return found
        with self._lock, self._explained():
            known = store_pictures.read_bytes(self._db.conn, numbers)
        return tuple(
            replace(each, files=store_pictures.with_bytes(each.files, known)) for each in found
        )

    def pictures(self, numbers: Iterable[int]) -> dict[int, bytes]:
        """Return the bytes of the pictures with these numbers that are there."""
        with self._lock, self._explained():
            return store_pictures.read_bytes(self._db.conn, numbers)

    def begin_turn(
        self,
        chat: int,
        text: str | None,
        *,
        keep: int | None,
        files: Iterable[Attachment] = (),
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
            place = {"chat": chat, "created": now}
            if text is not None:
                sent = store_attachments.write_references(db, files, now)
                user = _insert(db, **place, parent=parent, role="user", text=text, files=sent)
                # A model's title is of the conversation before this edit; a first message may be empty.
                edited = "update chats set titled = '' where id = ? and titled = 'model' and ?"
                db.execute(edited, [chat, parent is None])
                untitled = "update chats set title = ? where id = ? and title = ''"
                db.execute(untitled, [shorten(text), chat])
                parent = user
            wrote = {"model": model, "method": method, "status": "running"}
            reply = _insert(db, **place, **wrote, parent=parent, role="assistant", text="")
            store_tree.show(db, reply if user is None else user)
            db.execute("update chats set updated = ? where id = ?", [now, chat])
        self.own.add(reply)
        return user, reply

    def edit_reply(self, message: int, text: str) -> int:
        """Show an edited version of a reply in its place; return its id."""
        with self._change() as db:
            return store_tree.edit_reply(db, message, text, time.time())

    def go_on(self, chat: int, message: int) -> None:
        """Mark a finished reply as running again; its text stays."""
        with self._change() as db:
            db.execute(
                "update messages set status = 'running', error = null where id = ?", [message]
            )
            db.execute("update chats set updated = ? where id = ?", [time.time(), chat])
        self.own.add(message)

    def take_chat(
        self,
        title: str,
        messages: Iterable[StoredMessage],
        system: SystemPrompt | None = None,
        *,
        updated: float | None = None,
    ) -> int:
        """Create a chat of these messages, whose ids and parents refer to each other; return its id.
        ``updated``: when it last changed, if that was earlier. Its title counts as the user's."""
        now = time.time()
        with self._change() as db:
            chat = _new_chat(db, title, system, None)
            db.execute("update chats set updated = ? where id = ?", [updated or now, chat])
            numbers: dict[int | None, int | None] = {None: None}
            for each in messages:
                numbers[each.id] = _insert(
                    db,
                    **{name: getattr(each, name) for name in _AS_THEY_ARE},
                    chat=chat,
                    parent=numbers[each.parent],
                    created=now,
                    statistics=json.dumps(each.statistics),
                    files=store_attachments.write_references(db, each.files, now),
                    calls=written(each.calls),
                )
            store_tree.settle(db, chat)
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

    def save_calls(self, message: int, calls: StoredCalls | None) -> None:
        """Store the calls of a reply, with what became of them so far."""
        self._do("update messages set calls = ? where id = ?", [written(calls), message])

    def trace(self, message: int) -> tuple[str, ...]:
        """Return the reply's events as JSON lines."""
        rows = self._rows("select lines from traces where message = ? order by part", [message])
        return tuple(line for row in rows for line in row["lines"].split("\n"))


def _has(text: str | None, word: str) -> bool:
    """Return whether a text contains a word in lower case; a function for SQL, whose own ``like`` knows
    the case of ASCII letters alone."""
    return text is not None and word in text.casefold()


def _answer(role: Literal["user", "assistant"], text: str, statistics: str | None) -> str:
    """Return a message without its thought; a function for SQL."""
    parsed = parse_json(statistics) if statistics else None
    return StoredMessage(0, role, text, statistics=parsed).parts.answer


def _new_chat(db: Any, title: str, system: SystemPrompt | None, folder: int | None) -> int:
    now = time.time()
    cursor = db.execute(
        "insert into chats (title, titled, created, updated, system, folder) values "
        "(?, ?, ?, ?, ?, (select id from folders where id = ?))",
        [shorten(title), "user" if title else "", now, now, written(system), folder],
    )
    return int(cursor.lastrowid)


def _insert(db: Any, **values: object) -> int:
    places = ", ".join("?" * len(values))
    cursor = db.execute(
        f"insert into messages ({', '.join(values)}) values ({places})", list(values.values())
    )
    return int(cursor.lastrowid)
