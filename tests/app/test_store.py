"""Chats survive: in order, through kill -9, and from any thread."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing

import pytest

from app.storage.file import FILE
from app.storage.rows import shorten
from app.storage.schema import StoreError
from app.storage.store import Store


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
    found = [(message.role, message.text) for message in store.messages(chat)]
    assert found == [("user", "Hi"), ("assistant", "Hello"), ("user", "And?"), ("assistant", "So.")]


def test_the_first_message_names_the_chat_and_the_newest_chat_comes_first(store):
    old, new = store.new_chat(), store.new_chat()
    turn(store, new, "Newer")
    turn(store, old, "Older\nsecond line")
    assert [chat.title for chat in store.chats()] == ["Older", "Newer"]


def told(store, chat):
    return [message.text for message in store.messages(chat)]


def test_what_is_written_anew_stands_beside_the_old_and_either_can_be_shown(store):
    chat = store.new_chat()
    user, first = turn(store, chat)
    turn(store, chat, "More", "Of the first")
    _, second = store.begin_turn(chat, None, keep=user)
    assert told(store, chat) == ["Hi", ""]
    assert store.messages(chat)[-1].siblings == (first, second)
    turn(store, chat, "Else", "Of the second")
    edited, _ = store.begin_turn(chat, "Hello", keep=0)
    assert told(store, chat) == ["Hello", ""]
    assert store.messages(chat)[0].siblings == (user, edited)
    store.show_branch(user)
    assert told(store, chat) == ["Hi", "", "Else", "Of the second"]
    store.show_branch(first)  # what followed it comes with it
    assert told(store, chat) == ["Hi", "Hello", "More", "Of the first"]
    assert len(store.all_messages(chat)) == 9


def test_what_is_deleted_comes_back_as_it_was_even_when_others_took_its_place(store):
    chat = store.new_chat()
    user, first = turn(store, chat)
    turn(store, chat, "More", "And more")
    _, second = store.begin_turn(chat, None, keep=user)
    store.show_branch(first)
    deleted = store.delete_message(first)
    assert told(store, chat) == ["Hi", ""]  # the one beside it
    assert store.messages(chat)[-1].siblings == (second,)
    assert store.restore(deleted) == chat
    assert told(store, chat) == ["Hi", "Hello", "More", "And more"]
    cleared = store.clear(chat)
    assert told(store, chat) == []
    turn(store, chat, "New", "In its place")
    assert store.restore(cleared) == chat
    assert told(store, chat) == ["Hi", "Hello", "More", "And more"]
    assert len(store.messages(chat)[0].siblings) == 2
    gone = store.delete(chat)
    assert (store.chats(), store.search("more")) == ((), ())
    assert store.restore(gone) == chat
    assert store.search("more") == (chat,)
    assert store.restore(gone) is None


def test_what_was_deleted_is_gone_once_the_app_has_ended(tmp_path):
    with closing(Store(tmp_path)) as store:
        chat = store.new_chat()
        user, reply = turn(store, chat)
        for _ in range(1200):  # deeper than SQLite's triggers go
            turn(store, chat, trace=())
        deleted = store.delete_message(user)
    with closing(Store(tmp_path)) as store:
        assert store.restore(deleted) is None
        assert store.all_messages(chat) == ()
        assert store.trace(reply) == ()


def test_the_file_alone_has_all_but_the_last_messages(store, tmp_path):
    chat = store.new_chat()
    for number in range(8):
        turn(store, chat, f"Question {number}", "word " * 10_000)
    (tmp_path / "copy").mkdir()
    shutil.copy(tmp_path / FILE, tmp_path / "copy" / FILE)
    with closing(Store(tmp_path / "copy")) as copied:
        assert "Question 3" in told(copied, chat)


def test_folders_hold_chats_and_let_them_go(store):
    chat = store.new_chat("One")
    work, home = store.new_folder("Work"), store.new_folder("home")
    store.move(chat, work)
    store.change_folder(work, folded=True)
    store.change_folder(home, name="At home")
    assert [(each.name, each.folded) for each in store.folders()] == [
        ("At home", False),
        ("Work", True),
    ]
    assert store.chats()[0].folder == work
    store.move(chat, 99)
    assert store.chats()[0].folder is None
    store.move(chat, work)
    store.delete_folder(work)
    assert [(each.title, each.folder) for each in store.chats()] == [("One", None)]


def test_an_edited_first_message_gives_its_chat_another_title_unless_the_user_did(store):
    def title() -> str:
        return store.chats()[0].title

    chat = store.new_chat()
    first, _ = store.begin_turn(chat, "About foxes", keep=None)
    store.begin_turn(chat, "And bears?", keep=None)
    assert title() == "About foxes"
    store.begin_turn(chat, "About owls", keep=0)
    assert title() == "About owls"
    store.show_branch(first)
    assert title() == "About foxes"
    store.name_chat(chat, "By a model")
    store.begin_turn(chat, "About cats", keep=0)
    assert title() == "About cats"
    store.rename(chat, "Mine")
    store.begin_turn(chat, "About dogs", keep=0)
    assert title() == "Mine"


def test_the_trace_grows_in_parts(store):
    chat = store.new_chat()
    _, message = store.begin_turn(chat, "Hi", keep=None)
    store.save_reply(message, text="He", marks="a2", status="running", trace=["1", "2"])
    store.save_reply(message, text="Hello", marks="a5", status="done", trace=["3"])
    assert store.trace(message) == ("1", "2", "3")
    store.clear(chat)
    assert store.messages(chat) == ()


def test_deletions_come_back_in_any_order(store):
    """What follows a message that was deleted later came back where nobody saw it."""
    chat = store.new_chat("One")
    for text in ("a", "b", "c"):
        _, reply = store.begin_turn(chat, text, keep=None)
        store.save_reply(reply, text=text.upper(), marks="", status="done")
    whole = told(store, chat)
    ids = [each.id for each in store.messages(chat)]
    third, second, all_of_it = (
        store.delete_message(ids[4]),
        store.delete_message(ids[2]),
        store.delete(chat),
    )
    assert store.restore(third) == chat
    assert told(store, chat) == whole
    assert [each.id for each in store.chats()] == [chat]
    assert store.restore(second) is None  # it is there again
    assert store.restore(all_of_it) is None
    fourth, fifth = store.delete_message(ids[4]), store.delete_message(ids[3])
    assert store.restore(fifth) == chat
    assert told(store, chat) == whole[:4]
    assert store.restore(fourth) == chat
    assert told(store, chat) == whole


def test_a_deleted_chat_takes_late_writes_without_complaint(store):
    chat = store.new_chat()
    _, message = store.begin_turn(chat, "Hi", keep=None)
    deleted = store.delete(chat)
    store.save_reply(message, text="late", marks="", status="done", trace=["1"])
    assert store.chats() == ()
    store.restore(deleted)
    assert told(store, chat) == ["Hi", "late"]


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
            ("insert or rollback into folders (name) values (null)",), "NOT NULL", id="rolled back"
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


SEARCHES = """
import sys, threading
from pathlib import Path
from app.storage.store import Store
store = Store(Path(sys.argv[1]), alone=False)
def search():
    for _ in range(60):
        assert store.search("hi lo")
threads = [threading.Thread(target=search) for _ in range(3)]
for each in threads: each.start()
for each in threads: each.join()
print("found")
"""


def test_several_threads_search_at_once(store, tmp_path):
    """They waited for each other for ever, with the interpreter's lock held: so in a process."""
    for _ in range(40):
        turn(store, store.new_chat())
    command = [sys.executable, "-c", SEARCHES, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.stdout, ended.stderr) == ("found\n", "")


def test_a_word_is_searched_in_any_case_and_length(store):
    """SQLite knew the cases of ASCII letters alone, and refused long words: the page said that the chats
    could not be opened."""
    chat = store.new_chat()
    turn(store, chat, "Über 100 % " + "%" * 60_000)
    assert store.search("x" * 60_000) == ()
    assert store.search("%" * 60_000) == store.search("üBER 100") == (chat,)
    assert store.search("1_0") == store.search("Übel") == ()


def test_what_was_written_survives_kill_9_and_the_cut_reply_says_so(tmp_path):
    script = f"""
import os, signal
from pathlib import Path
from app.storage.store import Store
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
    assert len(shorten("x" * 200)) == 120
    assert shorten("") == ""
    assert shorten("```python\n\n  print(1)\n```") == "print(1)"
    assert shorten("```\n---") == "```"
