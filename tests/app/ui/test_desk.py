"""What the chat page asks for, without a browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.defaults import Winner
from app.paths import catalog_file
from app.runtime import Runtime
from app.store import Store
from app.ui.desk import Desk
from app.ui.settings import Settings
from engine.errors import InvalidRequest, NotLoaded
from engine.loading.catalog import open_catalog
from tests.app.ui.conftest import awaited
from tests.app.ui.scripted import REPLIES, ScriptedService


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    runtime = Runtime(ScriptedService(0.001), open_catalog(catalog_file()), tmp_path)
    return Desk(runtime, Store(tmp_path))


def act(desk: Desk, **data) -> dict:
    first = desk.act(data, Settings())
    writing = desk.writings.find(first["run"])
    assert writing.done.wait(20)
    return first


def texts(desk: Desk, chat: int) -> list[str]:
    return [message["text"] for message in desk.chat(chat)["messages"]]


def test_a_first_message_makes_a_chat(desk):
    first = act(desk, action="send", text="Hi", chat=None)
    assert first["chats"] == [{"id": first["chat"], "title": "Hi"}]
    assert texts(desk, first["chat"]) == ["Hi", REPLIES["plain"]]


def test_a_retry_keeps_the_question(desk):
    first = act(desk, action="send", text="Hi", chat=None)
    again = act(desk, action="retry", message=first["reply"]["id"], chat=first["chat"])
    assert again["kept"] == [first["user"]["id"]]
    assert again["user"] is None
    assert len(texts(desk, first["chat"])) == 2


def test_an_edit_drops_what_followed(desk):
    first = act(desk, action="send", text="Hi", chat=None)
    chat = first["chat"]
    act(desk, action="send", text="More", chat=chat)
    act(desk, action="edit", message=first["user"]["id"], text="markdown", chat=chat)
    assert texts(desk, chat) == ["markdown", REPLIES["markdown"]]


def test_nothing_is_stored_of_a_refused_message(desk):
    with pytest.raises(InvalidRequest):
        desk.act({"action": "send", "text": "  ", "chat": None}, Settings())
    with pytest.raises(InvalidRequest):
        desk.act(
            {"action": "send", "text": "Hi", "chat": None}, Settings(controller="fixed", depth=99)
        )
    with pytest.raises(InvalidRequest):
        desk.act({"action": "send", "text": "word " * 9000, "chat": None}, Settings())
    desk.runtime.service.loaded = None
    with pytest.raises(NotLoaded):
        desk.act({"action": "send", "text": "Hi", "chat": None}, Settings())
    assert desk.chats() == []


def test_a_chat_answers_one_message_at_a_time(desk):
    desk.runtime.service.seconds_a_round = 0.05
    first = desk.act({"action": "send", "text": "1000 tokens", "chat": None}, Settings())
    writing = desk.writings.find(first["run"])
    with pytest.raises(InvalidRequest, match="still being answered"):
        desk.act({"action": "send", "text": "Hi", "chat": first["chat"]}, Settings())
    assert desk.boot({"chat": first["chat"]})["chat"]["running"]["run"] == writing.run
    assert desk.stop({"run": writing.run})
    assert writing.done.wait(5)
    assert desk.chat(first["chat"])["messages"][-1]["status"] == "cancelled"


def test_clearing_stops_the_reply_first(desk):
    desk.runtime.service.seconds_a_round = 0.05
    first = desk.act({"action": "send", "text": "1000 tokens", "chat": None}, Settings())
    writing = desk.writings.find(first["run"])
    cleared = desk.clear_chat({"chat": first["chat"]})
    assert writing.done.is_set()
    assert cleared["messages"] == []


def test_rounds_of_a_kept_reply_add_up(desk):
    first = act(desk, action="send", text="Hi", chat=None)
    answer = desk.rounds({"message": first["reply"]["id"]})
    assert len(answer["rounds"]) == answer["stats"]["rounds"]
    fates = [chip[1] for lane in answer["rounds"] for chip in lane["d"]]
    assert fates.count("a") + fates.count("x") == answer["stats"]["accepted"]
    assert len(fates) == answer["stats"]["drafted"]


def test_a_reply_can_be_followed_from_any_point(desk):
    first = act(desk, action="send", text="Hi", chat=None)
    whole = awaited(desk.follow({"run": first["run"], "from": 0}))
    rest = awaited(desk.follow({"run": first["run"], "from": 2}))
    assert rest["events"] == whole["events"][2:]
    assert rest["done"]
    assert awaited(desk.follow({"run": 999, "from": 0})) is None


def test_a_chat_that_is_gone_is_forgotten(desk):
    assert desk.boot({"chat": 77})["chat"] is None
    assert desk.open_chat({"chat": 77})["chat"] is None
    with pytest.raises(InvalidRequest, match="no longer there"):
        desk.act({"action": "retry", "message": 5, "chat": None}, Settings())


def test_a_measured_default_is_what_the_panel_starts_from_and_where_it_comes_from_is_told(desk):
    assert desk.default_settings() == Settings()
    loaded = desk.runtime.service.loaded
    assert "Default" not in desk.status()["loaded"]["detail"]
    desk.defaults.keep(loaded, Winner("ngram", "fixed", 5, 1.8, 48), {})
    settings = desk.default_settings()
    assert (settings.proposer, settings.controller, settings.depth) == ("ngram", "fixed", 5)
    detail = desk.status()["loaded"]["detail"]
    assert "Default: ngram, depth 5, 1.80x as measured on" in detail
    assert "foretoken models defaults --clear" in detail
    desk.defaults.clear()
    assert desk.default_settings() == Settings()
