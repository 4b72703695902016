"""What is kept where; and that nothing is left of what was asked once it is forgotten."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import paths
from app.storage.store import Store
from app.stored_data import StoredData
from app.training.runs import Trainings
from engine.errors import DiskError, InvalidRequest
from tests.app.ui.runs import write_run
from tests.support.fake_engine import FakeEngine
from tests.support.serving import fake_runtime

SECRET = "the treasure lies beneath the old oak"


@pytest.fixture
def data(tmp_path: Path) -> Iterator[StoredData]:
    runtime = fake_runtime(tmp_path, FakeEngine())
    with contextlib.closing(runtime), contextlib.closing(Store(tmp_path)) as store:
        chat = store.new_chat(folder=store.new_folder(SECRET))
        _, reply = store.begin_turn(chat, SECRET, keep=None)
        store.save_reply(reply, text=SECRET, marks="", status="done", trace=[SECRET])
        store.clear(chat)  # what is deleted is marked, and stands there yet
        store.begin_turn(chat, SECRET, keep=None)
        (tmp_path / "chat.json").write_text("{}")
        yield StoredData(runtime, store, Trainings(tmp_path))


def holding(folder: Path) -> list[str]:
    """The files that hold the secret."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    return sorted(str(f.relative_to(folder)) for f in files if SECRET.encode() in f.read_bytes())


def test_nothing_that_was_asked_is_left_and_everything_else_is(
    data: StoredData, tmp_path: Path
) -> None:
    remembered = paths.remembered(tmp_path) / "0123"
    remembered.mkdir(parents=True)
    (remembered / "newer.jsonl").write_text(SECRET)
    lessons = paths.learned(tmp_path) / "0123" / "4567"
    lessons.mkdir(parents=True)
    (lessons / "newer.jsonl").write_text(SECRET)
    (tmp_path / "chats-damaged-2026-11-23.db").write_text(SECRET)
    run = write_run(tmp_path, phase="done", folder=str(tmp_path), pair="x")
    (run / "recording").mkdir()
    (run / "recording" / "replies.bin").write_text(SECRET)
    (run / "medusa").mkdir()
    (run / "medusa" / "model.safetensors").write_text("weights")
    assert len(holding(tmp_path)) >= 4
    before = data.user_data()
    assert before | {"chat_bytes": 0} == {
        "chats": 1, "chat_bytes": 0, "remembered_bytes": 2 * len(SECRET),
        "recorded_bytes": len(SECRET),
    }  # fmt: skip
    assert before["chat_bytes"] > len(SECRET)
    data.forget()
    assert holding(tmp_path) == []
    after = data.user_data()
    assert after == {**after, "chats": 0, "remembered_bytes": 0, "recorded_bytes": 0}
    assert (run / "medusa" / "model.safetensors").exists()
    with contextlib.closing(Store(tmp_path, alone=False)) as store:
        assert (tmp_path / "chat.json").exists()
        assert (store.chats(), store.folders()) == ((), ())
        assert store.new_chat("Another") > 0


def test_while_a_training_reads_chats_nothing_is_forgotten(
    data: StoredData, tmp_path: Path
) -> None:
    write_run(tmp_path, running=True)
    with pytest.raises(InvalidRequest, match="Train page"):
        data.forget()
    assert data.user_data()["chats"] == 1


@pytest.mark.parametrize("what", ["remembered", "recording"])
def test_what_cannot_be_deleted_is_named(
    data: StoredData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Recordings, which hold questions of chats, stayed without a word."""
    kept = {"remembered": tmp_path, "recording": write_run(tmp_path, phase="stopped")}
    (kept[what] / what).mkdir()

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("shutil.rmtree", refuse)
    with pytest.raises(DiskError, match=f"{what} could not be deleted: Permission denied"):
        data.forget()
    assert data.user_data()["chats"] == 0


def test_models_within_the_data_folder_are_counted_once(data: StoredData, tmp_path: Path) -> None:
    before = data.bytes_in("data")
    (tmp_path / "models" / "x").mkdir(parents=True)
    (tmp_path / "models" / "x" / "model.safetensors").write_bytes(bytes(5000))
    assert data.bytes_in("models") == 5000
    assert data.bytes_in("data") == before
