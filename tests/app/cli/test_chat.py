"""``foretoken chat`` on a random, very small model."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.cli.text import output
from engine import trace
from engine.events import Decision, Emitted, Finished, Prefilled, Started
from engine.stats import Statistics, Tally
from tests.app.cli.conftest import Foretoken
from tests.support import documents as made
from tests.support.checkpoints import write_random
from tests.support.documents import written
from tests.support.heads import FakeShape, fit_medusa, write_medusa
from tests.support.places import PIP

STABLE_KEYS = {
    "text",
    "token_ids",
    "rounds",
    "drafted",
    "accepted",
    "acceptance_rate",
    "mean_acceptance_length",
    "shared",
    "tokens_per_s",
    "time_to_first_token_s",
}
TALE = ("Once upon a time, Tom met a cat. Once upon a time,", "--raw")


def test_text_and_statistics_are_printed(foretoken: Foretoken, model: Path) -> None:
    result = foretoken("chat", "Hi", "--pair", model, "--max-tokens", 12, "--thinking", "high")
    assert result.status == 0
    assert "no choice of thinking, so --thinking high is ignored" in result.err
    assert result.out.rstrip() and "tokens/s" not in result.out, "a file gets the text alone"
    statistics = result.err.rstrip().rsplit("\n", 1)[1]
    assert statistics.startswith("[N-gram: 12 tokens, ")
    assert "tokens/s" in statistics


def test_documents_go_with_the_first_message(
    foretoken: Foretoken, tmp_path: Path, traced: Path
) -> None:
    report = written(tmp_path, "report.pdf", made.pdf(["Once upon a time", *["word " * 900] * 3]))
    asked = ("--file", report, "--max-tokens", 2, "--trace", traced, "--thinking-budget", 5)
    result = foretoken("chat", "Sum it up.", "--pair", "pip", *asked)
    assert result.status == 0, result.err
    assert "this model marks no thoughts, so --thinking-budget has no use" in result.err
    assert "Note: pages 2-4 of report.pdf are left out" in result.err
    started = next(e for e in trace.read(traced.read_text().splitlines()) if isinstance(e, Started))
    assert 30 < len(started.prompt_tokens or ()) < 300
    ftp = ("ftp://127.0.0.1/x", "is not a web address")
    for wrong, told in ((tmp_path / "none.pdf", "cannot be read"), ftp, (traced, "")):
        result = foretoken("chat", "Hi", "--file", wrong, *(("--raw",) if not told else ()))
        assert result.status != 0
        assert (told or "--file needs a chat template") in result.err


@pytest.fixture
def traced(tmp_path: Path) -> Path:
    return tmp_path / "trace.jsonl"


def test_the_last_line_is_one_object_with_the_stable_keys(
    foretoken: Foretoken, model: Path
) -> None:
    result = foretoken("chat", *TALE, "--pair", model, "--max-tokens", 20, "--json")
    reply = result.last_json
    assert reply.keys() >= STABLE_KEYS
    assert len(reply["token_ids"]) == 20
    assert result.out.startswith(reply["text"])


def test_a_head_drafts_and_the_words_stay(
    foretoken: Foretoken, model: Path, tmp_path: Path
) -> None:
    head = fit_medusa(tmp_path / "medusa", model)
    common = (*TALE, "--pair", model, "--max-tokens", 20, "--json")
    drafted = foretoken("chat", *common, "--head", head, "--proposer", "medusa", "--depth", 3)
    assert "is a pickle" in drafted.err
    reply = drafted.last_json
    assert reply["drafted"] > 0
    plain = foretoken("chat", *common, "--proposer", "none").last_json
    assert reply["token_ids"] == plain["token_ids"]
    assert (reply["proposer"], plain["proposer"]) == ("medusa", "none")


def test_what_is_no_head_for_this_target_is_refused_in_words(
    foretoken: Foretoken, model: Path, tmp_path: Path
) -> None:
    itself = foretoken("chat", *TALE, "--pair", model, "--head", model)
    assert itself.status != 0 and "is not a supported head" in itself.err
    (tmp_path / "empty").mkdir()
    empty = foretoken("chat", *TALE, "--pair", model, "--head", tmp_path / "empty")
    assert empty.status != 0 and "is not a head: it has no config.json" in empty.err
    other = write_medusa(tmp_path / "medusa", FakeShape(hidden=48, vocabulary=50, layers=6))
    result = foretoken("chat", *TALE, "--pair", model, "--head", other)
    assert result.status != 0 and "another target" in result.err and "width 48" in result.err
    missing = foretoken("chat", *TALE, "--pair", model, "--proposer", "medusa")
    assert missing.status != 0 and "head of kind medusa" in missing.err
    assert "Traceback" not in itself.err + result.err + missing.err


@pytest.mark.parametrize("temperature", [0, 0.8])
def test_the_words_do_not_depend_on_the_proposer(
    foretoken: Foretoken, pair: tuple[Path, Path], temperature: float
) -> None:
    def reply(name: str, depth: int | None) -> dict[str, Any]:
        return foretoken(
            *("chat", *TALE, "--pair", f"{pair[0]}::{pair[1]}", "--max-tokens", 40, "--json"),
            *("--proposer", name, *(("--depth", depth) if depth else ())),
            *("--temperature", temperature, "--seed", 3),
        ).last_json

    plain, drafted = reply("none", None), reply("draft", 6)
    assert drafted["token_ids"] == plain["token_ids"]
    assert 0 < drafted["accepted"] < drafted["drafted"] and not plain["drafted"]


def test_a_draft_with_another_vocabulary_changes_no_word(foretoken: Foretoken, model: Path) -> None:
    asked = ("chat", "Tell me a tale of a cat.", "--max-tokens", 24, "--json", "--temperature", 0.8)
    pair = ("--pair", f"{PIP / 'target'}::{model}", "--seed", 3)
    plain = foretoken(*asked, *pair, "--proposer", "none").last_json
    across = foretoken(*asked, *pair, "--proposer", "draft", "--depth", 4)
    assert across.last_json["token_ids"] == plain["token_ids"]
    assert across.last_json["drafted"] > 0
    assert "different vocabulary" in across.err


def test_the_trace_holds_every_round(foretoken: Foretoken, model: Path, tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    result = foretoken(
        *("chat", *TALE, "--pair", model, "--max-tokens", 40, "--json"),
        *("--proposer", "ngram", "--depth", 5, "--trace", file),
    )
    reply = result.last_json
    with file.open(encoding="utf-8") as stream:
        events = list(trace.read(stream))
    assert isinstance(events[0], Started)
    assert isinstance(events[1], Prefilled)
    rounds = [event for event in events if isinstance(event, Emitted)]
    assert len(rounds) == reply["rounds"]
    assert sum(len(event.round.tree) for event in rounds) == reply["drafted"]
    assert sum(event.round.accepted for event in rounds) == reply["accepted"]
    assert [token.id for event in rounds for token in event.tokens] == reply["token_ids"]
    assert isinstance(events[-1], Finished)
    assert events[-1].text == reply["text"]
    tally = Tally()
    for event in events:
        tally.add(event)
    assert tally.statistics().tokens_per_s == reply["tokens_per_s"]


def test_prompts_come_from_a_file_and_turns_see_the_earlier_ones(
    foretoken: Foretoken, model: Path, tmp_path: Path
) -> None:
    file = tmp_path / "prompts.jsonl"
    lines = [{"prompt": "A cat"}, {"turns": ["A dog", "A bird"]}]
    file.write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    result = foretoken("chat", "--prompts", file, "--pair", model, "--max-tokens", 5, "--json")
    whole = result.last_json
    first, second, third = whole["results"]
    assert whole["rounds"] == first["rounds"] + second["rounds"] + third["rounds"]
    assert whole["token_ids"] == first["token_ids"] + second["token_ids"] + third["token_ids"]
    assert third["prompt_tokens"] > second["prompt_tokens"]
    assert third["reused_tokens"] > 0, "a second turn prefills only what is new"
    assert result.err.count(": 5 tokens, ") == 3


def test_a_prompt_comes_from_standard_input(
    foretoken: Foretoken, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--pair", model, "--max-tokens", 8, "--raw", "--json")
    monkeypatch.setattr("sys.stdin", io.StringIO(TALE[0]))
    assert (
        foretoken("chat", "-", *words).last_json["token_ids"]
        == foretoken("chat", TALE[0], *words).last_json["token_ids"]
    )


def test_a_stop_string_ends_the_reply(foretoken: Foretoken, model: Path) -> None:
    words = ("chat", *TALE, "--pair", model, "--max-tokens", 40, "--json")
    whole = foretoken(*words).last_json["text"]
    middle = whole[len(whole) // 2 :][:3]
    stopped = foretoken(*words, "--stop", middle).last_json["text"]
    assert stopped == whole[: whole.index(middle)]


def test_options_reach_the_proposer(foretoken: Foretoken, model: Path) -> None:
    def drafted(shortest: int) -> int:
        result = foretoken(
            *("chat", *TALE, "--pair", model, "--max-tokens", 30, "--json"),
            *("--proposer", "ngram", "--depth", 4, "--option", f"prompt_lookup_min={shortest}"),
            *("--option", "prompt-lookup-max=9"),
        )
        count: int = result.last_json["drafted"]
        return count

    assert drafted(1) > drafted(9)


def test_marks_show_what_was_drafted_without_losing_a_word(
    foretoken: Foretoken, model: Path
) -> None:
    words = ("chat", *TALE, "--pair", model, "--max-tokens", 40, "--depth", 4, "--json")
    result = foretoken(*words, "--proposer", "ngram", "--option", "prompt_lookup_min=1", "--marks")
    shown = result.out.rsplit("\n{", 1)[0]
    assert result.last_json["accepted"] == shown.count("[")
    rejected = result.last_json["drafted"] - result.last_json["accepted"]
    assert rejected > 0
    assert shown.count("~") == 2 * rejected


def test_styles_are_for_terminals_that_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    assert output.marks_for(Terminal()) is output.STYLED
    assert output.marks_for(io.StringIO()) is output.PLAIN
    monkeypatch.setenv("NO_COLOR", "1")
    assert output.marks_for(Terminal()) is output.PLAIN


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="sends a POSIX signal")
def test_ctrl_c_ends_with_130_and_no_traceback(model: Path, tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text(json.dumps({"prompt": "Once upon a time"}) + "\n")
    file.write_text(file.read_text() * 2000)
    command = [sys.executable, "-m", "app", "chat", "--prompts", str(file), "--raw"]
    process = subprocess.Popen(
        [*command, "--pair", str(model), "--data-dir", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in errors


def test_the_controller_tells_what_it_decided(foretoken: Foretoken, model: Path) -> None:
    for words, decides in (((), True), (("--depth", 3), False), (("--controller", "off"), False)):
        result = foretoken("chat", *TALE, "--pair", model, "--max-tokens", 20, "--json", *words)
        assert bool(result.last_json["decision"]) == decides


def test_the_line_after_a_reply_has_its_own_figures_and_no_forecast() -> None:
    """It said "2.8 tokens per round" beside a measured acceptance length of 1.44."""
    drafting = Decision(4, "drafting up to 4 tokens: 2.8 tokens per round", 0.3, 0.7)
    reply = Statistics(
        rounds=10,
        completion_tokens=14,
        drafted=20,
        accepted=4,
        decode_s=1.0,
        plain_s=0.1,
        decision=drafting,
    )
    said = output.summary(reply)
    assert "mean acceptance length 1.40" in said and "1.4x the speed without drafting" in said
    assert "2.8" not in said and "speed" not in output.summary(replace(reply, rounds=2))
    paused = replace(drafting, depth=0, why="drafting paused: it cannot be faster here")
    assert "paused" in output.summary(replace(reply, decision=paused))


def test_a_target_alone_is_loaded_with_the_draft_beside_it_and_with_the_context_that_is_stated(
    foretoken: Foretoken, tmp_path: Path
) -> None:
    write_random(tmp_path / "m" / "large", num_hidden_layers=12)
    write_random(tmp_path / "m" / "small", seed=2, num_hidden_layers=1)
    large = str(tmp_path / "m" / "large")
    words = ("chat", *TALE, "--max-tokens", 8, "--context", 64)
    told = foretoken(*words, "--pair", large, "--proposer", "draft", "--json")
    assert (told.status, told.last_json["drafted"] > 0) == (0, True)
    assert "Note: small is loaded as the draft" in told.err
    assert "The context is 64" not in told.err  # it was asked for
    without = foretoken(*words, "--pair", f"{large}::", "--proposer", "draft")
    assert without.status == 2 and "draft" in without.err
    full = foretoken("chat", "word " * 80, "--raw", "--context", 64, "--pair", large)
    assert full.status != 0 and "64" in full.err
