"""Copies of stored messages: forks of chats, and edited replies. Functions take a connection within a
transaction."""

from __future__ import annotations

import json
from typing import Any

from app.storage import tree as store_tree
from engine.files import parse_json

_COPIED = (
    "role, text, marks, status, error, statistics, created, left_out, files, model, method, calls, "
    "edited"
)


def fork(db: Any, chat: int, message: int, suffix: str, now: float) -> int | None:
    """Copy a chat as far as ``message``, with the rounds of its replies; return the new chat, or None if
    the message is not in that chat."""
    path = [row[0] for row in db.execute(store_tree.ABOVE, [message]).fetchall()]
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
    store_tree.show(db, new)
    db.execute("update chats set updated = ? where id = ?", [now, chat])
    return int(new)
