"""``foretoken mcp`` and ``foretoken chat --mcp``: the user is asked in the terminal before a call."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.app.cli.conftest import Foretoken, Result
from tests.app.cli.test_interactive import Keyboard
from tests.support.calling import calling_engine
from tests.support.places import ROOT

TOOLS = {
    "command": sys.executable,
    "args": ["-m", "tests.support.tool_server"],
    "env": {"PYTHONPATH": str(ROOT)},
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    written = tmp_path / "servers.json"
    written.write_text(json.dumps({"mcpServers": {"t": TOOLS}}), encoding="utf-8")
    return written


def test_servers_are_listed_without_being_started_and_tested_by_being_started(
    foretoken: Foretoken, file: Path, tmp_path: Path
) -> None:
    assert foretoken("mcp", "list").out.startswith("No servers in ")
    listed = foretoken("mcp", "list", "--file", file)
    assert "tests.support.tool_server" in listed.out
    tested = foretoken("mcp", "test", "--file", file)
    assert (tested.status, "t: 9 tools" in tested.out) == (0, True)
    broken = tmp_path / "broken.json"
    broken.write_text('{"mcpServers": {"b": {"command": "no-such-program"}}}', encoding="utf-8")
    tested = foretoken("mcp", "test", "--file", broken, "--json")
    assert tested.status == 2
    assert json.loads(tested.out)[0]["why"].startswith("no-such-program was not found")
    assert "b failed" in tested.err


def test_a_server_cannot_steer_the_terminal(foretoken: Foretoken, chat: Any, file: Path) -> None:
    """Its escape sequences were written as they came, and its command could be disguised."""
    hostile = "import sys; sys.exit(chr(27) + '[2J')  # \x9b2J\u202e"
    server = {"command": sys.executable, "args": ["-c", hostile]}
    file.write_text(json.dumps({"mcpServers": {"b": server}}), encoding="utf-8")
    listed, tested = (foretoken("mcp", each, "--file", file) for each in ("list", "test"))
    for shown, words in (
        (listed.out, "# ?2J?"),
        (tested.out, "It said: ?[2J"),
        (chat("Hi").err, "It said: ?[2J"),
    ):
        assert words in shown and not set(shown) & set("\x1b\x9b\u202e")


@pytest.fixture
def chat(foretoken: Foretoken, file: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """``chat("question", typed="y\\n")``, answered by an engine that calls what the question names."""
    engine = calling_engine()
    opened = contextlib.nullcontext((engine, engine.loaded))
    monkeypatch.setattr("app.cli.chat.open_for_command", lambda *_: opened)

    def run(question: str, *words: object, typed: str | None = None) -> Result:
        monkeypatch.setattr("sys.stdin", io.StringIO() if typed is None else Keyboard(typed))
        return foretoken("chat", question, "--mcp", file, *words)

    return run


def test_a_call_is_asked_for_and_runs_or_not_as_the_user_says(chat: Any) -> None:
    asked = 'add{"a": 19, "b": 23} failing{}'
    said = chat(asked, "--json", typed="y\nno, thanks\n")
    assert 'add from t: {"a": 19, "b": 23}' in said.out
    assert "add (done, " in said.out
    replies = said.last_json["results"]
    assert len(replies) == 2
    assert replies[1]["text"] == "They said: 42; The user refused this call. no, thanks."
    assert said.last_json["completion_tokens"] == sum(r["completion_tokens"] for r in replies)
    alone = chat(asked, "--json")
    assert alone.status == 1  # the model must not read that as the user's word
    assert "add was not run: input is not a terminal" in alone.err
    assert alone.err.rstrip().endswith("with --mcp-trust t.")


def test_a_trusted_server_runs_until_the_limit_and_others_are_refused(chat: Any) -> None:
    looped = chat('again add{"a": 1, "b": 1}', "--mcp-trust", "t", "--json")
    assert len(looped.last_json["results"]) == 10
    assert "Stopped after 10 tool steps." in looped.out
    assert "has no server 'x'; it has t." in chat("Hi", "--mcp-trust", "x").err
    assert "--raw skips" in chat("Hi", "--raw").err
