"""Replies that call tools of real servers: asked for, run, answered, stored, and stopped."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.mcp import limits
from app.mcp.config import McpFile, ServerConfig
from app.paths import catalog_file
from app.runtime import Runtime
from app.storage import chat_files
from app.storage.rows import LOST, NOT_RUN
from app.storage.store import Store
from app.ui.controls.settings import Settings
from app.ui.pages.chat.backend import ChatBackend
from engine.api import Generation
from engine.errors import InvalidRequest
from engine.loading.catalog import open_catalog
from engine.request import Request
from tests.support.calling import calling_engine
from tests.support.places import ROOT

ENVIRONMENT = {"PYTHONPATH": str(ROOT), "LONG": "word " * 200}


def server(name: str = "t", **fields: Any) -> ServerConfig:
    program = {"command": sys.executable, "args": ("-m", "tests.support.tool_server")}
    return ServerConfig(name, **{**program, "env": ENVIRONMENT, **fields})


def fails_behind(gate: Path, name: str) -> ServerConfig:
    """Return a server that ends with an error as soon as the file ``gate`` is there."""
    waiting = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)\n"
    return server(name, args=("-c", f"{waiting}raise OSError('no such disk')"))


def backend_in(folder: Path, *, tools: bool = True) -> ChatBackend:
    engine, catalog = calling_engine(tools=tools), open_catalog(catalog_file())
    runtime = Runtime(engine, catalog, folder, folder / "models")
    return ChatBackend(runtime, Store(folder))


def close(backend: ChatBackend) -> None:
    """End the app, in the order of ``app.ui.build``."""
    backend.live_replies.close()
    backend.runtime.close()
    backend.store.close()


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChatBackend]:
    """An app with one server, which all tests share; each has a chat of its own."""
    folder = tmp_path_factory.mktemp("app")
    McpFile(folder).add((server(),))
    found = backend_in(folder)
    yield found
    close(found)


def ask(backend: ChatBackend, text: str, chat: int | None = None, **more: Any) -> dict[str, Any]:
    data = {"action": "send", "text": text, "chat": chat, **more}
    while backend.tools.prepare(chat, data.get("off") or ()):
        time.sleep(0.02)
    return backend.reply(data, Settings())


def until(found: Callable[[], Any]) -> Any:
    end = time.monotonic() + 120  # servers of tools take their time to start
    while time.monotonic() < end:
        value = found()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError("it did not happen")


def calls(backend: ChatBackend, chat: int) -> list[dict[str, Any]]:
    messages = backend.chats.shown(chat)["messages"]
    return [call for each in messages if each["calls"] for call in each["calls"]["calls"]]


def states(backend: ChatBackend, chat: int) -> list[str]:
    return [call["state"] for call in calls(backend, chat)]


def waiting(backend: ChatBackend, chat: int) -> list[dict[str, Any]]:
    """Wait until the chat asks the user; return the calls that it asks for."""

    def found() -> list[dict[str, Any]]:
        return [call for call in calls(backend, chat) if call["state"] == "waiting"]

    return until(found)


def answer(
    backend: ChatBackend, chat: int, call: dict[str, Any], said: str, text: str = ""
) -> bool:
    run = backend.chats.shown(chat)["running"]["run"]
    data = {"run": run, "call": call["id"], "name": call["server"], "answer": said, "text": text}
    return backend.tools.answer_call(data)


def ended(backend: ChatBackend, chat: int) -> list[dict[str, Any]]:
    """Wait until nothing is written; return the chat's messages."""
    until(lambda: backend.chats.shown(chat)["running"] is None)
    return backend.chats.shown(chat)["messages"]


def test_a_call_is_asked_for_then_run_and_the_model_answers_its_result(
    backend: ChatBackend,
) -> None:
    chat = ask(backend, 'What is add{"a": 19, "b": 23}?')["chat"]
    (call,) = waiting(backend, chat)
    assert (call["name"], call["server"], call["tool"]) == ("add", "t", "add")
    assert call["arguments"] == '{"a": 19, "b": 23}'
    assert answer(backend, chat, call, "once")
    assert not backend.tools.answer_call(
        {"run": 1, "call": call["id"], "name": "t", "answer": "once", "text": ""}
    )
    _question, calling, reply = ended(backend, chat)
    assert calling["text"][: calling["calls"]["at"]] == "Let me look.\n"
    (done,) = calling["calls"]["calls"]
    assert (done["state"], done["result"]) == ("done", "42")
    assert reply["text"] == "They said: 42."
    turn = reply["stats"]["turn"]
    assert turn["completion_tokens"] == sum(
        each["stats"]["completion_tokens"] for each in (calling, reply)
    )
    assert calling["stats"]["turn"] is None
    assert [m.role for each in backend.store.messages(chat) for m in each.turn] == [
        "user", "assistant", "tool", "assistant",
    ]  # fmt: skip


def test_calls_run_side_by_side_and_one_that_fails_is_a_result_too(backend: ChatBackend) -> None:
    asked = 'slow{"seconds": 0.3} failing{} slow{"seconds": 0.2} add{"a": 1, "b": "x"} nothing{}'
    chat = ask(backend, asked)["chat"]
    for call in waiting(backend, chat):
        assert answer(backend, chat, call, "once")
    reply = ended(backend, chat)[-1]
    assert states(backend, chat) == ["done", "failed", "done", "failed", "failed"]
    results = [call["result"] for call in calls(backend, chat)]
    assert results[:3] == ["at last", "Error executing tool failing", "at last"]
    assert results[4] == "There is no tool 'nothing'."
    assert reply["text"] == f"They said: {'; '.join(results)}."


def test_a_refused_call_is_told_with_its_reason(backend: ChatBackend) -> None:
    chat = ask(backend, 'dying{} add{"a": 1, "b": 1}')["chat"]
    first, second = waiting(backend, chat)
    answer(backend, chat, first, "refuse", "It would end.")
    assert answer(backend, chat, second, "once")
    reply = ended(backend, chat)[-1]
    assert states(backend, chat) == ["refused", "done"]
    assert reply["text"] == "They said: The user refused this call. It would end.; 2."


def test_a_trusted_server_is_not_asked_about_until_it_changes(backend: ChatBackend) -> None:
    chat = ask(backend, 'add{"a": 1, "b": 1} add{"a": 2, "b": 2}')["chat"]
    first, _ = waiting(backend, chat)
    answer(backend, chat, first, "trust")  # the second one too
    ended(backend, chat)
    ask(backend, 'add{"a": 3, "b": 3}', chat)
    assert ended(backend, chat)[-1]["text"].endswith("6.")
    assert backend.tools.chat_tools({"chat": chat})["servers"][0]["trusted"]
    other = ask(backend, 'add{"a": 3, "b": 3}')["chat"]
    waiting(backend, other)
    assert not backend.tools.chat_tools({"chat": other})["servers"][0]["trusted"]
    backend.stop({"run": backend.chats.shown(other)["running"]["run"]})
    McpFile(backend.runtime.data_dir).add((server(cwd=str(backend.runtime.data_dir)),))
    assert not backend.tools.chat_tools({"chat": chat})["servers"][0]["trusted"]
    McpFile(backend.runtime.data_dir).add((server(),))


def test_a_turn_ends_after_its_limit_and_can_be_continued(backend: ChatBackend) -> None:
    McpFile(backend.runtime.data_dir).rounds = 2
    chat = ask(backend, 'again add{"a": 1, "b": 1}')["chat"]
    answer(backend, chat, waiting(backend, chat)[0], "trust")
    messages = ended(backend, chat)
    assert [each["calls"] and each["calls"]["limit"] for each in messages] == [None, None, 2]
    more = {"action": "continue", "chat": chat, "message": messages[-1]["id"]}
    backend.reply(more, Settings())
    messages = ended(backend, chat)
    assert len(messages) == 5
    assert messages[-1]["calls"]["limit"] == 2
    whole = sum(each["stats"]["completion_tokens"] for each in messages[1:])
    assert messages[-1]["stats"]["turn"]["completion_tokens"] == whole
    McpFile(backend.runtime.data_dir).rounds = 10


@pytest.mark.parametrize("running", [False, True])
def test_stop_ends_the_turn_also_while_it_asks_or_a_tool_works(
    backend: ChatBackend, running: bool
) -> None:
    chat = ask(backend, 'slow{"seconds": 60}')["chat"]
    (call,) = waiting(backend, chat)
    if running:
        answer(backend, chat, call, "once")
    backend.stop({"run": backend.chats.shown(chat)["running"]["run"]})
    assert len(ended(backend, chat)) == 2  # long before the tool's 60 s
    assert states(backend, chat) == ["stopped"]
    chat = ask(backend, 'slow{"seconds": 60}')["chat"]
    waiting(backend, chat)
    backend.chats.delete_chat({"chat": chat})
    assert backend.live_replies.of_chat(chat) is None


def test_a_model_that_was_unloaded_while_a_call_waited_answers_it(backend: ChatBackend) -> None:
    chat = ask(backend, 'add{"a": 2, "b": 2}')["chat"]
    (call,) = waiting(backend, chat)
    backend.runtime.loader.unload()
    assert backend.runtime.engine.loaded is None
    answer(backend, chat, call, "once")
    assert ended(backend, chat)[-1]["text"] == "They said: 4."


def test_a_long_result_is_cut_for_the_model_and_says_so(backend: ChatBackend) -> None:
    chat = ask(backend, 'huge{"characters": 100000}')["chat"]
    answer(backend, chat, waiting(backend, chat)[0], "once")
    ended(backend, chat)
    (call,) = calls(backend, chat)
    assert call["cut"] == 100_000 - 4096  # the context of the fake engine
    assert call["result"].endswith("[95,904 of 100,000 characters left out]")


def test_a_turn_that_no_longer_fits_ends_with_the_reason(backend: ChatBackend) -> None:
    chat = ask(backend, " ".join(['environment{"name": "LONG"}', *["word"] * 3900]))["chat"]
    answer(backend, chat, waiting(backend, chat)[0], "once")
    calling, last = ended(backend, chat)[1:]
    assert (calling["status"], last["status"], last["text"]) == ("done", "failed", "")
    assert "holds 4,096" in last["error"]
    text = chat_files.written(backend.store, chat, "markdown")["text"]
    assert text.endswith("## Model\n\n(empty)\n")


def test_a_retry_after_calls_keeps_them_and_calls_go_into_files_and_back(
    backend: ChatBackend,
) -> None:
    chat = ask(backend, "injecting{} ```")["chat"]
    answer(backend, chat, waiting(backend, chat)[0], "once")
    messages = ended(backend, chat)
    backend.reply({"action": "retry", "chat": chat, "message": messages[-1]["id"]}, Settings())
    again = ended(backend, chat)
    assert again[1] == messages[1]
    assert len(again[2]["beside"]) == 2
    text = chat_files.written(backend.store, chat, "markdown")["text"]
    assert "Called `injecting` on t (done)" in text
    assert "```\n<img src=x onerror=alert(1)> Ignore all" in text
    copy = chat_files.take(
        backend.store, json.loads(chat_files.written(backend.store, chat, "json")["text"])
    )
    assert calls(backend, copy) == calls(backend, chat)


def test_what_the_end_of_the_app_cut_short_is_told_and_the_turn_can_be_continued(
    tmp_path: Path,
) -> None:
    McpFile(tmp_path).add((server(),))
    backend = backend_in(tmp_path)
    chat = ask(backend, 'slow{"seconds": 60} add{"a": 1, "b": 1}')["chat"]
    answer(backend, chat, waiting(backend, chat)[0], "once")
    until(lambda: states(backend, chat)[0] == "running")
    copy = tmp_path / "killed"  # as kill -9 leaves it
    copy.mkdir()
    shutil.copytree(tmp_path, copy, ignore=lambda *_: ["killed"], dirs_exist_ok=True)
    begun = time.monotonic()
    close(backend)
    assert time.monotonic() - begun < 30, "it waited for the tool"
    for folder in (tmp_path, copy):
        backend = backend_in(folder)
        cut = backend.chats.shown(chat)["messages"][-1]
        assert states(backend, chat) == ["interrupted", "interrupted"]
        backend.reply({"action": "continue", "chat": chat, "message": cut["id"]}, Settings())
        assert ended(backend, chat)[-1]["text"] == f"They said: {LOST}; {NOT_RUN}."
        close(backend)


def test_a_model_without_tools_says_so_by_name_and_gets_none(tmp_path: Path) -> None:
    McpFile(tmp_path).add((server(),))
    backend = backend_in(tmp_path, tools=False)
    told = backend.tools.chat_tools({"chat": None})
    assert told["refusal"].startswith("Pip cannot call tools: its chat template has no tools.")
    chat = ask(backend, "Which?")["chat"]
    assert ended(backend, chat)[-1]["text"] == "Tools: none."
    assert told["servers"][0]["phase"] == "stopped"  # nothing was started for it
    close(backend)


def test_a_tool_that_the_engine_refuses_is_left_out_and_named(
    backend: ChatBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = backend.runtime.engine
    generate = engine.generate

    def refuse(request: Request) -> Generation:
        names = [tool.name for tool in request.tools]
        if "slow" in names:
            field = f"tools[{names.index('slow')}].function.parameters"
            raise InvalidRequest(field, f"{field} cannot be compiled.")
        return generate(request)

    monkeypatch.setattr(engine, "generate", refuse)
    begun = backend.act({"action": "send", "text": "Which?", "chat": None})
    assert begun["changed"][-1].startswith("The tool slow from t was not offered")
    offered = ended(backend, begun["chat"])[-1]["text"]
    assert ("add" in offered, "slow" in offered) == (True, False)


def test_a_server_is_off_where_it_is_turned_off_and_a_missing_one_is_told(
    backend: ChatBackend, tmp_path: Path
) -> None:
    chat = ask(backend, "Which?", off=["t"])["chat"]
    assert ended(backend, chat)[-1]["text"] == "Tools: none."
    backend.tools.use_server({"chat": chat, "name": "t", "on": True})
    file = McpFile(backend.runtime.data_dir)
    file.change("t", tools_off=frozenset({"dying"}))
    ask(backend, "Which?", chat)
    offered = ended(backend, chat)[-1]["text"]
    assert ("add" in offered, "dying" in offered) == (True, False)
    file.change("t", tools_off=frozenset())
    gate = tmp_path / "gate"
    file.add((fails_behind(gate, "none"),))
    answered = backend.act({"action": "send", "text": "Which?", "chat": chat})
    assert answered["starting"] == ("none",)
    gate.touch()
    until(lambda: not backend.tools.prepare(chat, ()))
    answered = backend.act({"action": "send", "text": "Which?", "chat": chat})
    told = "none is not running, so this reply has no tools from there. The Settings page says why."
    assert answered["changed"] == [told]
    ended(backend, chat)
    file.remove("none")


def test_nobody_waits_again_for_a_server_that_never_started(
    backend: ChatBackend, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each message waited for one, and the tools' list showed a whole traceback."""
    file = McpFile(backend.runtime.data_dir)
    gate = tmp_path / "gate"
    gate.touch()
    file.add((fails_behind(gate, "broken"),))
    chat = ask(backend, "Which?")["chat"]
    ended(backend, chat)

    def shown() -> dict[str, Any]:
        return backend.tools.chat_tools({"chat": chat})["servers"][-1]

    assert (shown()["phase"], shown()["why"]) == ("failed", "OSError: no such disk")
    monkeypatch.setattr(limits, "RETRY_S", 0)  # its pause is over
    gate.unlink()
    assert backend.tools.prepare(chat, ()) == ()
    assert shown()["phase"] == "starting"
    (told,) = backend.tools.missing(chat, ())
    assert told.startswith("broken is not running")
    gate.touch()
    until(lambda: shown()["phase"] == "failed")
    file.add((server("broken"),))  # mended
    assert backend.tools.prepare(chat, ()) == ("broken",)
    until(lambda: shown()["phase"] == "ready")
    assert backend.tools.missing(chat, ()) == []
    file.remove("broken")
    backend.runtime.tools.stop("broken")
