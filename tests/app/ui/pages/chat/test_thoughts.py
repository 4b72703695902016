"""What a model thought before it answered is kept, shown apart, and no part of what was said."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from app.paths import catalog_file
from app.runtime import Runtime
from app.storage import chat_files
from app.storage.store import Store
from app.ui.controls.settings import Settings
from app.ui.pages.chat.backend import ChatBackend
from engine.loading.catalog import open_catalog
from engine.loading.request import LoadRequest
from tests.support.fake_engine import FakeEngine, Script

REPLY = ["<think>", "\n", "It", " asks", " 😀", "\n", "</think>", "\n\n", "Blue", "."]


@pytest.fixture
def asked() -> list:
    return []


@pytest.fixture
def backend(tmp_path: Path, asked: list) -> ChatBackend:
    catalog = open_catalog(catalog_file())
    engine = FakeEngine(
        lambda request: (asked.append(request), Script(REPLY))[1],
        catalog=lambda: catalog,
        loads=LoadRequest(target="pip"),
        seconds_a_round=0.001,
    )
    return ChatBackend(Runtime(engine, catalog, tmp_path, tmp_path / "models"), Store(tmp_path))


USUAL = Settings()


def act(backend: ChatBackend, settings: Settings = USUAL, **data) -> dict:
    told = backend.reply(data, settings)
    assert backend.live_replies.find(told["run"]).done.wait(20)
    return told


def test_its_place_is_told_in_what_javascript_counts(backend: ChatBackend) -> None:
    chat = act(backend, action="send", text="Hi", chat=None)["chat"]
    message = backend.chats.shown(chat)["messages"][1]
    text, place = message["text"].encode("utf-16-le"), message["thought"]

    def cut(begin: int, end: int | None) -> str:
        return text[2 * begin : None if end is None else 2 * end].decode("utf-16-le")

    assert cut(place["from"], place["to"]) == "It asks 😀"
    assert cut(place["answer"], None) == "Blue."
    assert place["seconds"] > 0


def test_a_page_that_follows_learns_of_it_while_it_is_written(backend: ChatBackend) -> None:
    told = act(backend, Settings(max_tokens=4), action="send", text="Hi", chat=None)
    stats = backend.live_replies.find(told["run"]).feed.packet(0)["stats"]
    assert (stats["thought"]["from"], stats["thought"]["to"]) == (8, None)
    kept = backend.chats.shown(told["chat"])["messages"][1]["thought"]
    assert (kept["from"], kept["to"], kept["answer"]) == (8, None, None)


def test_the_next_turn_has_the_answer_and_the_thought_apart(
    backend: ChatBackend, asked: list
) -> None:
    chat = act(backend, action="send", text="Hi", chat=None)["chat"]
    act(backend, action="send", text="And?", chat=chat)
    reply = asked[-1].messages[1]
    assert (reply.content, reply.reasoning) == ("Blue.", "It asks 😀")


def test_it_is_not_searched_and_is_folded_in_what_is_exported(backend: ChatBackend) -> None:
    chat = act(backend, action="send", text="Hi", chat=None)["chat"]
    assert backend.store.search("blue") == (chat,)
    assert backend.store.search("asks") == ()
    markdown = chat_files.written(backend.store, chat, "markdown")["text"]
    assert "<details><summary>Thought</summary>\n\nIt asks 😀\n\n</details>\n\nBlue." in markdown
    assert "think>" not in markdown
    chat = act(backend, Settings(max_tokens=4), action="send", text="Hi", chat=None)["chat"]
    markdown = chat_files.written(backend.store, chat, "markdown")["text"]
    assert markdown.endswith("\n\n</details>\n\n\n")  # there is no answer


def test_an_imported_chat_has_its_thoughts_told_apart_and_keeps_how_long_they_took(
    backend: ChatBackend,
) -> None:
    chat = act(backend, action="send", text="Hi", chat=None)["chat"]
    exported = chat_files.written(backend.store, chat, "json")["text"]
    again = backend.chats.shown(chat_files.take(backend.store, json.loads(exported)))
    assert again["messages"][1]["thought"] == backend.chats.shown(chat)["messages"][1]["thought"]
    odd = re.sub(r'"seconds": [\d.e-]+', '"seconds": "long"', exported)
    odd = backend.chats.shown(chat_files.take(backend.store, json.loads(odd)))["messages"][1][
        "thought"
    ]
    assert odd["seconds"] is None
    old = exported.replace("<think>\\n", "").replace('"statistics"', '"was"')
    place = backend.chats.shown(chat_files.take(backend.store, json.loads(old)))["messages"][1][
        "thought"
    ]
    assert (place["from"], place["seconds"]) == (0, None)
