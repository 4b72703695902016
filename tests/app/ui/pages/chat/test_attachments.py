"""Attachments from the upload to the message: what fits, what is left out, what is said."""

from __future__ import annotations

import asyncio
import errno
import itertools
import json
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from app.documents.fitting import Weighed, fitted
from app.storage.store import Store
from app.ui import uploads as receiving
from app.ui.pages.chat.composer.attachments import Attachments
from app.ui.uploads import ATTACH, IMPORT, clear_uploads, uploads
from engine.errors import InvalidRequest
from tests.support import documents as made
from tests.support.fake_engine import FakeEngine
from tests.support.loading import request_for
from tests.support.seeing import picture


@pytest.fixture
def engine(pair: tuple[Path, Path]) -> Iterator[FakeEngine]:
    with closing(FakeEngine(loads=request_for(*pair))) as engine:
        yield engine


@pytest.fixture
def attachments(engine: FakeEngine, tmp_path: Path) -> Iterator[Attachments]:
    with closing(Store(tmp_path)) as store:
        yield Attachments(store, engine)


@pytest.fixture
def app(attachments: Attachments, tmp_path: Path) -> FastAPI:
    app = FastAPI()
    app.include_router(
        uploads(
            tmp_path, attachments, lambda path, name: {"name": name, "bytes": path.stat().st_size}
        )
    )
    return app


@pytest.fixture
def http(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app) as http:
        yield http


def upload(http: TestClient, name: str, content: bytes) -> dict:
    return http.post(ATTACH, params={"name": name}, content=content).json()


def test_an_uploaded_document_is_stored_and_says_what_it_lacks(
    http: TestClient, attachments: Attachments
) -> None:
    found = upload(http, "a b.pdf", made.pdf(["One", ""]))
    assert (found["name"], found["kind"], found["pages"]) == ("a b.pdf", "document", 2)
    assert found["notes"] == ["Of a b.pdf, 1 of 2 pages have no text (blank, or pictures): 2."]
    text = attachments.attachment_text({"attachment": found["id"]})["text"]
    assert text.startswith("[Page 1]\nOne")
    assert upload(http, "x.pdf", made.pdf([""]))["refused"].startswith("x.pdf has no text")
    with pytest.raises(InvalidRequest, match="no longer stored"):
        attachments.attachment_text({"attachment": 99})


def test_a_browser_keeps_no_picture(http: TestClient) -> None:
    """It showed that of another data folder with the same number, and kept it when all was deleted."""
    stored = upload(http, "a.png", picture())
    found = http.get(f"{ATTACH}/{stored['id']}")
    assert (found.content, found.headers["Cache-Control"]) == (picture(), "no-store")


def test_chats_to_import_come_as_a_file_too(http: TestClient) -> None:
    answer = http.post(IMPORT, params={"name": "a\nb.zip"}, content=b"12345")
    assert answer.json() == {"name": "a b.zip", "bytes": 5}


def test_what_is_too_large_is_refused_before_it_is_read(http: TestClient, tmp_path: Path) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(65):
            yield bytes(1 << 20)

    answer = http.post(ATTACH, params={"name": "big.pdf"}, content=endless())
    assert answer.json()["refused"].startswith("This file is larger than 64 MB")
    assert not [*tmp_path.glob("upload-*")]


async def sent(app: FastAPI, parts: Iterable[bytes]) -> dict:
    """Send a file of chats whose parts come one by one and never end, but for an empty one."""
    left, answer = iter(parts), bytearray()

    async def receive() -> dict:
        await asyncio.sleep(0.02)
        part = next(left, None)
        if part is None:
            await asyncio.sleep(60)
        return {"type": "http.request", "body": part, "more_body": part != b""}

    async def send(message: dict) -> None:
        answer.extend(message.get("body", b""))

    scope = {"type": "http", "method": "POST", "path": IMPORT, "query_string": b"", "headers": []}
    await app(scope, receive, send)
    return json.loads(answer)


def test_half_a_file_keeps_no_whole_one_waiting_and_is_given_up(
    app: FastAPI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two took both places for two minutes; so did those that sent a byte now and then."""
    monkeypatch.setattr(receiving, "_SILENCE_S", 2.0)

    async def all_at_once() -> tuple[dict, list[dict]]:
        slow = [[b"half"], [b"half"], itertools.repeat(b"x")]
        waiting = [asyncio.create_task(sent(app, parts)) for parts in slow]
        await asyncio.sleep(0.1)
        whole = await sent(app, [b"123", b"45", b""])
        assert not any(each.done() for each in waiting)
        return whole, await asyncio.gather(*waiting)

    whole, given_up = asyncio.run(all_at_once())
    assert whole == {"name": "file", "bytes": 5}
    assert all("The upload stopped" in each["refused"] for each in given_up)
    assert not [*tmp_path.glob("upload-*")]


def test_what_a_killed_app_was_receiving_is_deleted_and_nothing_else(tmp_path: Path) -> None:
    for name in ("upload-x", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "upload").write_bytes(b"half")
    clear_uploads(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


def test_a_full_disk_is_said(http: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryDirectory", full)
    assert "No space left" in upload(http, "a.txt", b"Hello")["refused"]


def test_of_documents_pages_are_left_out_from_the_end_until_they_fit() -> None:
    short, long = Weighed([100] * 3, True), Weighed([100] * 20, True)
    assert fitted([short, long], 4096, 0).left_out == ((), ())
    cut = fitted([short, long], 1000, 50)
    assert [len(out) for out in cut.left_out] == [0, 16]
    assert cut.left_out[1][0] == 5 and cut.over < 0
    even = fitted([long, long], 1000, 50)
    assert sorted(len(out) for out in even.left_out) == [16, 17]
    chosen = replace(long, chosen=frozenset((2, 19)))
    kept = fitted([chosen, short], 400, 0)
    assert kept.left_out == (tuple(n for n in range(1, 21) if n not in (2, 19)), (2, 3))
    assert fitted([Weighed([5000], False)], 1000, 10).over == 4010
    assert fitted([long], 0, 10).left_out == ((),)  # a server that tells no context


WORDS = "word " * 400


def test_the_message_box_is_told_what_each_takes_and_what_is_left_out(
    http: TestClient, attachments: Attachments
) -> None:
    report = upload(http, "report.pdf", made.pdf([WORDS.strip()] * 12))
    note = upload(http, "note.txt", b"one two three")

    def weigh(choice: str = "") -> dict:
        files = [{"id": report["id"], "choice": choice}, {"id": note["id"]}]
        return attachments.weigh_files({"chat": None, "files": files})

    told = weigh()
    assert told["exact"] and told["context"] == 4096 and not told["over"]
    assert told["files"][0]["left_out"] == tuple(range(8, 13))
    assert told["files"][0]["said"] == "Pages 1-7 of 12; 8-12 do not fit the context."
    assert told["files"][1]["tokens"] < 25
    assert weigh("2-3, 9")["files"][0]["said"] == "Pages 2-3, 9 of 12, without 1, 4-8, 10-12."
    assert weigh("5-")["files"][0]["left_out"] == (1, 2, 3, 4)
    assert "names no page from 1 to 12" in weigh("x")["files"][0]["said"]
    assert weigh("9-400")["files"][0]["said"] == (
        "There are only 12 pages. Pages 9-12 of 12, without 1-8."
    )
    over = weigh("1-12")
    assert over["over"] > 500 and over["said"].startswith(f"Too long by {over['over']:,} tokens")


def test_without_a_tokenizer_tokens_are_estimated(
    http: TestClient, attachments: Attachments, engine: FakeEngine
) -> None:
    engine.loaded = None
    report = upload(http, "report.pdf", made.pdf(["x" * 400] * 3))
    told = attachments.weigh_files({"chat": None, "files": [{"id": report["id"]}]})
    assert (told["exact"], told["context"], told["files"][0]["left_out"]) == (False, None, ())
    assert 300 < told["files"][0]["tokens"] < 350


def test_a_message_keeps_what_its_attachments_gave(
    http: TestClient, attachments: Attachments
) -> None:
    report = upload(http, "report.pdf", made.pdf(["One two", "Three", "Four"]))
    (sent,) = attachments.given([{"id": report["id"], "left_out": [2, 7, "x"]}])
    assert sent.left_out == (2,) and (sent.tokens or 0) > 5
    store = attachments._store
    chat = store.new_chat()
    store.begin_turn(chat, "Sum it up", keep=None, files=[sent])
    (kept,) = store.messages(chat)[0].files
    assert kept == sent
    for bad in ([{"id": 99}], [{"id": "1"}], [{"id": True}], [{}] * 21, ["x"]):
        with pytest.raises(InvalidRequest):
            attachments.given(bad)


def test_private_pages_are_told_apart(attachments: Attachments) -> None:
    assert (
        "in a private network" in attachments.add_page({"address": "http://127.0.0.1/"})["private"]
    )
    with pytest.raises(InvalidRequest, match="could not be read"):
        attachments.add_private_page({"address": "http://127.0.0.1:1/"})
