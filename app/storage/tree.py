"""Branches of a chat: its messages form a tree, of which one path is shown.

Every message but a first one has a ``parent``. Of the messages with one parent exactly one is ``shown``;
the path of those that are shown, from the first on, is the chat as people see it. An edited message and a
reply that was written anew stand beside the old ones, so nothing is ever overwritten.

What is deleted is marked with the time of its deletion, which names all that went with it and by which it
comes back. Functions here take a connection within a transaction.
"""

from __future__ import annotations

import time
from typing import Any

from app.storage.schema import CHAIN

PATH = """with recursive path(id) as (
    select id from messages where chat = ? and parent is null and shown and deleted is null
    union all
    select messages.id from messages join path on messages.parent = path.id
    where messages.shown and messages.deleted is null
)"""
"""The ids of a chat's shown messages; a reply's id is above that of what it answers."""

BELOW = """with recursive below(id) as (
    select ?
    union all
    select messages.id from messages join below on messages.parent = below.id
    where messages.deleted is null
)"""
"""A message and all that follows it, in every branch."""

ABOVE = """with recursive above(id, parent) as (
    select id, parent from messages where id = ?
    union all
    select messages.id, messages.parent from messages join above on messages.id = above.parent
)
select id from above order by id"""
"""A message and all that it follows, the first one first."""


def end_of(db: Any, chat: int) -> int | None:
    """The last message that is shown."""
    (found,) = db.execute(f"{PATH} select max(id) from path", [chat]).fetchone()
    return None if found is None else int(found)


def beside(db: Any, chat: int) -> dict[int | None, list[int]]:
    """The messages that follow each, oldest first; under None the first ones."""
    found: dict[int | None, list[int]] = {}
    rows = db.execute(
        "select parent, id from messages where chat = ? and deleted is null order by id", [chat]
    )
    for parent, message in rows.fetchall():
        found.setdefault(parent, []).append(message)
    return found


def show(db: Any, message: int) -> None:
    """Shows this message in the place of those beside it."""
    chat, parent = db.execute(
        "select chat, parent from messages where id = ?", [message]
    ).fetchone()
    db.execute(
        "update messages set shown = (id = ?) where chat = ? and parent is ? and deleted is null",
        [message, chat, parent],
    )


def remove_messages(db: Any, chat: int) -> float:
    """Deletes all messages of a chat; returns what they come back by."""
    now = _stamp(db)
    db.execute("update messages set deleted = ? where chat = ? and deleted is null", [now, chat])
    return now


def remove(db: Any, message: int) -> float:
    """Deletes a message and all that follows it; the newest beside it is shown then."""
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
    """Deletes a chat; its messages stay as they are."""
    now = _stamp(db)
    db.execute("update chats set deleted = ? where id = ?", [now, chat])
    return now


def restore(db: Any, deleted: float) -> int | None:
    """Brings back what was deleted then, and shows it; the chat that it is in, None if it is gone.

    With it comes what it follows, and its chat, where these were deleted later: else nobody would see it.
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
    """What was deleted before then is gone for good."""
    db.execute("delete from messages where deleted < ?", [before])
    db.execute("delete from chats where deleted < ?", [before])


def mend(db: Any, *, chained: bool) -> None:
    """After rows were lost: each message follows one that is there, and one in each place is shown.

    Unless ``chained`` the rows are of a file without branches, and each follows the one before it.
    """
    orphans = "parent is not null and parent not in (select id from messages)"
    db.execute(f"{CHAIN} where {orphans}" if chained else CHAIN)
    settle(db)


def settle(db: Any) -> None:
    """Of the messages in each place one is shown: the newest of those that are, or of all."""
    places = "from messages where deleted is null {} group by chat, parent {}"
    newest = f"select max(id) {places.format('and shown', '')}"
    db.execute(
        f"update messages set shown = 0 where deleted is null and shown and id not in ({newest})"
    )
    none = f"select max(id) {places.format('', 'having not max(shown)')}"
    db.execute(f"update messages set shown = 1 where id in ({none})")


def _stamp(db: Any) -> float:
    """The time, and later than every deletion before it."""
    (last,) = db.execute(
        "select max(d) from (select max(deleted) d from messages union all "
        "select max(deleted) from chats)"
    ).fetchone()
    return max(time.time(), (last or 0.0) + 1e-3)
