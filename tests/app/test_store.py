"""Chats survive: in order, through kill -9, and from any thread."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from contextlib import closing

import pytest

from app.store import FILE, Store, shorten
from app.store_schema import StoreError


@pytest.fixture
def store(tmp_path):
    found = Store(tmp_path)
    yield found
    found.close()


def turn(store, chat, question="Hi", reply="Hello", trace=("{}",)):
    user, message = store.begin_turn(chat, question, keep=None)
    store.save_reply(message, text=reply, marks="a5", status="done", trace=trace)
    return user, message


def test_a_chat_keeps_its_messages_in_order(store):
    chat = store.new_chat()
    turn(store, chat)
    turn(store, chat, "And?", "So.")
    told = [(message.role, message.text) for message in store.messages(chat)]
    assert told == [("user", "Hi"), ("assistant", "Hello"), ("user", "And?"), ("assistant", "So.")]


def test_the_first_message_names_the_chat_and_the_newest_chat_comes_first(store):
    old, new = store.new_chat(), store.new_chat()
    turn(store, new, "Newer")
    turn(store, old, "Older\nsecond line")
    assert [chat.title for chat in store.chats()] == ["Older", "Newer"]


def test_a_kept_message_ends_what_comes_after_it(store):
    chat = store.new_chat()
    user, _ = turn(store, chat)
    turn(store, chat, "Gone", "Gone too")
    store.begin_turn(chat, None, keep=user)
    assert [message.text for message in store.messages(chat)] == ["Hi", ""]


def test_the_trace_grows_in_parts_and_goes_with_its_message(store):
    chat = store.new_chat()
    _, message = store.begin_turn(chat, "Hi", keep=None)
    store.save_reply(message, text="He", marks="a2", status="running", trace=["1", "2"])
    store.save_reply(message, text="Hello", marks="a5", status="done", trace=["3"])
    assert store.trace(message) == ("1", "2", "3")
    store.clear(chat)
    assert store.trace(message) == ()
    assert store.messages(chat) == ()


def test_a_deleted_chat_takes_late_writes_without_complaint(store):
    chat = store.new_chat()
    _, message = store.begin_turn(chat, "Hi", keep=None)
    store.delete(chat)
    store.save_reply(message, text="late", marks="", status="done", trace=["1"])
    assert store.chats() == ()
    assert store.trace(message) == ()


def test_settings_are_replaced_by_name(store):
    store.keep_setting("chat", {"depth": 4})
    store.keep_setting("chat", {"depth": 7})
    assert store.setting("chat") == {"depth": 7}
    assert store.setting("unknown") is None


def test_a_failed_change_leaves_nothing_behind(store):
    with pytest.raises(Exception, match="FOREIGN KEY"):
        store.begin_turn(999, "no such chat", keep=None)
    assert store.new_chat() > 0


@pytest.mark.parametrize(
    ("statements", "error"),
    [
        pytest.param(
            (
                "pragma defer_foreign_keys = on",
                "insert into messages (chat, role, text, created) values (999, 'user', 'Hi', 0)",
            ),
            "FOREIGN KEY",
            id="commit",
        ),
        pytest.param(
            ("insert or rollback into settings values ('a', null)",), "NOT NULL", id="rolled back"
        ),
    ],
)
def test_after_a_change_that_fails_at_its_end_others_can_be_made(store, statements, error):
    """The transaction once stayed open, and nothing could be written until the app was restarted."""
    with pytest.raises(sqlite3.IntegrityError, match=error), store._change() as db:
        for statement in statements:
            db.execute(statement)
    chat = store.new_chat()
    assert [(each.id, each.title) for each in store.chats()] == [(chat, "")]


def test_a_file_whose_replies_cannot_be_marked_is_told_as_one_that_cannot_be_opened(tmp_path):
    with closing(Store(tmp_path)) as store:
        store.begin_turn(store.new_chat(), "Hi", keep=None)
    with closing(sqlite3.connect(tmp_path / FILE)) as file:
        file.execute(
            "create trigger stuck before update on messages begin select raise(abort, 'stuck'); end"
        )
    with pytest.raises(StoreError, match="cannot be opened: stuck"):
        Store(tmp_path)
    with closing(Store(tmp_path, alone=False)) as beside:
        assert [message.status for message in beside.messages(1)] == ["done", "running"]


def test_any_thread_may_write(store):
    chat = store.new_chat()
    threads = [threading.Thread(target=turn, args=(store, chat)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.messages(chat)) == 16


def test_what_was_written_survives_kill_9_and_the_cut_reply_says_so(tmp_path):
    script = f"""
import os, signal
from pathlib import Path
from app.store import Store
store = Store(Path({str(tmp_path)!r}))
chat = store.new_chat()
_, message = store.begin_turn(chat, "Hi", keep=None)
store.save_reply(message, text="half a rep", marks="a10", status="running", trace=["1"])
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", script], check=False, timeout=60)
    store = Store(tmp_path)
    (chat,) = store.chats()
    reply = store.messages(chat.id)[-1]
    assert (reply.text, reply.status) == ("half a rep", "interrupted")
    assert store.trace(reply.id) == ("1",)
    store.close()


def test_titles_are_one_short_line():
    assert shorten("  one\ntwo") == "one"
    assert len(shorten("x" * 100)) == 60
    assert shorten("") == ""
