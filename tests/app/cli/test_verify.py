"""``foretoken verify``: a table, a report, JSON as the last line, and a status that scripts can go by."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.drafting import proposers
from engine.drafting.resources import Resources
from engine.errors import InvalidRequest
from engine.local.engine import LocalEngine
from tests.app.cli.conftest import Foretoken
from tests.support.acceptance import accept_first
from tests.support.fixtures import gguf_pair
from tests.support.stand_ins import stand_in

__all__ = ["gguf_pair"]

SHORT = ("--max-tokens", 6, "--quantization", "fp32", "--prompt", "Hello there", "--json")


def test_equal_replies_are_a_table_and_status_0(
    foretoken: Foretoken, model: Path, tmp_path: Path
) -> None:
    page = tmp_path / "report.md"
    result = foretoken("verify", f"{model}::", *SHORT, "--report", page)
    assert result.status == 0, result.err
    assert "compared with" in result.out and "Weights in fp32" in result.out
    value = result.last_json
    assert value["differences"] == [] and value["prompts"] == ["Hello there"]
    known = proposers.available(Resources().loaded)
    assert {row["proposer"] for row in value["results"]} == set(known)
    assert all(row["replies"] and row["differ"] == 0 for row in value["results"])
    digest = value["facts"][f"SHA-256 of {model.name}/model.safetensors"]
    assert len(digest) == 64 and {"torch", "processor", "seed"} <= set(value["facts"])
    text = page.read_text(encoding="utf-8")
    assert digest in text and "```\nHello there\n```" in text
    assert str(tmp_path) not in text  # a path may name a person
    again = (
        f"foretoken verify {model.name}:: --max-tokens 6 --quantization fp32 --prompt 'Hello there'"
    )
    assert again in text and "depth at temperature 0, by prompt" in text
    assert "temperature 0.3 to 1.5" in result.out and "1 reply equal" in result.out
    total = sum(row["replies"] for row in value["results"])
    assert f"Weights in fp32: {total} of {total} replies" in result.err
    assert (
        f"All {total - 2} replies" in result.out and "equal to the 2 without drafting" in result.out
    )


def test_a_broken_rule_is_reported_with_status_1(
    foretoken: Foretoken, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes the first drafted token, right or wrong."""

    monkeypatch.setattr("engine.decoding.verifier.accept_matching", accept_first)
    monkeypatch.setattr("engine.bench.verify.comparison._TRUNCATIONS", ({},))
    page = tmp_path / "report.md"
    # The random model repeats itself, so n-grams find something to draft.
    asked = ("--prompt", "the fox the fox the crow", "--max-tokens", 24, "--report", page)
    result = foretoken("verify", f"{model}::", *asked, "--quantization", "fp32", "--json")
    assert result.status == 1, result.err
    assert "differ from those without drafting" in result.out
    assert "Without drafts it is" in result.out and "log probability" in result.out
    assert result.last_json["differences"][0]["first"]["expected"]["logprob"] < 0
    assert "differs first at token" in page.read_text(encoding="utf-8")


def test_ctrl_c_keeps_what_was_compared(
    foretoken: Foretoken, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generate, left = LocalEngine.generate, iter(range(5))

    def stopped(self: LocalEngine, request: object) -> object:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return generate(self, request)  # type: ignore[arg-type]

    monkeypatch.setattr(LocalEngine, "generate", stopped)
    result = foretoken("verify", f"{model}::", *SHORT)
    assert result.status == 130
    assert "stopped early" in result.out and "Weights in fp32" in result.out
    assert sum(row["replies"] for row in result.last_json["results"]) == 5
    assert "stopped early" in result.last_json["left_out"][0]
    result = foretoken("verify", f"{model}::", *SHORT)  # stopped at once: there is nothing to keep
    assert result.status == 130 and "Weights" not in result.out


def test_other_engines_differences_are_reported_and_do_not_count(
    foretoken: Foretoken,
    gguf_pair: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FAKE_DRAFTED", "[5, 9, 7, 1]")
    peer = stand_in(tmp_path / "peer", "llama-server")
    pair = "::".join(map(str, gguf_pair))
    quick = ("--quantization", "int8", "--prompt", "Hello", "--prompt", "Bye", "--max-tokens", 4)
    result = foretoken("verify", pair, *quick, "--llama-cpp", peer, "--json")
    assert result.status == 0, result.err
    value = result.last_json
    assert [(row["setting"], row["kept"], row["prompts"]) for row in value["peers"]] == [
        ("ngram-simple", 2, 2),
        ("draft, n 4", 0, 2),
        ("draft, n 16 while p > 0.75", 0, 2),
    ]
    first = value["peers"][1]["first"]
    assert (first["position"], first["expected"]["id"], first["found"]["id"]) == (1, 6, 9)
    assert value["facts"]["llama.cpp"] == "version: 7 (fake)"
    assert "llama.cpp, Q8_0, draft, n 4: prompt 1 differs first at token 2." in result.out


def test_a_peer_that_fails_is_told_and_does_not_count(
    foretoken: Foretoken,
    gguf_pair: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FAKE_REFUSES", "1")
    peer = stand_in(tmp_path / "peer", "llama-server")
    asked = (
        f"{gguf_pair[0]}::",
        "--quantization",
        "int8",
        "--prompt",
        "Hello",
        "--max-tokens",
        4,
    )
    result = foretoken("verify", *asked, "--llama-cpp", peer)
    assert result.status == 0, result.err
    assert "Not measured: llama.cpp plain" in result.out and "no room in the context" in result.out


def test_what_cannot_be_is_told_before_anything_is_loaded(
    foretoken: Foretoken, model: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"prompt": 3}\n')
    for words, reason in (
        (("--llama-cpp", tmp_path), "holds no llama-server"),
        (("--openvino", tmp_path), "is not a virtual environment"),
        (("--report", tmp_path / "file" / "page.md"), "Choose another --report"),
        (("--report", tmp_path / "absent" / "a.md"), "does not exist"),
        (("--prompts", broken), "line 1"),
        (("--prompts", tmp_path / "absent"), "cannot be read"),
        (("--prompt", "word " * 100_000), "exceeds the context"),
        (("--quantization", "q3"), "must be one of"),
        (("--count", 10**9), ""),
    ):
        result = foretoken("verify", f"{model}::", *words)
        assert result.status == 2 and reason in result.err, (words, result.err)
    assert not (tmp_path / "absent").exists()
    assert "is a server" in foretoken("verify", "http://127.0.0.1:9").err


def test_prompts_of_a_file_are_bounded_and_those_too_long_left_out(
    foretoken: Foretoken, model: Path, tmp_path: Path
) -> None:
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    lines = [
        {"messages": chat},
        {"turns": ["One", "Two"]},
        {"prompt": "x " * 50_000},
        {"prompt": "4"},
    ]
    file = tmp_path / "prompts.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    quick = ("--quantization", "fp32", "--max-tokens", 2, "--prompts", file, "--json")
    result = foretoken("verify", f"{model}::", *quick, "--count", 3)
    assert result.status == 0, result.err
    assert "3 of 4 prompts are used" in result.err
    assert result.last_json["prompts"] == ["Be brief.\n\nHi", "One"]
    assert "1 of 3 prompts are too long" in result.out


def test_what_the_model_lacks_is_told_where_it_was_asked_for(
    foretoken: Foretoken, adapted: Path
) -> None:
    result = foretoken("verify", f"{adapted}::", "--quantization", "int8")
    assert result.status == 2
    assert "runs through transformers" in result.err


def test_having_compared_nothing_is_no_success(
    foretoken: Foretoken, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mistake that has nothing to do with quantisation once left an empty table and status 0."""
    result = foretoken("verify", model, "--kv-cache-dtype", "fp8", "--device", "cpu")
    assert result.status == 2
    assert "--kv-cache-dtype is" in result.err

    def refuse(*_: object) -> None:
        why = "quantization is 'int8', but it has none of them. Choose auto."
        raise InvalidRequest("quantization", why)

    monkeypatch.setattr("app.cli.verify.open_here", refuse)
    result = foretoken("verify", model, "--prompt", "Hello")
    assert result.status == 2
    assert "Nothing was compared. Not compared in auto: it has none of them." in result.err
    assert "Choose" not in result.err
