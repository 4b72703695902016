"""``foretoken bench``: tables, JSON as the last line, and a status that scripts can go by."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.bench import lossless
from engine.drafting import proposers
from engine.drafting.resources import Resources
from engine.errors import InvalidRequest
from tests.app.cli.conftest import Foretoken

SHORT = ("--prompts", 2, "--max-tokens", 6, "--quantization", "fp32", "--json")


def test_equal_words_are_a_table_and_status_0(foretoken: Foretoken, model: Path) -> None:
    result = foretoken("bench", "lossless", "--pair", model, *SHORT)
    assert result.status == 0, result.err
    assert "divergences" in result.out
    value = result.last_json
    assert value["divergences"] == []
    assert {(row["proposer"], row["rule"]) for row in value["results"]} == {
        (name, rule)
        for name in proposers.available(Resources().loaded)
        for rule in ("greedy", "coupled")
    }
    assert all(row["prompts"] == 2 and row["divergences"] == 0 for row in value["results"])


def test_clients_at_once_are_a_table_and_json(
    foretoken: Foretoken, model: Path, tmp_path: Path
) -> None:
    asked = ("bench", "load", "--pair", model, "--clients", 1, "--clients", 2, "--max-tokens", 4)
    result = foretoken(*asked, "--rounds", 1, "--json")
    assert result.status == 0, result.err
    assert "first, p95" in result.out
    rows = result.last_json["results"]
    assert [(row["clients"], row["tokens"]) for row in rows] == [(1, 4), (2, 8)]
    result = foretoken(*asked, "--llama-cpp", tmp_path)
    assert result.status == 2
    assert "holds no llama-server" in result.err


def test_a_divergence_is_printed_and_status_1(
    foretoken: Foretoken, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = lossless.Row("fp32", "ngram", "greedy", 2, 12, 4, 3, 1)
    differs = lossless.Divergence(
        "fp32", "ngram", "greedy", 5, 0.0, 77, "Hello there", 3, 40, 41, 2.5, 2.25
    )
    monkeypatch.setattr(lossless, "run", lambda *_, **__: ([row], [differs]))
    result = foretoken("bench", "lossless", "--pair", model, *SHORT)
    assert result.status == 1
    assert "Hello there" in result.out
    assert "token 3 of the reply: plain decoding wrote 40 (logit 2.5), ngram 41" in result.out
    assert result.last_json["divergences"][0]["seed"] == 77


def test_what_the_model_lacks_is_told_where_it_was_asked_for(
    foretoken: Foretoken, adapted: Path
) -> None:
    result = foretoken("bench", "lossless", "--pair", adapted, "--quantization", "int8")
    assert result.status == 2
    assert "runs through transformers" in result.err


def test_having_compared_nothing_is_no_success(
    foretoken: Foretoken, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mistake that has nothing to do with quantisation once left an empty table and status 0."""
    cached = ("--kv-cache-dtype", "fp8", "--device", "cpu")
    result = foretoken("bench", "lossless", "--pair", model, "--prompts", 2, *cached)
    assert result.status == 2
    assert "kv_cache_dtype" in result.err

    def refuse(*_: object) -> None:
        raise InvalidRequest("quantization", "It has none of them.")

    monkeypatch.setattr("app.cli.bench.lossless.open_here", refuse)
    result = foretoken("bench", "lossless", "--pair", model, "--prompts", 2)
    assert result.status == 2
    assert "Nothing was compared" in result.err
