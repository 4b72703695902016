"""Branches of a chat: its messages form a tree, of which one path is shown.

Every message except the first has a ``parent``. Of the messages with one parent exactly one is ``shown``;
the path of shown messages is the chat as people see it. An edited message or a retried reply is a sibling
of the old one, so nothing is ever overwritten.

A deleted row has the time of its deletion, which is the same for all rows deleted with it and restores
them. Functions here take a connection within a transaction.
"""

from __future__ import annotations

import json
import time
from typing import Any

from app.storage.rows import shorten
from engine.files import parse_json

UNDO_S = 3600.0
"""Seconds in which a deletion can be undone, unless the app ends sooner."""

PATH = """with recursive path(id) as (
    select id from messages where chat = ? and parent is null and shown and deleted is null
    union all
    select messages.id from messages join path on messages.parent = path.id
    where messages.shown and messages.deleted is null
)"""
"""The ids of a chat's shown messages. A reply's id is greater than its question's."""

BELOW = """with recursive below(id) as (
    select ?
    union all
    select messages.id from messages join below on messages.parent = below.id
    where messages.deleted is null
)"""
"""A message and its descendants."""

ABOVE = """with recursive above(id, parent) as (
    select id, parent from messages where id = ?
    union all
    select messages.id, messages.parent from messages join above on messages.id = above.parent
)
select id from above order by id"""
"""A message and its ancestors, the first message first."""


def end_of(db: Any, chat: int) -> int | None:
    """Return the id of the last shown message."""
    (last,) = db.execute(f"{PATH} select max(id) from path", [chat]).fetchone()
    return None if last is None else int(last)


def siblings(db: Any, chat: int) -> dict[int | None, list[int]]:
    """Return the children of each message, oldest first; those of None are first messages."""
    children: dict[int | None, list[int]] = {}
    rows = db.execute(
        "select parent, id from messages where chat = ? and deleted is null order by id", [chat]
    )
    for parent, message in rows.fetchall():
        children.setdefault(parent, []).append(message)
    return children


def show(db: Any, message: int) -> None:
    """Show this message instead of its siblings. A chat has the title of its first shown message, unless
    the user or a model gave it another."""
    chat, parent, text = db.execute(
        "select chat, parent, text from messages where id = ?", [message]
    ).fetchone()
    db.execute(
        "update messages set shown = (id = ?) where chat = ? and parent is ? and deleted is null",
        [message, chat, parent],
    )
    if parent is None:
        db.execute("update chats set title = ? where id = ? and titled = ''", [shorten(text), chat])


def remove_messages(db: Any, chat: int) -> float:
    """Delete all messages of a chat; return the time that ``restore`` takes."""
    now = _stamp(db)
    db.execute("update messages set deleted = ? where chat = ? and deleted is null", [now, chat])
    return now


def remove(db: Any, message: int) -> float:
    """Delete a message and its descendants, and show its newest sibling; return the time of deletion."""
    now = _stamp(db)
    chat, parent = db.execute(
        "select chat, parent from messages where id = ?", [message]
    ).fetchone()
    db.execute(
        f"{BELOW} update messages set deleted = ? where id in (select id from below)",
        [message, now],
    )
    (left,) = db.execute(
        "select max(id) from messages where chat = ? and parent is ? and deleted is null",
        [chat, parent],
    ).fetchone()
    if left is not None:
        show(db, left)
    return now


def remove_chat(db: Any, chat: int) -> float:
    """Delete a chat but not its messages; return the time of deletion."""
    now = _stamp(db)
    db.execute("update chats set deleted = ? where id = ?", [now, chat])
    return now


def restore(db: Any, deleted: float) -> int | None:
    """Restore and show what was deleted at that time; return its chat, or None if it is gone.

    Ancestors and the chat are restored too if they were deleted later: otherwise it would stay hidden.
    """
    firsts = db.execute(
        "select id, chat from messages where deleted = ? and shown and (parent is null or parent not in "
        "(select id from messages where deleted = ?))",
        [deleted, deleted],
    ).fetchall()
    chats = [chat for (chat,) in db.execute("select id from chats where deleted = ?", [deleted])]
    db.execute("update chats set deleted = null where deleted = ?", [deleted])
    db.execute("update messages set deleted = null where deleted = ?", [deleted])
    for message, chat in firsts:
        db.execute("update chats set deleted = null where id = ?", [chat])
        for (above,) in db.execute(ABOVE, [message]).fetchall():
            db.execute("update messages set deleted = null where id = ?", [above])
            show(db, above)
        chats.append(chat)
    return int(chats[0]) if chats else None


def forget(db: Any, before: float) -> None:
    """Remove what was deleted before that time for good."""
    db.execute("delete from messages where deleted < ?", [before])
    db.execute("delete from chats where deleted < ?", [before])


def mend(db: Any) -> None:
    """Repair the tree after rows were lost: a message without its parent follows the message before it in
    the chat, and one message in each place is shown."""
    db.execute(
        "update messages set parent = (select max(before.id) from messages before "
        "where before.chat = messages.chat and before.id < messages.id) "
        "where parent is not null and parent not in (select id from messages)"
    )
    settle(db)


def settle(db: Any, chat: int | None = None) -> None:
    """Show exactly one child of each parent: the newest shown one, or the newest of all. In all chats,
    or in one."""
    which = "deleted is null" if chat is None else f"deleted is null and chat = {int(chat)}"
    places = f"from messages where {which} {{}} group by chat, parent {{}}"
    newest = f"select max(id) {places.format('and shown', '')}"
    db.execute(f"update messages set shown = 0 where {which} and shown and id not in ({newest})")
    none = f"select max(id) {places.format('', 'having not max(shown)')}"
    db.execute(f"update messages set shown = 1 where id in ({none})")


def _stamp(db: Any) -> float:
    """Return the time of a deletion, later than every earlier one; forget those of ``UNDO_S`` ago."""
    (last,) = db.execute(
        "select max(d) from (select max(deleted) d from messages union all "
        "select max(deleted) from chats)"
    ).fetchone()
    now: float = max(time.time(), (last or 0.0) + 1e-3)
    forget(db, now - UNDO_S)
    return now


_COPIED = (
    "role, text, marks, status, error, statistics, created, left_out, files, model, method, calls, "
    "edited"
)


def fork(db: Any, chat: int, message: int, suffix: str, now: float) -> int | None:
    """Copy a chat as far as ``message``, with the rounds of its replies; return the new chat, or None if
    the message is not in that chat."""
    path = [row[0] for row in db.execute(ABOVE, [message]).fetchall()]
    whole = db.execute(
        "select count(*) from messages where chat = ? and deleted is null "
        "and id in (select value from json_each(?))",
        [chat, json.dumps(path)],
    ).fetchone()
    if not path or whole[0] != len(path):
        return None
    new = db.execute(
        "insert into chats (title, created, updated, folder, system, tools, titled) "
        "select title || ?, ?, ?, folder, system, tools, 'user' from chats where id = ?",
        [suffix, now, now, chat],
    ).lastrowid
    parent = None
    for each in path:
        copied = db.execute(
            f"insert into messages (chat, parent, shown, {_COPIED}) "
            f"select ?, ?, 1, {_COPIED} from messages where id = ?",
            [new, parent, each],
        )
        parent = copied.lastrowid
        db.execute(
            "insert into traces (message, part, lines) select ?, part, lines from traces "
            "where message = ?",
            [parent, each],
        )
    return int(new)


def edit_reply(db: Any, message: int, text: str, now: float) -> int:
    """Add an edited version of a reply beside it and show that; return its id.

    It has no rounds: those of the old one do not describe it.
    """
    chat, parent, statistics, model = db.execute(
        "select chat, parent, statistics, model from messages where id = ?", [message]
    ).fetchone()
    figures = parse_json(statistics) if statistics else None
    thought = figures.get("thought") if isinstance(figures, dict) else None
    new = db.execute(
        "insert into messages (chat, parent, role, text, created, statistics, model, edited) "
        "values (?, ?, 'assistant', ?, ?, ?, ?, 1)",
        [chat, parent, text, now, json.dumps({"thought": thought}) if thought else None, model],
    ).lastrowid
    show(db, new)
    db.execute("update chats set updated = ? where id = ?", [now, chat])
    return int(new)
