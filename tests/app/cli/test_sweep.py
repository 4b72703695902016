"""``foretoken bench sweep``: what it prints, writes and keeps, and what is told before it starts."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from app.settings.defaults import Defaults, Winner
from engine.api import LoadRequest
from engine.local.engine import LocalEngine
from tests.app.cli.conftest import Foretoken
from tests.support.loading import request_for
from tests.support.model_server import Played, playing
from tests.support.recital import recite
from tests.support.remote import far_away

SHORT = ("--per-kind", 1, "--depths", "1,3", "--max-tokens", 6, "--repeats", 1)
QUICK = (*SHORT, "--quantization", "fp32", "--no-native", "--device", "cpu")


def test_a_sweep_prints_writes_and_keeps_a_default_that_is_used_shown_and_forgotten(
    foretoken: Foretoken, model: Path, tmp_path: Path
) -> None:
    out, data = tmp_path / "qwen2.5", ("--data-dir", tmp_path / "own")
    methods = ("--methods", "ngram,suffix", "--prompts", "random", "--temperature", 0)
    result = foretoken(
        *("bench", "sweep", "--pair", model, *methods, *QUICK, "--json", "--apply"),
        *("--temperature", 1.5, "--out", out, *data),
    )
    assert result.status == 0, result.err
    value = result.last_json
    assert {(row["proposer"], row["controller"], row["depth"]) for row in value["results"]} == {
        ("none", "fixed", 0),
        *((name, "fixed", depth) for name in ("ngram", "suffix") for depth in (1, 3)),
        *((name, "auto", 15) for name in ("ngram", "suffix")),
    }
    assert {row["temperature"] for row in value["results"]} == {0, 1.5}
    assert {row["prompt_kind"] for row in value["results"]} == {"random", "all"}
    assert value["divergences"] == 0
    assert "all equal to those without drafting, token for token; 0 divergences" in result.out
    written = json.loads((tmp_path / "qwen2.5.json").read_text())
    assert written["winners"] == value["winners"]
    assert "| method | depth |" in (tmp_path / "qwen2.5.md").read_text()
    assert (tmp_path / "qwen2.5.svg").is_file() or "matplotlib is not installed" in result.err

    (kept,) = Defaults(tmp_path / "own").all().values()
    assert kept.winner.proposer == value["winners"]["all"]["proposer"]
    shown = foretoken("models", "defaults", *data, "--json")
    assert f"Default of {kept.pair} in fp32: {kept}." in shown.out
    assert "  random: " in shown.out
    assert shown.last_json["defaults"][0]["winner"]["prompts"] == 1
    assert str(kept) in foretoken("models", "list", *data).out
    assert foretoken("models", "defaults", "", "--clear", *data).status == 2  # it deleted all
    assert "Deleted 1 measured default." in foretoken("models", "defaults", "--clear", *data).out
    assert "No measured defaults" in foretoken("models", "defaults", *data).out


def test_another_foretoken_is_swept_and_a_server_that_takes_no_depth_says_so(
    foretoken: Foretoken, tmp_path: Path
) -> None:
    """From the command line no server could be."""
    own, words = ("--data-dir", tmp_path / "own"), ("--methods", "ngram", *SHORT)
    with far_away(tmp_path / "far", recite) as far:
        far.load(LoadRequest(target="pip"))
        asked = ("bench", "sweep", "--pair", far.url, *words, "--no-auto", "--apply", "--json")
        result = foretoken(*asked, *own)
        assert result.status == 0, result.err
        rows = result.last_json["results"]
        assert {(row["proposer"], row["depth"]) for row in rows} == {
            ("none", 0),
            ("ngram", 1),
            ("ngram", 3),
        }
        assert {row["memory_bytes"] for row in rows} == {None}
        (kept,) = Defaults(tmp_path / "own").all().values()
        assert str(kept) in foretoken("chat", "plain", "--pair", far.url, *own).err
    with playing(Played()) as played:
        refused = foretoken("bench", "sweep", "--pair", played.url, *words, *own)
    assert refused.status == 2 and "decides how far it drafts" in refused.err


def test_a_chat_drafts_by_the_default_where_nothing_is_chosen_and_says_so(
    foretoken: Foretoken, model: Path, tmp_path: Path
) -> None:
    winner = Winner("suffix", "fixed", 3, 2.0, 9)
    with closing(LocalEngine()) as engine:
        loaded = engine.load(request_for(model, native=False))
    Defaults(tmp_path).keep(loaded, winner, {})
    words = ("chat", "Once upon a time", "--pair", model, "--max-tokens", 4, "--raw")
    words = (*words, "--no-native", "--data-dir", tmp_path)
    for chosen, drafts in (
        ((), "suffix"),
        (("--temperature", 0.5), "suffix"),
        (("--depth", 2), "ngram"),
        (("--controller", "auto"), "ngram"),
        (("--proposer", "none"), "none"),
    ):
        trace = tmp_path / "trace.jsonl"
        result = foretoken(*words, *chosen, "--trace", trace)
        assert result.status == 0, result.err
        events = [json.loads(line) for line in trace.read_text().splitlines()]
        (name,) = {event["proposer"] for event in events if "prompt_tokens" in event}
        assert name == drafts
        assert ("the default of this pair is Suffix, depth 3, 2.0x" in result.err) == (
            drafts == "suffix"
        )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--methods", "oracle"), "no method 'oracle'; choose from draft, ngram"),
        (("--methods", ","), "methods is empty"),
        (("--depths", "1,x"), "give numbers, such as 1,2,3,4,8"),
        (("--depths", "1,16"), "--depths is 16; it must be 1 to 15"),
        (("--temperature", 9), "temperature is 9"),
        (("--prompts", "absent.jsonl"), "absent.jsonl cannot be read"),
        (("--prompts", "spec_bench"), "github.com/hemingkx/Spec-Bench"),
        (("--out", "/dev/null/x"), "cannot be written"),
    ],
)
def test_mistakes_are_told(
    foretoken: Foretoken, model: Path, words: tuple[object, ...], message: str
) -> None:
    result = foretoken("bench", "sweep", "--pair", model, *QUICK, *words)
    assert result.status == 2
    assert message in result.err
    assert "Traceback" not in result.err


def test_spec_bench_is_read_from_where_the_message_says(
    foretoken: Foretoken, model: Path, tmp_path: Path
) -> None:
    (tmp_path / "spec_bench").mkdir()
    lines = [
        {"question_id": 1, "category": "writing", "turns": ["Write."]},
        {"question_id": 2, "category": "rag", "turns": ["Once upon a time there was " * 400]},
        {"question_id": 3, "category": "qa", "turns": ["Who?"]},
    ]
    file = tmp_path / "spec_bench" / "question.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = foretoken(
        *("bench", "sweep", "--pair", model, *QUICK, "--methods", "ngram", "--json"),
        *("--prompts", "spec_bench", "--data-dir", tmp_path, "--no-auto"),
    )
    assert result.status == 0, result.err
    assert result.last_json["left_out"] == {"rag": 1}
    assert "Skipped, because longer than the model's context: rag 1." in result.out
    kinds = {row["prompt_kind"] for row in result.last_json["results"]}
    assert kinds == {"conversation", "qa", "all"}
