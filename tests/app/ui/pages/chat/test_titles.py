"""Titles by the model: of chats that have none, while nothing else is to be done, by models that can."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.paths import catalog_file
from app.runtime import Runtime
from app.storage.rows import StoredCall, StoredCalls
from app.storage.schema import StoreError
from app.storage.store import Store
from app.ui.controls.settings import Settings
from app.ui.pages.chat import titles
from app.ui.pages.chat.backend import ChatBackend
from app.ui.pages.chat.titles import PROMPT, Titles, tidy, writes_titles
from engine.loading.catalog import open_catalog
from engine.loading.request import LoadRequest
from engine.request import Request
from tests.support.fake_engine import FakeEngine, Script

MAY_BE_IDLE = threading.Event()
"""Set while a test waits: what it looks at before must not change on a slow machine."""


def script(request: Request) -> Script:
    asked = request.messages[-1].content if request.messages else ""
    return Script(
        ["Title", ": ", '"Red ', 'foxes"'] if asked == PROMPT else ["They ", "are ", "red."]
    )


@pytest.fixture
def backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatBackend]:
    idle = Titles._idle.fget  # type: ignore[attr-defined]
    allowed = property(lambda titles: MAY_BE_IDLE.is_set() and idle(titles))
    monkeypatch.setattr(Titles, "_idle", allowed)
    monkeypatch.setattr(titles, "IDLE_S", 0.05)
    catalog = open_catalog(catalog_file())
    engine = FakeEngine(script, catalog=lambda: catalog, loads=LoadRequest(target="pip"))
    assert engine.loaded is not None
    engine.loaded = replace(engine.loaded, parameters=2_000_000_000)
    runtime = Runtime(engine, catalog, tmp_path, tmp_path / "models")
    store = Store(tmp_path)
    backend = ChatBackend(runtime, store)
    yield backend
    MAY_BE_IDLE.clear()
    backend.titles.close()
    runtime.close()
    store.close()


def send(backend: ChatBackend, text: str = "What colour are foxes?") -> int:
    told = backend.reply({"action": "send", "text": text, "chat": None}, Settings())
    assert backend.live_replies.find(told["run"]).done.wait(20)
    return int(told["chat"])


def title(backend: ChatBackend, chat: int) -> str:
    return next(each.title for each in backend.store.chats() if each.id == chat)


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    MAY_BE_IDLE.set()
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)
    MAY_BE_IDLE.clear()


def resting(backend: ChatBackend) -> bool:
    return backend.titles._thread is None


def test_a_new_chat_is_named_and_pages_are_told(backend: ChatBackend) -> None:
    chat = send(backend)
    assert title(backend, chat) == "What colour are foxes?"
    before = backend.loading.status()["written"]
    until(lambda: title(backend, chat) == "Red foxes")
    assert backend.loading.status()["written"] != before
    assert len(backend.store.all_messages(chat)) == 2


def test_a_chat_whose_reply_was_stopped_before_a_word_keeps_its_question_as_title(
    backend: ChatBackend,
) -> None:
    """The model invented what the chat was about."""
    chat = send(backend)
    asked, reply = backend.store.messages(chat)
    backend.store.save_reply(reply.id, text="", marks="", status="cancelled")
    until(lambda: resting(backend))
    assert title(backend, chat) == asked.text
    backend.reply({"action": "retry", "message": reply.id, "chat": chat}, Settings())
    until(lambda: title(backend, chat) == "Red foxes")


def test_a_chat_that_begins_with_calls_alone_is_named_later(backend: ChatBackend) -> None:
    """It kept its first message as its title."""
    store, call = backend.store, StoredCall("1", "look", "{}", state="done", result="Red.")
    chat = store.new_chat()
    _, reply = store.begin_turn(chat, "What colour are foxes?", keep=None)
    store.save_reply(reply, text="", marks="", status="done")
    store.save_calls(reply, StoredCalls(0, (call,)))
    backend.titles.note(chat)
    until(lambda: resting(backend))
    assert title(backend, chat) == "What colour are foxes?"
    told = backend.reply({"action": "send", "text": "And bears?", "chat": chat}, Settings())
    assert backend.live_replies.find(told["run"]).done.wait(20)
    until(lambda: title(backend, chat) == "Red foxes")


def test_a_chat_whose_first_message_was_edited_is_named_again(backend: ChatBackend) -> None:
    """It had its new first message as its title until the app was started again."""
    chat = send(backend)
    until(lambda: title(backend, chat) == "Red foxes")
    first = backend.store.messages(chat)[0]
    edit = {"action": "edit", "text": "And bears?", "message": first.id, "chat": chat}
    told = backend.reply(edit, Settings())
    assert title(backend, chat) == "And bears?"
    assert backend.live_replies.find(told["run"]).done.wait(20)
    until(lambda: title(backend, chat) == "Red foxes")


def test_a_message_that_comes_while_a_title_is_stored_is_not_forgotten(
    backend: ChatBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    named: list[str] = []
    name_chat = backend.store.name_chat

    def name(chat: int, title: str) -> None:
        name_chat(chat, title)
        named.append(title)
        if len(named) == 1:
            first = backend.store.messages(chat)[0].id
            edit = {"action": "edit", "text": "And bears?", "message": first, "chat": chat}
            backend.reply(edit, Settings())

    monkeypatch.setattr(backend.store, "name_chat", name)
    chat = send(backend)
    until(lambda: resting(backend))
    assert len(named) == 2 and title(backend, chat) == "Red foxes"


def test_a_title_that_the_user_typed_stays(backend: ChatBackend) -> None:
    chat = send(backend)
    backend.library.rename_chat({"chat": chat, "title": "Mine"})
    until(lambda: resting(backend))
    assert title(backend, chat) == "Mine"


def test_any_request_cancels_a_title_and_it_is_tried_again(backend: ChatBackend) -> None:
    engine = backend.runtime.engine
    chat = send(backend)
    engine.held = lambda reply, number: True
    until(lambda: backend.titles._running is not None)
    running = backend.titles._running
    backend.runtime.idle.touch()
    assert running.cancelled
    engine.held = lambda reply, number: False
    until(lambda: title(backend, chat) == "Red foxes")


def test_a_title_that_fails_does_not_end_the_others(
    backend: ChatBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a disk that was full for a moment the thread ended, and no chat was named any more."""

    def fail(chat: int) -> bool:
        raise StoreError("The disk is full.")

    with monkeypatch.context() as patch:
        patch.setattr(backend.store, "is_untitled", fail)
        first = send(backend)
        until(lambda: resting(backend))
    second = send(backend)
    until(lambda: title(backend, second) == "Red foxes")
    assert title(backend, first) == "What colour are foxes?"


def test_small_models_and_those_that_must_think_write_no_titles(backend: ChatBackend) -> None:
    loaded = backend.runtime.engine.loaded
    assert writes_titles(loaded)
    assert not writes_titles(replace(loaded, parameters=500_000_000))
    assert not writes_titles(replace(loaded, server="vLLM"))
    for choices, can in ((("on",), False), (("off", "on"), True)):
        thinking = replace(loaded.capabilities, thinking=choices)
        assert writes_titles(replace(loaded, capabilities=thinking)) is can
    backend.runtime.preferences.keep(titles=False)
    chat = send(backend)
    until(lambda: resting(backend))
    assert title(backend, chat) == "What colour are foxes?"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("**Red foxes**", "Red foxes"),
        ('\n# Title: "Red foxes."\nMore', "Red foxes"),
        ("Füchse: rot", "Füchse: rot"),
        ("x" * 99, ""),
        ("...", ""),
        ("", ""),
    ],
)
def test_an_answer_becomes_a_title(text: str, found: str) -> None:
    assert tidy(text) == found
