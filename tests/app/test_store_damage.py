"""A file of chats that cannot be used is set aside, and what read-only of it goes on."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from app.storage import schema as store_schema
from app.storage.file import FILE
from app.storage.schema import DamagedStore, StoreError
from app.storage.store import Store

CHATS, TURNS = 6, 40


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with enough chats that each table has many pages."""
    folder = tmp_path_factory.mktemp("written")
    with closing(Store(folder)) as store:
        for chat in range(CHATS):
            number = store.new_chat(f"Chat {chat}")
            for turn in range(TURNS):
                _, reply = store.begin_turn(number, f"Question {chat}.{turn} " * 20, keep=None)
                text = f"Answer {chat}.{turn} " * 40
                store.save_reply(reply, text=text, marks="n4", status="done", trace=["{}"] * 9)
    return folder


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    shutil.copy(written / FILE, tmp_path / FILE)
    return tmp_path


def spoil(file: Path, page: int, pages: int = 1) -> None:
    """Overwrites pages, the first of which is number 0."""
    with file.open("r+b") as raw:
        raw.seek(16)
        size = int.from_bytes(raw.read(2), "big")
        raw.seek(page * size)
        raw.write(b"\xa5" * size * pages)


def texts(store: Store) -> set[str]:
    return {
        message.text.split()[1]
        for chat in store.chats()
        for message in store.messages(chat.id)
        if message.role == "assistant"
    }


def aside(folder: Path) -> Path:
    (found,) = folder.glob("chats-damaged-*.db")
    return found


@pytest.mark.parametrize("content", [b"no database at all " * 300, b"\0" * 9000])
def test_what_is_no_database_is_set_aside_as_it_was(content: bytes, tmp_path: Path) -> None:
    """It once was a traceback, or an app that could not be started again."""
    (tmp_path / FILE).write_bytes(content)
    with closing(Store(tmp_path)) as store:
        assert store.notice is not None
        assert str(aside(tmp_path)) in store.notice
        assert store.new_chat("Goes on") == 1
    assert aside(tmp_path).read_bytes() == content
    with closing(Store(tmp_path)) as again:
        assert again.notice is None
        assert [chat.title for chat in again.chats()] == ["Goes on"]


def test_of_a_damaged_file_all_is_kept_but_what_stood_on_the_damaged_pages(folder: Path) -> None:
    everything = {f"{chat}.{turn}" for chat in range(CHATS) for turn in range(TURNS)}
    with closing(sqlite3.connect(folder / FILE)) as file:
        (pages,) = file.execute("pragma page_count").fetchone()
        assert pages > 60
    spoil(folder / FILE, pages // 3, 3)
    spoil(folder / FILE, pages // 2, 2)
    with closing(Store(folder)) as store:
        assert store.notice is not None
        assert "messages in" in store.notice
        kept = texts(store)
        assert kept < everything
        assert len(kept) > len(everything) * 3 // 4
        for chat in store.chats():
            store.rename(chat.id, "Still works")
            for message in store.messages(chat.id):
                store.trace(message.id)
        (good,) = store._db.execute("pragma integrity_check").fetchone()
        assert good == "ok"
        assert not list(store._db.execute("pragma foreign_key_check"))


def test_of_a_file_that_ends_too_early_the_beginning_is_kept(folder: Path) -> None:
    whole = (folder / FILE).stat().st_size
    os.truncate(folder / FILE, whole * 2 // 3)
    with closing(Store(folder)) as store:
        assert store.notice is not None
        assert texts(store)
        store.new_chat("Goes on")


@pytest.mark.parametrize("zeroed", [100, 4096])
def test_without_its_header_or_its_schema_all_is_kept(folder: Path, zeroed: int) -> None:
    """Nothing of such a file could be read once, though every message stood in it."""
    with closing(Store(folder)) as store:
        whole = [store.all_messages(chat.id) for chat in store.chats()]
        listed = store.chats()
    with (folder / FILE).open("r+b") as file:
        file.write(bytes(zeroed))
    with closing(Store(folder)) as store:
        assert f"{sum(map(len, whole))} messages in {CHATS} chats" in str(store.notice)
        assert store.chats() == listed
        assert [store.all_messages(chat.id) for chat in store.chats()] == whole
        assert all(store.trace(each.id) for each in whole[0] if each.role == "assistant")


def test_of_a_file_cut_to_half_what_stands_in_its_half_is_kept(folder: Path) -> None:
    """Of 22 messages one was kept once: the page that names the others' pages was in the other half."""
    half = (folder / FILE).stat().st_size // 2
    os.truncate(folder / FILE, half)
    content = (folder / FILE).read_bytes()
    there = {f"{c}.{t}" for c in range(CHATS) for t in range(TURNS) if _whole(content, c, t)}
    with closing(Store(folder)) as store:
        assert there <= texts(store)
    assert len(there) > CHATS * TURNS // 3


def _whole(content: bytes, chat: int, turn: int) -> bool:
    return f"Answer {chat}.{turn} ".encode() * 40 in content


def test_what_stands_in_the_log_alone_is_kept_without_a_header(tmp_path: Path) -> None:
    program = (
        "import os\nfrom pathlib import Path\nfrom app.storage.store import Store\n"
        f"store = Store(Path({str(tmp_path)!r}))\n"
        "store.begin_turn(store.new_chat('Hi'), 'In the log', keep=None)\nos._exit(0)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
    assert b"In the log" in (tmp_path / f"{FILE}-wal").read_bytes()
    assert b"In the log" not in (tmp_path / FILE).read_bytes()
    with (tmp_path / FILE).open("r+b") as file:
        file.write(b"\xa5" * 4096)
    with closing(Store(tmp_path)) as store:
        (chat,) = store.chats()
        assert [each.text for each in store.messages(chat.id)] == ["In the log", ""]


def test_what_was_deleted_for_good_does_not_come_back_from_free_pages(folder: Path) -> None:
    with closing(Store(folder)) as store:
        gone = store.chats()[0].id
        store.delete(gone)
    Store(folder).close()  # which forgets it
    with (folder / FILE).open("r+b") as file:
        file.write(bytes(100))
    with closing(Store(folder)) as store:
        assert len(store.chats()) == CHATS - 1
        assert gone not in {chat.id for chat in store.chats()}
        assert len(texts(store)) == (CHATS - 1) * TURNS


def test_messages_whose_chat_is_lost_come_into_one_of_their_own(folder: Path) -> None:
    with closing(sqlite3.connect(folder / FILE)) as file:
        (root,) = file.execute("select rootpage from sqlite_master where name = 'chats'").fetchone()
    spoil(folder / FILE, root - 1)
    with closing(Store(folder)) as store:
        assert {chat.title for chat in store.chats()} == {"Recovered"}
        assert len(texts(store)) == CHATS * TURNS


def test_of_a_damaged_file_with_branches_none_is_lost_and_one_is_shown(tmp_path: Path) -> None:
    with closing(Store(tmp_path)) as store:
        chat = store.new_chat("Work", folder=store.new_folder("Work"))
        first, reply = store.begin_turn(chat, "Question", keep=None)
        for _ in range(60):
            store.begin_turn(chat, None, keep=first)  # each a branch
            store.begin_turn(chat, "and more " * 200, keep=None)
        store.show_branch(reply)
        whole = {each.id: each for each in store.all_messages(chat)}
    spoil(tmp_path / FILE, (tmp_path / FILE).stat().st_size // 4096 // 2, 2)
    with closing(Store(tmp_path)) as store:
        assert store.notice
        found = store.all_messages(chat)
        assert len(whole) * 3 // 4 < len(found) < len(whole)
        known = {each.id for each in found} | {None}
        assert all(each.parent in known for each in found)
        places = [each.parent for each in found if each.shown]
        assert len(places) == len(set(places)) == len({each.parent for each in found})
        assert store.messages(chat)[0].text == "Question"
        assert store.chats()[0].folder == store.folders()[0].id


def test_another_programs_database_is_set_aside(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / FILE)) as other:
        other.execute("create table chats (id integer primary key, subject text)")
        other.execute("insert into chats (subject) values ('not ours')")
        other.commit()
    before = (tmp_path / FILE).read_bytes()
    with closing(Store(tmp_path)) as store:
        assert store.notice is not None
        assert "another program's" in store.notice
        assert store.chats() == ()
    assert aside(tmp_path).read_bytes() == before


def test_a_process_beside_the_app_refuses_a_damaged_file_and_leaves_it(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"no database at all " * 300)
    with pytest.raises(DamagedStore, match="sets the file aside"):
        Store(tmp_path, alone=False)
    assert [file.name for file in tmp_path.iterdir()] == [FILE]


def test_a_second_file_of_a_day_is_set_aside_under_another_name(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / FILE).write_bytes(b"no database at all " * 300)
        Store(tmp_path).close()
        assert len(list(tmp_path.glob("chats-damaged-*.db"))) == number


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_chats_are_their_owners_alone(tmp_path: Path) -> None:
    (tmp_path / FILE).touch(0o644)  # as earlier versions made it
    with closing(Store(tmp_path)) as store:
        store.new_chat("Private")
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    assert set(modes) >= {FILE, f"{FILE}-wal"}
    assert set(modes.values()) == {0o600}


def test_once_closed_the_file_alone_is_all_there_is(tmp_path: Path) -> None:
    """A copy of it once had no messages: they stood in the log beside it."""
    store = Store(tmp_path)
    beside = Store(tmp_path, alone=False)  # or sqlite would fold the log in by itself
    store.begin_turn(store.new_chat("Hi"), "Hello?", keep=None)
    store.close()
    (tmp_path / "copy").mkdir()
    shutil.copy(tmp_path / FILE, tmp_path / "copy" / FILE)
    beside.close()
    with closing(Store(tmp_path / "copy")) as copy:
        assert [message.text for message in copy.messages(1)] == ["Hello?", ""]


def test_a_full_disk_is_said_and_once_there_is_room_all_goes_on(tmp_path: Path) -> None:
    with closing(Store(tmp_path)) as store:
        chat = store.new_chat("Hi")
        fill(store)
        with pytest.raises(StoreError, match=r"disk is full.*Free some space"):
            store.begin_turn(chat, "x" * 100_000, keep=None)
        assert store.messages(chat) == ()
        make_room(store)
        store.begin_turn(chat, "x" * 100_000, keep=None)
        assert len(store.messages(chat)) == 2


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with a megabyte."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs", str(tmp_path)]
    if shutil.which("mount") is None or subprocess.run(mount, check=False).returncode:
        pytest.skip("only root may mount, and only on Linux")
    yield tmp_path
    subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def fill_disk(folder: Path) -> None:
    with (folder / "fill").open("wb", buffering=0) as file:
        for size in (4096, 1):
            with suppress(OSError):
                while True:
                    file.write(b"x" * size)


@pytest.mark.parametrize("ends", ["store.close()", "os._exit(0)"])
def test_on_a_full_disk_chats_can_be_read_and_go_on_once_there_is_room(
    small_disk: Path, ends: str
) -> None:
    """The app once did not start: "disk I/O error"."""
    program = (
        "import os\nfrom pathlib import Path\nfrom app.storage.store import Store\n"
        f"store = Store(Path({str(small_disk)!r}))\n"
        f"store.begin_turn(store.new_chat('Hi'), 'Question', keep=None)\n{ends}"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
    (small_disk / f"{FILE}-shm").unlink(missing_ok=True)
    fill_disk(small_disk)
    with closing(Store(small_disk)) as store:
        assert "disk is full" in str(store.notice)
        assert "read-only" in str(store.notice)
        (chat,) = store.chats()
        assert [each.text for each in store.messages(chat.id)] == ["Question", ""]
        for _ in range(2):
            with pytest.raises(StoreError, match=r"disk is full.*Free some space"):
                store.begin_turn(chat.id, "And now?", keep=None)
            assert store.messages(chat.id)[0].text == "Question"
        (small_disk / "fill").unlink()
        store.begin_turn(chat.id, "And now?", keep=None)
        assert store.notice is None
        found = [(each.text, each.status) for each in store.messages(chat.id)]
        assert found[1:] == [("", "interrupted"), ("And now?", "done"), ("", "running")]
    with closing(Store(small_disk)) as again:
        assert len(again.messages(chat.id)) == 4


def test_without_a_file_a_full_disk_is_said(small_disk: Path) -> None:
    fill_disk(small_disk)
    with pytest.raises(StoreError, match="Free some space"):
        Store(small_disk)


def fill(store: Store) -> None:
    """As if the disk were full: SQLite itself says so for every page more."""
    store._db.execute("pragma max_page_count = 1")


def make_room(store: Store) -> None:
    store._db.execute("pragma max_page_count = 1000000")


def test_a_file_that_another_program_holds_is_said(tmp_path: Path) -> None:
    with closing(Store(tmp_path)) as store, closing(sqlite3.connect(tmp_path / FILE)) as other:
        store._db.execute("pragma busy_timeout = 50")
        other.execute("begin immediate")
        with pytest.raises(StoreError, match="Another program is locking"):
            store.new_chat("Hi")
        other.rollback()
        assert store.new_chat("Hi") == 1


def test_a_file_that_may_not_be_written_is_said(tmp_path: Path) -> None:
    with closing(Store(tmp_path)) as store:
        store._db.execute("pragma query_only = on")
        with pytest.raises(StoreError, match="Check the permissions"):
            store.new_chat("Hi")
        store._db.execute("pragma query_only = off")
        assert store.new_chat("Hi") == 1


@pytest.mark.parametrize("name", ["IOERR_WRITE", "CANTOPEN", "NOTADB", "ERROR"])
def test_every_failure_of_the_file_says_what_to_do(name: str) -> None:
    error = sqlite3.OperationalError("the reason")
    error.sqlite_errorname = f"SQLITE_{name}"
    told = str(store_schema.explain(error, Path("chats.db")))
    assert "the reason" in told
    assert told.endswith(".")
