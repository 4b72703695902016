"""A file of chats as this version wrote it opens with everything in it; other versions are refused."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from app.storage import schema
from app.storage.file import FILE
from app.storage.schema import StoreError
from app.storage.store import Store
from engine import trace
from tests.support.places import ROOT

DATA = ROOT / "tests" / "data"


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A data folder with chats that the program wrote."""
    shutil.copy(DATA / FILE, tmp_path)
    return tmp_path


def test_everything_is_there(written: Path) -> None:
    """Branches, folders, files, system prompts, what was left out, and who wrote what."""
    before = json.loads((DATA / "chats.expected.json").read_text(encoding="utf-8"))
    for _ in range(2):
        with closing(Store(written)) as store:
            chats = store.chats()
            found: list[dict[str, Any]] = []
            for chat in chats:
                found += (asdict(message) for message in store.all_messages(chat.id))
                shown = [message.id for message in store.messages(chat.id)]
                assert shown == before["shown"][str(chat.id)]
            assert [asdict(chat) for chat in chats] == before["chats"]
            assert [asdict(folder) for folder in store.folders()] == before["folders"]
            assert all(list(trace.read(store.trace(m["id"]))) for m in found if m["method"])
        assert not any(file.pop("data") for message in found for file in message["files"])
        told = json.loads(json.dumps(found))
        for message, was in zip(told, before["messages"], strict=True):
            status = "interrupted" if was["status"] == "running" else was["status"]
            assert message == {"calls": None, **was, "status": status, "siblings": []}
    with closing(Store(written)) as store:
        (edited,) = (m for m in store.all_messages(1) if m.files)
        store.show_branch(edited.id)
        assert [message.id for message in store.messages(1)] == [6, 7]


def set_version(file: Path, version: int) -> bytes:
    with closing(sqlite3.connect(file)) as db:
        db.execute(f"pragma user_version = {version}")
    return file.read_bytes()


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize(
    ("version", "told"),
    [(99, r"newer version.*\(99\).*Update"), (0, r"older version.*Move the file")],
)
def test_another_version_is_refused_and_left_as_it_is(
    written: Path, version: int, told: str, alone: bool
) -> None:
    content = set_version(written / FILE, version)
    with pytest.raises(StoreError, match=told):
        Store(written, alone=alone)
    assert (written / FILE).read_bytes() == content
    assert list(written.iterdir()) == [written / FILE]


def test_a_migration_changes_an_older_file_or_leaves_it(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def migrate(db: sqlite3.Connection) -> None:
        db.execute("alter table folders add column colour text")
        if broken:
            raise sqlite3.OperationalError("no such thing")

    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
    monkeypatch.setattr(schema, "MIGRATIONS", {**schema.MIGRATIONS, schema.VERSION - 1: migrate})
    for broken in (True, False):
        if broken:
            with pytest.raises(StoreError, match="no such thing"):
                Store(written)
        else:
            with closing(Store(written)) as store:
                assert len(store.folders()) == 1
    with closing(sqlite3.connect(written / FILE)) as db:
        assert db.execute("pragma user_version").fetchone() == (schema.VERSION,)
        assert db.execute("select colour from folders").fetchall() == [(None,)]
