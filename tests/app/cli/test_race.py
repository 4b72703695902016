"""``foretoken race``: what it prints, and what is told before anything is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.cli.race import _where_drafts_are, speculation
from engine.bench.race import Pair, Race
from engine.errors import InvalidRequest
from engine.loading.request import LoadRequest
from engine.machine import memory
from engine.request import Control
from engine.values.sampling import AcceptanceRule
from tests.app.cli.conftest import Foretoken
from tests.support.checkpoints import write_random
from tests.support.places import PIP

QUICK = ("--quantization", "fp32", "--no-native", "--device", "cpu", "--max-tokens", 8)


def test_a_race_prints_its_pairs_its_range_and_its_verdict(
    foretoken: Foretoken, model: Path, tmp_path: Path
) -> None:
    result = foretoken(
        *("race", "Once upon a time", "--pair", model, "--rival", "ngram,3", "--json"),
        *(*QUICK, "--data-dir", tmp_path),
    )
    assert result.status == 0, result.err
    value = result.last_json
    assert (value["base"], value["rival"]) == ("no drafting", "N-gram, depth 3")
    assert len(value["pairs"]) == 5 and value["level"] == 0.9375
    assert value["low"] <= value["median"] <= value["high"]
    assert value["verdict"] in result.out
    assert value["same_words"] and value["divergence"] is None
    assert "same text, token for token" in result.out
    assert ("Median" in result.out) != ("too busy" in value["verdict"])


def test_where_drafts_are_is_for_the_side_that_has_one(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    """--draft-device was refused, as if neither side had a draft."""
    target, draft = map(str, pair)
    plain = LoadRequest(target=target, draft="", draft_device="cpu"), "none"
    drafting = LoadRequest(target=target, draft=draft, draft_device="cpu"), "draft"
    both = _where_drafts_are(tmp_path, drafting, plain)
    assert [load.draft_device for load in both] == ["cpu", "auto"]
    neither = _where_drafts_are(tmp_path, plain, plain)  # refused later
    assert [load.draft_device for load in neither] == ["cpu", "cpu"]


def test_another_pair_is_raced_on_as_many_threads_and_in_the_same_weights(
    foretoken: Foretoken, pair: tuple[Path, Path], tmp_path: Path
) -> None:
    """It had the defaults, whatever was stated, and a verdict was told of two settings at once."""
    model, other = map(str, pair)
    load = LoadRequest(target=model, draft="", threads=1, quantization="fp32", native=False)
    assert load.alike(other) == LoadRequest(
        target=other, threads=1, quantization="fp32", native=False
    )
    result = foretoken(
        *("race", "Once", "--pair", model, "--rival", "ngram", "--base-pair", other, "--pairs", 1),
        *("--json", *QUICK, "--data-dir", tmp_path),
    )
    assert result.status == 0, result.err
    assert (result.last_json["base"], result.last_json["rival"]) == (
        f"{pair[1].name} (no drafting)",
        f"{pair[0].name} (N-gram, auto)",
    )


def test_a_set_is_raced_on_a_pair_a_prompt(
    foretoken: Foretoken, model: Path, tmp_path: Path
) -> None:
    result = foretoken(
        *("race", "--pair", model, "--rival", "ngram", "--prompts", "pip", "--per-kind", 1),
        *("--base", "suffix,2", "--pairs", 2, "--temperature", 0.8, "--base-acceptance", "block"),
        *("--json", *QUICK, "--data-dir", tmp_path),
    )
    assert result.status == 0, result.err
    value = result.last_json
    assert value["base"] == "Suffix, depth 2, block, temperature 0.8"
    assert [pair["prompt"] for pair in value["pairs"]] == [0, 1]
    assert not value["promises_words"]
    assert "2 of at least 5 runs" in value["verdict"]


def test_what_was_measured_is_told_when_it_is_interrupted(
    foretoken: Foretoken, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = Race._pair

    def until_the_third(race: Race, *asked: Any) -> Pair:
        if len(race.pairs) == 2:
            raise KeyboardInterrupt
        return given(race, *asked)

    monkeypatch.setattr(Race, "_pair", until_the_third)
    result = foretoken(
        *("race", "Once upon a time", "--pair", model, "--rival", "ngram,3", "--json"),
        *(*QUICK, "--data-dir", tmp_path),
    )
    assert result.status == 130
    assert len(result.last_json["pairs"]) == 2
    assert "2 of at least 5 runs" in result.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "Give either a prompt"),
        (("Hi", "--prompts", "pip"), "Give either a prompt"),
        (("Hi", "--rival", "ngram,deep"), "not a method"),
        (("Hi", "--rival", "ngram,16"), "depth is 16"),
        (("Hi", "--base-acceptance", "fair"), "acceptance is 'fair'"),
        (("Hi", "--temperature", 9), "temperature is 9"),
        (("--prompts", "absent.jsonl"), "absent.jsonl cannot be read"),
        (("--prompts", "chats"), "chats have no prompts"),
        (("Hi", "--base-pair", "qwem"), "no pair or model 'qwem'"),
        (("Hi", "--base-pair", f"{PIP / 'target'}::", "--base", "draft"), "needs a draft model"),
    ],
)
def test_mistakes_are_told_before_anything_is_loaded(
    foretoken: Foretoken,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[object, ...],
    message: str,
) -> None:
    """A base that does not exist was told of when the rival was in memory."""
    monkeypatch.delattr("app.cli.loading.compile_before")
    result = foretoken("race", *words, "--pair", model, *QUICK, "--data-dir", tmp_path)
    assert result.status == 2
    assert message in result.err


@pytest.mark.parametrize("base", ["none", "ngram"])
def test_a_draft_that_one_side_uses_is_loaded_for_both(
    foretoken: Foretoken, tmp_path: Path, base: str
) -> None:
    """The side that does not draft with it was checked alone: --draft-device had no use then."""
    write_random(tmp_path / "m" / "large", num_hidden_layers=12)
    write_random(tmp_path / "m" / "small", seed=2, num_hidden_layers=1)
    sides = ("--base", base, "--rival", "draft,2", "--draft-device", "cpu", "--temperature", 0)
    large = ("--pair", tmp_path / "m" / "large", "--data-dir", tmp_path / "data")
    result = foretoken("race", "Hi", *sides, *large, *QUICK, "--pairs", 1)
    assert result.status == 0, result.err
    assert result.err.count("small is loaded as the draft") == 1


def test_two_pairs_that_do_not_fit_at_once_are_refused_before_either_is_loaded(
    foretoken: Foretoken,
    pair: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second was refused once the first was in memory."""
    monkeypatch.delattr("app.cli.loading.compile_before")
    monkeypatch.setattr(memory, "free_bytes", lambda: 250_000_000)
    both = ("--pair", pair[0], "--base-pair", pair[1])
    result = foretoken("race", "Hi", *both, *QUICK, "--data-dir", tmp_path)
    assert result.status != 0
    assert "together need" in result.err and "250 MB are free" in result.err


def test_a_method_has_a_depth_or_finds_it() -> None:
    rule = AcceptanceRule.AUTO
    fixed, auto = speculation("draft, 4", rule), speculation("draft,auto", rule)
    assert fixed is not None and (fixed.depth, fixed.control) == (4, Control.FIXED)
    assert auto is not None and (auto.depth, auto.control) == (None, Control.AUTO)
    assert speculation(None, rule) is None
    with pytest.raises(InvalidRequest):
        speculation(",4", rule)
