"""``foretoken chat`` without a prompt: lines typed into a terminal, played by a stream."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from app.cli.text import replies
from tests.app.cli.conftest import Foretoken, Result


class Keyboard(io.StringIO):
    """What is typed, as if into a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def typed(foretoken: Foretoken, model: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """``typed("Hello", "/exit")``: a chat with these lines, then Ctrl-D."""

    def run(*lines: str, words: tuple[object, ...] = ()) -> Result:
        monkeypatch.setattr("sys.stdin", Keyboard("".join(f"{line}\n" for line in lines)))
        return foretoken("chat", "--pair", model, "--max-tokens", 6, *words)

    return run


def test_each_line_is_answered_with_its_statistics_and_what_was_said_is_reused(typed: Any) -> None:
    """Without a prompt the command was an error."""
    result = typed("A cat", "", "A dog", words=("--json",))
    assert result.status == 0
    assert result.err.count("[N-gram: 6 tokens, ") == 2
    assert result.out.count("> ") == 4  # two lines, an empty one, Ctrl-D
    first, second = result.last_json["results"]
    assert second["prompt_tokens"] > first["prompt_tokens"]
    assert second["reused_tokens"] > 0


def test_clear_starts_anew_and_exit_ends(typed: Any) -> None:
    result = typed("A cat", "/clear", "A cat", "/exit", "A dog", words=("--json", "--system", "Be"))
    first, second = json.loads(result.out.rpartition("> ")[2])["results"]
    assert first["prompt_tokens"] == second["prompt_tokens"]
    assert first["token_ids"] == second["token_ids"]


def test_an_unknown_command_is_told_and_may_be_sent_as_text(typed: Any) -> None:
    """It went to the model."""
    result = typed("/help me", " /help me", "/tmp/a is a path", words=("--json",))
    assert result.out.count("There is no command /help.") == 1
    assert "put a space before it" in result.out
    assert len(result.last_json["results"]) == 2


def test_leaving_at_once_is_no_mistake(typed: Any) -> None:
    result = typed(words=("--json",))
    assert result.status == 0
    assert result.last_json["completion_tokens"] == 0


def test_a_refused_line_is_told_and_the_chat_goes_on(typed: Any) -> None:
    result = typed("A cat", "word " * 3000, "A dog", words=("--json",))
    assert result.status == 0
    assert "Shorten it by" in result.err
    assert len(result.last_json["results"]) == 2


def test_ctrl_c_stops_the_reply_and_not_the_chat(
    typed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, calls = replies.answer, []

    def answer(*arguments: Any) -> replies.Reply:
        calls.append(arguments)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return original(*arguments)

    monkeypatch.setattr(replies, "answer", answer)
    result = typed("A cat", "A dog")
    assert result.status == 0
    assert "Stopped." in result.out
    assert [message.content for message in calls[1][1].messages] == ["A dog"]


def test_without_a_terminal_all_of_standard_input_is_the_prompt(
    foretoken: Foretoken, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "Once upon a time,\nTom met a cat."
    words = ("--pair", model, "--max-tokens", 6, "--json")
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    piped = foretoken("chat", *words)
    assert "> " not in piped.out
    assert piped.last_json["token_ids"] == foretoken("chat", text, *words).last_json["token_ids"]
