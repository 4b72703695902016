"""What the chat page asks for, without a browser."""

from __future__ import annotations

import json
import math
import re
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.paths import catalog_file
from app.runtime import Runtime
from app.settings.defaults import Defaults, Winner
from app.storage import chat_files
from app.storage.schema import StoreError
from app.storage.store import Store
from app.ui.controls.settings import Settings
from app.ui.pages.chat.backend import ChatBackend
from app.ui.pages.chat.status import describe
from engine.errors import InvalidRequest, NotLoaded
from engine.loading.catalog import open_catalog
from tests.app.test_store_damage import fill, make_room
from tests.app.ui.conftest import awaited
from tests.support.recital import REPLIES, reciting_engine


@pytest.fixture
def backend(tmp_path: Path) -> ChatBackend:
    runtime = Runtime(
        reciting_engine(), open_catalog(catalog_file()), tmp_path, tmp_path / "models"
    )
    return ChatBackend(runtime, Store(tmp_path))


def act(backend: ChatBackend, **data) -> dict:
    first = backend.reply(data, Settings())
    writing = backend.live_replies.find(first["run"])
    assert writing.done.wait(20)
    return first


def imported(backend: ChatBackend, text: str) -> dict:
    return backend.chats.shown(chat_files.take(backend.store, json.loads(text)))


def texts(backend: ChatBackend, chat: int) -> list[str]:
    return [message["text"] for message in backend.chats.shown(chat)["messages"]]


def test_a_first_message_makes_a_chat(backend):
    first = act(backend, action="send", text="Hi", chat=None)
    (listed,) = first["chats"]
    assert (listed["id"], listed["title"], listed["folder"]) == (first["chat"], "Hi", None)
    assert texts(backend, first["chat"]) == ["Hi", REPLIES["plain"]]


def test_a_full_disk_is_told_as_such_and_once_there_is_room_the_chat_goes_on(backend):
    """Before a turn it was called the sender's mistake."""
    chat = act(backend, action="send", text="Hi", chat=None)["chat"]
    fill(backend.store)
    long = "word " * 3000
    with pytest.raises(StoreError, match="disk is full"):
        backend.reply({"action": "send", "text": long, "chat": chat}, Settings())
    assert len(texts(backend, chat)) == 2
    make_room(backend.store)
    act(backend, action="send", text=long, chat=chat)
    assert len(texts(backend, chat)) == 4


def test_a_retry_keeps_the_question(backend):
    first = act(backend, action="send", text="Hi", chat=None)
    again = act(backend, action="retry", message=first["reply"]["id"], chat=first["chat"])
    assert again["kept"] == [first["user"]["id"]]
    assert again["user"] is None
    assert len(texts(backend, first["chat"])) == 2


def test_a_folder_of_chats_is_a_number(backend):
    for folder in ("/etc", "1.5", "9" * 5000, str(2**63)):
        with pytest.raises(InvalidRequest) as refused:
            backend.library.delete_folder({"folder": folder})
        assert refused.value.field == "folder"


def test_an_edit_begins_a_branch_and_what_followed_is_in_the_other(backend):
    first = act(backend, action="send", text="Hi", chat=None)
    chat = first["chat"]
    act(backend, action="send", text="More", chat=chat)
    act(backend, action="edit", message=first["user"]["id"], text="markdown", chat=chat)
    assert texts(backend, chat) == ["markdown", REPLIES["markdown"]]
    backend.chats.show_branch({"chat": chat, "message": first["user"]["id"]})
    assert texts(backend, chat) == ["Hi", REPLIES["plain"], "More", REPLIES["plain"]]


def test_what_is_written_anew_is_drafted_from_the_reply_before(backend, monkeypatch):
    asked = []
    generate = backend.runtime.engine.generate
    monkeypatch.setattr(
        backend.runtime.engine, "generate", lambda r: (asked.append(r), generate(r))[1]
    )
    first = act(backend, action="send", text="Hi", chat=None)
    chat = first["chat"]
    again = act(backend, action="retry", message=first["reply"]["id"], chat=chat)
    act(backend, action="edit", message=first["user"]["id"], text="markdown", chat=chat)
    assert [request.predicted for request in asked] == ["", REPLIES["plain"], REPLIES["plain"]]
    last = backend.chats.shown(chat)["messages"][-1]["id"]
    plain = Settings(proposer="none")
    backend.reply({"action": "retry", "message": last, "chat": chat}, plain)
    assert asked[-1].predicted == ""  # nothing is drafted
    assert again["reply"]["beside"] == (first["reply"]["id"], again["reply"]["id"])


def test_a_chat_that_is_too_long_asks_before_it_leaves_out_what_is_oldest(backend):
    chat = None
    for number in range(3):
        text = f"Turn {number} " + "word " * 1100
        chat = act(backend, action="send", text=text, chat=chat)["chat"]
    long = {"action": "send", "text": "word " * 1100, "chat": chat}
    assert "context holds 4,096" in backend.reply(dict(long), Settings())["full"]
    assert len(texts(backend, chat)) == 6
    told = act(backend, **long, drop="oldest")
    shown = backend.chats.shown(chat)["messages"]
    assert [each["id"] for each in shown if each["left_out"]] == told["left_out"]
    assert [each["left_out"] for each in shown] == [True] * 4 + [False] * 4  # a quarter is free
    backend.chats.leave_out({"chat": chat, "messages": told["left_out"], "out": False})
    assert not any(each["left_out"] for each in backend.chats.shown(chat)["messages"])
    alone = {"action": "send", "text": "word " * 9000, "chat": None}
    with pytest.raises(InvalidRequest, match="context holds 4,096"):
        backend.reply(alone, Settings())


def test_a_chat_has_a_system_prompt_of_its_own_and_keeps_it(backend, monkeypatch):
    asked = []
    generate = backend.runtime.engine.generate
    monkeypatch.setattr(
        backend.runtime.engine, "generate", lambda r: (asked.append(r), generate(r))[1]
    )
    library = backend.library
    library.keep_prompt({"name": "Mine", "text": "Rhyme."})
    first = act(backend, action="send", text="Hi", chat=None, preset="Mine")
    library.delete_prompt({"name": "Mine"})
    act(backend, action="send", text="Hi", chat=first["chat"])
    backend.chats.use_system({"chat": first["chat"], "name": "Concise"})
    act(backend, action="send", text="Hi", chat=first["chat"])
    backend.chats.use_system({"chat": first["chat"], "name": ""})
    act(backend, action="send", text="Hi", chat=first["chat"])
    said = [request.messages[0].content for request in asked]
    assert said[:2] == ["Rhyme.", "Rhyme."]
    assert said[2].startswith("Answer in as few words")
    assert said[3] == "Hi"
    for name, text in (("Concise", "x"), ("", "x"), ("Mine", " "), ("Mine", "x" * 30_000)):
        with pytest.raises(InvalidRequest):
            library.keep_prompt({"name": name, "text": text})
    with pytest.raises(InvalidRequest, match="was deleted"):
        backend.chats.use_system({"chat": first["chat"], "name": "Mine"})


def test_files_go_with_a_message_and_only_text_is_taken(backend):
    files = [{"name": "a.py", "text": "x = 1\n"}]
    chat = act(backend, action="send", text="", files=files, chat=None)["chat"]
    question = backend.store.messages(chat)[0]
    assert (question.content, question.text) == ("a.py\n```\nx = 1\n```", "")
    (shown,) = backend.chats.shown(chat)["messages"][0]["files"]
    assert (shown["name"], shown["kind"], shown["text"], shown["size"]) == (
        "a.py",
        "text",
        "x = 1\n",
        6,
    )
    assert backend.chats.shown(chat)["messages"][1]["writer"] == "Pip · Draft model, auto"
    for bad in ([{"name": "a", "text": "\0"}], ["a"], [{"name": "a", "text": "x" * 2_100_000}]):
        with pytest.raises(InvalidRequest, match="text"):
            backend.reply({"action": "send", "text": "Hi", "files": bad, "chat": None}, Settings())


def test_pip_is_known_by_its_model_and_not_by_its_name(backend):
    pip = backend.runtime.engine.loaded
    assert describe(pip)["pip"]
    assert describe(replace(pip, name="My own"))["pip"]
    assert not describe(replace(pip, name="Pippin", target_id="pippin"))["pip"]


def test_why_a_model_sees_no_images_names_it_as_the_pages_do(backend: ChatBackend) -> None:
    loaded = backend.runtime.engine.loaded
    assert loaded is not None
    file = "qwen2.5-coder-1.5b-instruct-q4_k_m"
    blind = replace(loaded.capabilities, why_no_images=f"{file} cannot see images.")
    told = describe(replace(loaded, target_name=file, capabilities=blind))
    assert told is not None and told["blind"] == "Qwen2.5 Coder 1.5B cannot see images."


def test_nothing_is_stored_of_a_refused_message(backend):
    with pytest.raises(InvalidRequest):
        backend.reply({"action": "send", "text": "  ", "chat": None}, Settings())
    with pytest.raises(InvalidRequest):
        backend.reply(
            {"action": "send", "text": "Hi", "chat": None}, Settings(controller="fixed", depth=99)
        )
    with pytest.raises(InvalidRequest):
        backend.reply({"action": "send", "text": "word " * 9000, "chat": None}, Settings())
    backend.runtime.engine.loaded = None
    with pytest.raises(NotLoaded):
        backend.reply({"action": "send", "text": "Hi", "chat": None}, Settings())
    assert backend.library.listing()["chats"] == []


def test_a_chat_answers_one_message_at_a_time(backend):
    backend.runtime.engine.seconds_a_round = 0.05
    first = backend.reply({"action": "send", "text": "1000 tokens", "chat": None}, Settings())
    writing = backend.live_replies.find(first["run"])
    with pytest.raises(InvalidRequest, match="still being written"):
        backend.reply({"action": "send", "text": "Hi", "chat": first["chat"]}, Settings())
    assert backend.boot({"chat": first["chat"]})["chat"]["running"]["run"] == writing.run
    assert backend.stop({"run": writing.run})
    assert writing.done.wait(20)
    assert backend.chats.shown(first["chat"])["messages"][-1]["status"] == "cancelled"


def test_a_stale_page_cannot_delete_what_another_one_wrote(backend):
    """A retry of a message that was replaced once dropped all that stood in its place."""
    chat = act(backend, action="send", text="One", chat=None)["chat"]
    second = act(backend, action="send", text="Two", chat=chat)
    act(backend, action="edit", message=second["user"]["id"], text="Other", chat=chat)
    before = backend.chats.shown(chat)["messages"]
    question, reply = before[-2]["id"], before[-1]["id"]
    for action, message in (
        ("retry", second["reply"]["id"]),
        ("edit", second["user"]["id"]),
        ("retry", question),
        ("edit", reply),
    ):
        with pytest.raises(InvalidRequest, match="no longer exists"):
            data = {"action": action, "message": message, "text": "Hi", "chat": chat}
            backend.reply(data, Settings())
    assert backend.chats.shown(chat)["messages"] == before


def test_a_reply_that_cannot_be_stored_is_not_written_for_nobody(backend, monkeypatch):
    """Its generation once ran to its end unseen, and every other request waited behind it."""
    backend.runtime.engine.seconds_a_round = 0.05

    def fail(*_, **__):
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(backend.store, "begin_turn", fail)
        with pytest.raises(sqlite3.OperationalError):
            backend.reply({"action": "send", "text": "100000 tokens", "chat": None}, Settings())
    first = act(backend, action="send", text="Hi", chat=None)
    assert texts(backend, first["chat"]) == ["Hi", REPLIES["plain"]]


def test_clearing_stops_the_reply_first(backend):
    backend.runtime.engine.seconds_a_round = 0.05
    first = backend.reply({"action": "send", "text": "1000 tokens", "chat": None}, Settings())
    writing = backend.live_replies.find(first["run"])
    cleared = backend.chats.clear_chat({"chat": first["chat"]})
    assert writing.done.is_set()
    assert cleared["chat"]["messages"] == []
    restored = backend.chats.restore({"deleted": cleared["deleted"]})["chat"]
    assert restored["messages"][-1]["status"] == "cancelled"
    with pytest.raises(InvalidRequest, match="Nothing to undo"):
        backend.chats.restore({"deleted": cleared["deleted"]})


def test_a_reply_that_does_not_stop_is_not_shown_in_the_chat_that_was_cleared(backend, monkeypatch):
    backend.runtime.engine.seconds_a_round = 0.05
    first = backend.reply({"action": "send", "text": "1000 tokens", "chat": None}, Settings())
    writing = backend.live_replies.find(first["run"])
    monkeypatch.setattr(backend.chats, "_stop_chat", lambda chat: None)
    cleared = backend.chats.clear_chat({"chat": first["chat"]})
    assert not writing.done.is_set()
    assert (cleared["chat"]["messages"], cleared["chat"]["running"]) == ([], None)
    writing.stop()
    assert writing.done.wait(20)


def test_rounds_of_a_kept_reply_add_up(backend):
    first = act(backend, action="send", text="Hi", chat=None)
    answer = backend.rounds({"message": first["reply"]["id"]})
    assert len(answer["rounds"]) == answer["stats"]["rounds"]
    fates = [chip[1] for lane in answer["rounds"] for chip in lane["d"]]
    assert fates.count("a") + fates.count("x") == answer["stats"]["accepted"]
    assert len(fates) == answer["stats"]["drafted"]


def test_a_reply_can_be_followed_from_any_point(backend):
    first = act(backend, action="send", text="Hi", chat=None)
    whole = awaited(backend.follow({"run": first["run"], "from": 0}))
    rest = awaited(backend.follow({"run": first["run"], "from": 2}))
    assert rest["events"] == whole["events"][2:]
    assert rest["done"]
    assert awaited(backend.follow({"run": 999, "from": 0})) is None


def test_a_chat_that_is_gone_is_forgotten(backend):
    assert backend.boot({"chat": 77})["chat"] is None
    assert backend.chats.open_chat({"chat": 77})["chat"] is None
    with pytest.raises(InvalidRequest, match="no longer exists"):
        backend.reply({"action": "retry", "message": 5, "chat": None}, Settings())


def test_a_chat_is_exported_and_read_back(backend):
    first = act(backend, action="send", text="Hi, مرحبا", chat=None)
    exported = backend.library.export_chat({"chat": first["chat"], "form": "json"})
    assert exported["name"] == "hi-مرحبا.json"
    again = imported(backend, exported["text"])
    assert again["id"] != first["chat"]
    told = [
        [
            {**message, "id": None, "beside": None, "pair": None, "absent": None}
            for message in backend.chats.shown(chat)["messages"]
        ]
        for chat in (first["chat"], again["id"])
    ]
    assert told[0] == told[1]
    act(backend, action="edit", message=first["user"]["id"], text="Other", chat=first["chat"])
    whole = backend.library.export_chat({"chat": first["chat"], "form": "json"})
    branched = imported(backend, whole["text"])
    assert [m["text"] for m in branched["messages"]] == ["Other", REPLIES["plain"]]
    old = branched["messages"][0]["beside"][0]
    backend.chats.show_branch({"chat": branched["id"], "message": old})
    backend.chats.show_branch({"chat": first["chat"], "message": first["user"]["id"]})
    assert texts(backend, branched["id"]) == texts(backend, first["chat"])
    readable = backend.library.export_chat({"chat": first["chat"], "form": "markdown"})
    assert readable["text"].startswith("# Hi, مرحبا\n\n## You\n\nHi, مرحبا\n\n## Model\n\n")
    assert readable["text"].endswith(f"{REPLIES['plain']}\n")


@pytest.mark.parametrize(
    "text",
    [
        '"no chat"',
        "[]",
        '{"format": "other", "version": 1, "title": "", "messages": []}',
        '{"format": "foretoken-chat", "version": 1, "title": "", "messages": [{"role": "x"}]}',
        '{"format": "foretoken-chat", "version": 9, "title": "", "messages": []}',
        '{"format": "foretoken-chat", "version": 2, "title": "", "messages": '
        '[{"id": 1, "parent": 7, "role": "user", "text": "Hi"}]}',
    ],
)
def test_a_file_that_holds_no_chat_makes_none(backend, text):
    with pytest.raises(InvalidRequest, match=r"not an exported chat|newer version"):
        imported(backend, text)
    assert backend.library.listing()["chats"] == []


WHOLE = {
    "id": 1, "parent": None, "shown": True, "role": "user", "text": "Hi", "files": [], "model": None,
    "method": None, "left_out": False, "marks": "", "status": "done", "error": None,
    "statistics": {"drafted": 3, "speedup": 1.5, "decision": None},
}  # fmt: skip


def file_of(message: dict[str, Any]) -> str:
    chat = {"format": "foretoken-chat", "version": 2, "title": "T", "messages": [WHOLE | message]}
    return json.dumps(chat).replace("Infinity", "1e400")


@pytest.mark.parametrize(
    ("message", "named"),
    [
        ({"error": ["x"]}, "messages[0].error"),
        ({"status": {}}, "messages[0].status"),
        ({"status": "odd"}, "messages[0].status"),
        ({"id": math.inf}, "Out of range float"),
        ({"id": "1"}, "messages[0].id"),
        ({"statistics": {"drafted": math.inf}}, "Out of range float"),
        ({"statistics": {"drafted": "x"}}, "messages[0].statistics"),
        ({"files": [{"text": "a"}]}, "messages[0].files[0].name"),
        ({"text": "\ud800"}, "surrogates not allowed"),
        ({"shown": 2}, "messages[0].shown"),
        ({"parent": 1}, "messages[0]"),
        (
            {"shown": 2, "text": 3},
            "; messages[0].shown: input should be a valid boolean",
        ),
        (dict.fromkeys(WHOLE, ()), "and 7 more"),
    ],
)
def test_an_import_with_an_odd_value_is_refused_and_names_it(backend, message, named):
    """These once ended in sqlite3.ProgrammingError, or an OverflowError."""
    imported(backend, file_of({}))
    with pytest.raises(InvalidRequest, match=re.escape(named)):
        imported(backend, file_of(message))
    assert len(backend.library.listing()["chats"]) == 1


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(field=st.sampled_from(sorted(WHOLE)), value=ANYTHING)
def test_whatever_an_import_holds_it_is_read_or_refused_in_words(backend, field, value):
    try:
        found = imported(backend, file_of({field: value}))
    except InvalidRequest:
        return
    assert backend.chats.open_chat({"chat": found["id"]})["chat"]["messages"] == found["messages"]
    json.dumps(found, allow_nan=False)


def test_chats_are_found_by_all_words_of_title_or_messages(backend):
    fox = act(backend, action="send", text="A fox at 100%", chat=None)["chat"]
    owl = act(backend, action="send", text="An owl", chat=None)["chat"]
    assert backend.library.search_chats({"text": "fox"}) == [fox]
    assert backend.library.search_chats({"text": "0%"}) == [fox]
    assert backend.library.search_chats({"text": "pass OWL"}) == [owl]
    assert backend.library.search_chats({"text": "_wl"}) == []
    assert backend.library.search_chats({"text": " "}) == [owl, fox]
    assert backend.library.search_chats({"text": "fox " * 2000}) == [fox]  # SQLite refused so many


def test_a_measured_default_is_what_the_panel_starts_from_and_where_it_comes_from_is_told(backend):
    assert backend.stored.now().settings == Settings()
    loaded = backend.runtime.engine.loaded
    assert "Default" not in backend.loading.status()["loaded"]["detail"]
    defaults = Defaults(backend.runtime.data_dir)
    defaults.keep(loaded, Winner("ngram", "fixed", 5, 1.8, 48), {})
    settings = backend.stored.now().settings
    assert (settings.proposer, settings.controller, settings.depth) == ("ngram", "fixed", 5)
    detail = backend.loading.status()["loaded"]["detail"]
    assert "Default for this model: N-gram, depth 5, 1.8x (measured " in detail
    assert "Change it on Tune" in detail
    defaults.clear()
    assert backend.stored.now().settings == Settings()
