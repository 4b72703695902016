"""A reply that met a limit is written on in its place, and the page is told who wrote a chat."""

from __future__ import annotations

import html
import json
import time
from pathlib import Path

import pytest

from app.loading import PairLoader
from app.paths import catalog_file
from app.runtime import Runtime
from app.storage import chat_files
from app.storage.rows import StoredMessage
from app.storage.store import Store
from app.ui.controls.pickers import Pickers
from app.ui.controls.settings import Settings
from app.ui.pages.chat.backend import ChatBackend
from app.ui.pages.chat.pair import PairBackend
from app.ui.rounds import replay_file
from engine.errors import InvalidRequest
from engine.loading.catalog import open_catalog
from engine.loading.request import LoadRequest
from tests.support.recital import REPLIES, reciting_engine

SHORT, LONG = Settings(max_tokens=7), Settings()


@pytest.fixture
def backend(tmp_path: Path) -> ChatBackend:
    runtime = Runtime(
        reciting_engine(), open_catalog(catalog_file()), tmp_path, tmp_path / "models"
    )
    return ChatBackend(runtime, Store(tmp_path))


def act(backend: ChatBackend, settings: Settings, **data) -> dict:
    told = backend.reply(data, settings)
    assert backend.live_replies.find(told["run"]).done.wait(20)
    return told


def awaited_end(loader: PairLoader) -> None:
    end = time.monotonic() + 20
    while loader.working and time.monotonic() < end:
        time.sleep(0.01)


def cut(backend: ChatBackend) -> tuple[int, int]:
    """A chat whose reply met its limit, and that reply."""
    told = act(backend, SHORT, action="send", text="Hi", chat=None)
    return told["chat"], told["reply"]["id"]


def test_a_reply_goes_on_in_its_place_with_its_rounds_and_figures(backend: ChatBackend) -> None:
    chat, reply = cut(backend)
    first = backend.chats.shown(chat)["messages"][1]
    assert (first["status"], first["stats"]["full"]) == ("length", False)
    seen = backend.rounds({"message": reply})
    told = act(backend, SHORT, action="continue", message=reply, chat=chat)
    assert (told["user"], told["reply"]["id"]) == (None, reply)
    assert told["kept"] == [each["id"] for each in backend.chats.shown(chat)["messages"]]
    act(backend, LONG, action="continue", message=reply, chat=chat)
    _, whole = backend.chats.shown(chat)["messages"]
    assert (whole["id"], whole["text"], whole["status"]) == (reply, REPLIES["plain"], "done")
    after = backend.rounds({"message": reply})
    assert after["rounds"][: len(seen["rounds"])] == seen["rounds"]
    assert [each["i"] for each in after["rounds"]] == [*range(len(after["rounds"]))]
    assert "".join(each["s"] for each in after["rounds"]) == REPLIES["plain"]
    for name in ("rounds", "drafted", "accepted", "completion_tokens", "prompt_tokens"):
        assert whole["stats"][name] == after["stats"][name]
    assert whole["stats"]["prompt_tokens"] == first["stats"]["prompt_tokens"]
    lines = backend.store.trace(reply)
    assert sum('"started"' in line for line in lines) == 1
    assert html.escape(REPLIES["plain"]) in replay_file.page(lines)


def test_a_page_that_follows_is_told_the_reply_from_its_beginning(backend: ChatBackend) -> None:
    chat, reply = cut(backend)
    told = act(backend, LONG, action="continue", message=reply, chat=chat)
    packet = backend.live_replies.find(told["run"]).feed.packet(0)
    assert "".join(each.get("s", "") for each in packet["events"]) == REPLIES["plain"]


def test_it_goes_on_with_the_seed_that_it_began_with(backend: ChatBackend, monkeypatch) -> None:
    engine, asked = backend.runtime.engine, []
    generate = engine.generate
    monkeypatch.setattr(engine, "generate", lambda r: (asked.append(r), generate(r))[1])
    seeded = Settings(max_tokens=7, seed=11)
    told = act(backend, seeded, action="send", text="Hi", chat=None)
    reply = told["reply"]["id"]
    act(backend, LONG, action="continue", message=reply, chat=told["chat"])
    assert asked[-1].sampling.seed == 11
    assert len(asked[-1].reply_prefix) == 7
    act(backend, LONG, action="retry", message=reply, chat=told["chat"])
    assert asked[-1].sampling.seed is None, "a retry draws one of its own"


def test_the_end_of_the_context_is_told_apart_from_a_limit(backend: ChatBackend) -> None:
    loaded = backend.runtime.engine.loaded
    words = "word " * (loaded.context - 4)
    told = act(backend, LONG, action="send", text=words.strip(), chat=None)
    reply = backend.chats.shown(told["chat"])["messages"][1]
    assert (reply["status"], reply["stats"]["full"]) == ("length", True)
    with pytest.raises(InvalidRequest, match="cannot go on: the context is full"):
        backend.reply({"action": "continue", "message": reply["id"], "chat": told["chat"]}, LONG)


def test_what_cannot_go_on_is_refused_and_stays_as_it_is(backend: ChatBackend) -> None:
    chat, reply = cut(backend)
    before = backend.chats.shown(chat)["messages"]
    backend.runtime.engine.load(LoadRequest(target="smollm2-360m"))
    with pytest.raises(InvalidRequest, match="another model wrote it"):
        backend.reply({"action": "continue", "message": reply, "chat": chat}, LONG)
    assert backend.chats.shown(chat)["messages"] == before
    act(backend, LONG, action="send", text="More", chat=chat)
    with pytest.raises(InvalidRequest, match="no longer exists"):
        backend.reply({"action": "continue", "message": reply, "chat": chat}, LONG)


def test_a_chat_without_a_reply_has_nothing_to_go_on_with(backend: ChatBackend) -> None:
    chat, reply = cut(backend)
    backend.chats.clear_chat({"chat": chat})
    with pytest.raises(InvalidRequest, match="no longer exists"):
        backend.reply({"action": "continue", "message": reply, "chat": chat}, LONG)


def test_a_failure_on_the_way_keeps_what_stood(backend: ChatBackend, monkeypatch) -> None:
    chat, reply = cut(backend)
    stood = backend.chats.shown(chat)["messages"][1]["text"]

    def fails(request):
        raise RuntimeError("gone")

    monkeypatch.setattr(backend.runtime.engine, "script", fails)
    act(backend, LONG, action="continue", message=reply, chat=chat)
    message = backend.chats.shown(chat)["messages"][1]
    assert (message["status"], message["text"]) == ("failed", stood)
    monkeypatch.undo()
    act(backend, LONG, action="continue", message=reply, chat=chat)
    message = backend.chats.shown(chat)["messages"][1]
    assert (message["text"], message["error"]) == (REPLIES["plain"], None)


def test_what_wrote_a_chat_is_loaded_again_by_what_was_kept_or_by_its_name(
    backend: ChatBackend,
) -> None:
    pairs, loader = PairBackend(Pickers(backend.runtime)), backend.runtime.loader
    backend.runtime.engine.load(LoadRequest(target="pip", context=512))
    told = act(backend, LONG, action="send", text="Hi", chat=None)
    reply = backend.chats.shown(told["chat"])["messages"][1]
    assert (told["reply"]["pair"], reply["model"]) == (reply["pair"], "Pip")
    for named, context in (({**reply["pair"], "model": "?"}, 512), ({"model": "Pip"}, None)):
        backend.runtime.engine.load(LoadRequest(target="smollm2-360m"))
        assert pairs.load_written(named)
        awaited_end(loader)
        request = backend.runtime.engine.loaded.request
        assert (request.target, request.context) == (reply["pair"]["target"], context)
    with pytest.raises(InvalidRequest, match="Qwen9 \\+ 1B was not found on this machine"):
        pairs.load_written({"model": "Qwen9 + 1B"})
    for model, absent in (("o3", True), ("Pip", False), ("smollm2-360m", True)):
        chat = backend.store.take_chat("", [StoredMessage(1, "assistant", "Yes", model=model)])
        (shown,) = backend.chats.shown(chat)["messages"]
        assert shown["absent"] is absent, "Load o3 was offered"


def test_a_file_from_elsewhere_does_not_say_what_a_button_loads(backend: ChatBackend) -> None:
    told = act(backend, LONG, action="send", text="Hi", chat=None)
    text = chat_files.written(backend.store, told["chat"], "json")["text"]
    assert '"pair"' in text
    message = backend.chats.shown(chat_files.take(backend.store, json.loads(text)))["messages"][1]
    assert (message["pair"], message["model"]) == (None, "Pip")


def test_another_page_learns_that_a_chat_went_on(backend: ChatBackend) -> None:
    before = backend.loading.status()["written"]
    chat, reply = cut(backend)
    sent = backend.loading.status()["written"]
    act(backend, LONG, action="continue", message=reply, chat=chat)
    assert len({before, sent, backend.loading.status()["written"]}) == 3
