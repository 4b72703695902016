"""Files that earlier versions wrote open for ever, and say what they said then (tests/data/README.md)."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from app.paths import catalog_file
from app.settings.defaults import Defaults, Winner
from app.storage.schema import REPLY_FORM
from app.storage.store import Store, StoreError
from app.ui.controls.settings import Settings
from engine.loading.catalog import open_catalog
from engine.loading.request import LoadRequest
from tests.support.fake_engine import FakeEngine
from tests.support.places import ROOT

DATA = ROOT / "tests" / "data"


VERSIONS = ("v1", "v2", "v3")


def expected(file: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return value


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A data folder of the first version."""
    for name in ("chats.db", "defaults.json"):
        shutil.copy(DATA / "v1" / name, tmp_path / name)
    return tmp_path


@pytest.mark.parametrize("version", VERSIONS)
def test_an_old_database_is_brought_up_to_date_and_nothing_is_lost(
    version: str, tmp_path: Path
) -> None:
    written = DATA / version
    old = Path(shutil.copy(written / "chats.db", tmp_path)).parent
    temperature = 0.7 if version == "v1" else 0.5  # nothing was chosen in the first
    for _ in range(2):  # the second time nothing is to be done
        with closing(Store(old)) as store:
            assert store.setting("panel") == {"depth": 4}
            assert Settings.from_json(store.setting("chat")).temperature == temperature
            for chat, before in expected(written / "chats.expected.json").items():
                messages = store.messages(int(chat))
                assert [(m.role, m.text, m.marks) for m in messages] == [
                    (m["role"], m["text"], m["marks"]) for m in before
                ]
                followed = [None, *(message.id for message in messages[:-1])]
                assert [message.parent for message in messages] == followed
                for message, was in zip(messages, before, strict=True):
                    cut = was["status"] == "running"
                    assert message.status == ("interrupted" if cut else was["status"])
                    assert message.statistics == was["statistics"]
                    assert message.form == 1
                    if message.role == "assistant" and not cut and message.text:
                        assert (message.model, bool(message.method)) == ("Pip", True)
            assert len(store.chats()) == 2
    with closing(Store(old)) as store:
        chat = store.new_chat()
        assert chat == 3


def test_an_old_database_with_branches_has_all_of_them(tmp_path: Path) -> None:
    """And folders, files, system prompts, what was left out, and who wrote what."""
    shutil.copy(DATA / "v4" / "chats.db", tmp_path)
    before = expected(DATA / "v4" / "chats.expected.json")
    for _ in range(2):
        with closing(Store(tmp_path)) as store:
            chats = store.chats()
            found: list[dict[str, Any]] = []
            for chat in chats:
                found += (asdict(message) for message in store.all_messages(chat.id))
                shown = [message.id for message in store.messages(chat.id)]
                assert shown == before["shown"][str(chat.id)]
            assert [asdict(chat) for chat in chats] == before["chats"]
            assert [asdict(folder) for folder in store.folders()] == before["folders"]
        told = json.loads(json.dumps(found))
        for message, was in zip(told, before["messages"], strict=True):
            status = "interrupted" if was["status"] == "running" else was["status"]
            assert message == {**was, "status": status, "beside": []}
    with closing(Store(tmp_path)) as store:
        (old,) = (m for m in store.all_messages(1) if m.files)
        store.show_branch(old.id)
        assert [message.id for message in store.messages(1)] == [6, 7]


def test_the_form_of_replies_has_a_step_by_which_older_versions_refuse_it(tmp_path: Path) -> None:
    Store(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / "chats.db")) as made:
        steps = [name for (name,) in made.execute("select name from _sqlite_migrations")]
    numbers = [int(step.rpartition("_")[2]) for step in steps if "_reply_form_" in step]
    assert numbers == [*range(1, REPLY_FORM + 1)]


def test_an_old_default_is_still_the_default(old: Path) -> None:
    (default,) = Defaults(old).all().values()
    with closing(FakeEngine(catalog=lambda: open_catalog(catalog_file()))) as engine:
        pip = replace(
            engine.load(LoadRequest(target="pip")),
            target="target",
            draft="draft",
            heads=("medusa",),
        )
    assert Defaults(old).of(pip) == default
    assert default.winner == Winner("draft", "auto", 15, 1.62, 12)
    assert default.kinds["json"].proposer == "ngram"


def test_a_database_of_a_newer_version_is_refused_and_left_as_it_is(old: Path) -> None:
    Store(old).close()
    with closing(sqlite3.connect(old / "chats.db")) as newer:
        newer.execute(
            "insert into _sqlite_migrations (migration_set, name, applied_at) "
            "values ('foretoken', '0999_tomorrow', '')"
        )
        newer.commit()
    with pytest.raises(StoreError, match="newer version of Foretoken \\(0999_tomorrow\\)"):
        Store(old)
    with closing(sqlite3.connect(old / "chats.db")) as found:
        statuses = found.execute("select count(*) from messages").fetchone()
    assert statuses == (sum(map(len, expected(DATA / "v1" / "chats.expected.json").values())),)
