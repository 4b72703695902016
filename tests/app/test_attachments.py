"""Attachments: what a model reads of them, and that no way of a chat loses them."""

from __future__ import annotations

import json
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from app.storage import attachments as store_attachments
from app.storage import chat_files
from app.storage.attachments import Attachment, ranges
from app.storage.store import Store

REPORT = Attachment(
    "report.pdf", kind="document", pages=("One fox", "Two", "Three", "Four"), unit="Page"
)


def ask(store: Store, *files: Attachment, chat: int | None = None, keep: int | None = None) -> int:
    chat = store.new_chat() if chat is None else chat
    _, reply = store.begin_turn(chat, "Sum it up.", keep=keep, files=files)
    store.save_reply(reply, text="It is short.", marks="", status="done")
    return chat


def test_a_model_reads_the_pages_that_are_not_left_out_and_which_those_are() -> None:
    assert REPORT.given.startswith("[Page 1]\nOne fox\n\n[Page 2]")
    cut = replace(REPORT, left_out=(2, 3))
    assert cut.given == "[Page 1]\nOne fox\n\n[Page 4]\nFour\n\n[Pages left out: 2-3]"
    assert ranges([7, 1, 2, 3]) == "1-3, 7"


def test_an_edit_shares_the_attachment_of_its_message(tmp_path: Path) -> None:
    with closing(Store(tmp_path)) as store:
        stored = store.add_attachment(REPORT)
        chat = ask(store, stored)
        ask(store, replace(stored, left_out=(4,)), chat=chat, keep=0)
        first, second = (m.files for m in store.all_messages(chat) if m.files)
        assert first == (stored,)
        assert second == (replace(stored, left_out=(4,)),)
        assert store.search("fox") == (chat,) == store.search("report")
        assert store.search("cow") == ()


@pytest.mark.parametrize("left_out", [(), (1, 4)])
def test_an_export_has_attachments_and_an_import_takes_them(
    tmp_path: Path, left_out: tuple[int, ...]
) -> None:
    with closing(Store(tmp_path)) as store:
        chat = ask(store, replace(REPORT, left_out=left_out), Attachment("a.txt", "Hello"))
        again = chat_files.take(store, json.loads(chat_files.written(store, chat, "json")["text"]))
        before, after = (store.messages(each)[0].files for each in (chat, again))
        assert [replace(each, id=None) for each in before] == [
            replace(each, id=None) for each in after
        ]
        assert "[Page 2]\nTwo" in chat_files.written(store, again, "markdown")["text"]


def test_attachments_that_no_message_has_are_deleted_after_a_week(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(Store(tmp_path)) as store:
        loose, kept = store.add_attachment(REPORT), store.add_attachment(REPORT)
        ask(store, kept)
    for unused_s, left in ((3600.0, 2), (-3600.0, 1)):
        monkeypatch.setattr(store_attachments, "UNUSED_S", unused_s)
        with closing(Store(tmp_path)) as store:
            assert len(store.attachments([loose.id or 0, kept.id or 0])) == left


def test_after_all_is_forgotten_the_file_holds_no_attachment(tmp_path: Path) -> None:
    with closing(Store(tmp_path)) as store:
        ask(store, replace(REPORT, name=f"secret-{time.time()}.pdf"))
        store.forget_all()
        assert store.attachments(range(9)) == {}
    assert b"secret-" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())
