"""Forks of chats, and replies that the user edits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.paths import catalog_file
from app.runtime import Runtime
from app.storage import chat_files
from app.storage.store import Store
from app.ui.controls.settings import Settings
from app.ui.pages.chat.backend import ChatBackend
from engine.errors import InvalidRequest
from engine.loading.catalog import open_catalog
from tests.support.recital import REPLIES, reciting_engine


@pytest.fixture
def backend(tmp_path: Path) -> ChatBackend:
    runtime = Runtime(
        reciting_engine(), open_catalog(catalog_file()), tmp_path, tmp_path / "models"
    )
    return ChatBackend(runtime, Store(tmp_path))


def act(backend: ChatBackend, **data) -> dict:
    told = backend.reply(data, Settings())
    assert backend.live_replies.find(told["run"]).done.wait(20)
    return told


def chat_of_two(backend: ChatBackend) -> tuple[int, int, int]:
    """A chat of two turns, and its replies."""
    file = {"name": "a.txt", "text": "Hello"}
    first = act(backend, action="send", text="Hi", files=[file], chat=None)
    second = act(backend, action="send", text="More", chat=first["chat"])
    return first["chat"], first["reply"]["id"], second["reply"]["id"]


def test_a_fork_has_everything_up_to_its_message_and_the_chat_stays(backend: ChatBackend) -> None:
    chat, first, second = chat_of_two(backend)
    backend.library.rename_chat({"chat": chat, "title": "Foxes"})
    before = backend.chats.shown(chat)
    told = backend.chats.fork_chat({"chat": chat, "message": first})
    forked = told["chat"]
    assert told["chats"][0]["title"] == "Foxes (fork)"
    assert [each["text"] for each in forked["messages"]] == ["Hi", REPLIES["plain"]]
    assert forked["messages"][0]["files"] == before["messages"][0]["files"]
    assert forked["messages"][1]["stats"] == before["messages"][1]["stats"]
    rounds = [backend.rounds({"message": m}) for m in (first, forked["messages"][1]["id"])]
    assert rounds[0] == rounds[1] and rounds[0]["rounds"]
    assert backend.chats.shown(chat) == before
    act(backend, action="send", text="Else", chat=forked["id"])
    assert len(backend.chats.shown(chat)["messages"]) == 4
    backend.chats.delete_chat({"chat": chat})
    assert len(backend.chats.shown(forked["id"])["messages"]) == 4
    for wrong in ({"chat": forked["id"], "message": second}, {"chat": 99, "message": 99}):
        with pytest.raises(InvalidRequest, match="no longer exists"):
            backend.chats.fork_chat(wrong)


def test_a_last_question_without_a_reply_is_answered(backend: ChatBackend) -> None:
    """A fork from a question, or an imported chat that ends with one, could only be edited."""
    chat, _, _ = chat_of_two(backend)
    asked = backend.chats.shown(chat)["messages"][2]["id"]
    forked = backend.chats.fork_chat({"chat": chat, "message": asked})["chat"]
    question = forked["messages"][-1]["id"]
    told = act(backend, action="retry", message=question, chat=forked["id"])
    assert told["kept"][-1] == question and told["user"] is None
    shown = backend.chats.shown(forked["id"])["messages"]
    assert [each["text"] for each in shown] == ["Hi", REPLIES["plain"], "More", REPLIES["plain"]]
    with pytest.raises(InvalidRequest):  # it has a reply now, which can be retried
        act(backend, action="retry", message=question, chat=forked["id"])


def test_an_edited_reply_stands_beside_the_old_one_and_says_so(backend: ChatBackend) -> None:
    chat, first, _ = chat_of_two(backend)
    told = backend.chats.edit_reply({"chat": chat, "message": first, "text": "A fox is red."})
    _, edited = told["chat"]["messages"]
    assert (edited["id"], edited["text"], edited["edited"]) == (
        told["message"],
        "A fox is red.",
        True,
    )
    assert (edited["stats"], edited["marks"], edited["status"]) == (None, "", "done")
    assert edited["beside"] == (first, told["message"])
    assert backend.rounds({"message": told["message"]}) == {"rounds": [], "stats": None}
    act(backend, action="send", text="Why?", chat=chat)
    (_, given, _, _) = backend.store.messages(chat)
    assert given.turn[0].content == "A fox is red."
    backend.chats.show_branch({"chat": chat, "message": first})
    assert len(backend.chats.shown(chat)["messages"]) == 4  # the turns after the old one are there
    whole = chat_files.written(backend.store, chat, "json")["text"]
    again = chat_files.take(backend.store, json.loads(whole))
    assert sum(each.edited for each in backend.store.all_messages(again)) == 1


def test_a_model_goes_on_from_an_edited_reply(backend: ChatBackend, monkeypatch) -> None:
    engine, asked = backend.runtime.engine, []
    generate = engine.generate
    monkeypatch.setattr(engine, "generate", lambda r: (asked.append(r), generate(r))[1])
    chat, _, second = chat_of_two(backend)
    start = REPLIES["plain"].split(" ")[0]
    edited = backend.chats.edit_reply({"chat": chat, "message": second, "text": start})["message"]
    told = act(backend, action="continue", chat=chat, message=edited)
    assert told["reply"]["id"] == edited
    assert asked[-1].reply_prefix == engine.tokenize([start])[0]
    reply = backend.chats.shown(chat)["messages"][-1]
    assert reply["text"] == REPLIES["plain"] and reply["edited"]
    rounds = backend.rounds({"message": edited})
    assert rounds["rounds"][0]["i"] == 0
    assert "".join(each["s"] for each in rounds["rounds"]) == REPLIES["plain"].removeprefix(start)
    act(backend, action="retry", chat=chat, message=edited)
    assert not backend.chats.shown(chat)["messages"][-1]["edited"]


def test_a_thought_stays_when_the_answer_is_edited(backend: ChatBackend) -> None:
    chat, first, _ = chat_of_two(backend)
    text = "<think>Foxes, hm.</think>\nBlue."
    backend.store.save_reply(first, text=text, marks="", status="done")
    told = backend.chats.edit_reply({"chat": chat, "message": first, "text": "Red."})
    assert told["chat"]["messages"][1]["text"] == "<think>Foxes, hm.</think>\nRed."


def test_what_is_no_reply_is_not_edited(backend: ChatBackend) -> None:
    chat, first, _ = chat_of_two(backend)
    question = backend.chats.shown(chat)["messages"][0]["id"]
    for message, text in ((question, "x"), (99, "x"), (first, "  ")):
        with pytest.raises(InvalidRequest):
            backend.chats.edit_reply({"chat": chat, "message": message, "text": text})
    assert len(backend.chats.shown(chat)["messages"]) == 4
