"""The comparison measures what the app does: same engine, same events, equal words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from engine.bench import compare, verify_cost
from engine.bench.answering import answer
from engine.bench.prompts import ALL, Prompt
from engine.errors import ForetokenError
from engine.fake import FakeEngine, Script
from engine.local.engine import LocalEngine
from engine.request import AcceptanceRule, Request, Sampling
from tests.support.loading import request_for

PROMPTS = (Prompt("tale", ("a fox and a crow",)), Prompt("chat", ("hello there", "and again")))
SETTINGS = (compare.Setting("draft", 3), compare.Setting("ngram", 5))


@pytest.fixture
def engine(pair: tuple[Path, Path]) -> Iterator[LocalEngine]:
    with closing(LocalEngine()) as engine:
        engine.load(request_for(*pair))
        yield engine


def plan(temperature: float = 0.0, rule: AcceptanceRule = AcceptanceRule.AUTO) -> compare.Plan:
    return compare.Plan(
        SETTINGS,
        Sampling(temperature=temperature, seed=1),
        acceptance=rule,
        max_tokens=12,
        repeats=2,
    )


def test_there_is_a_row_for_every_setting_and_kind_and_plain_is_the_measure(
    engine: LocalEngine,
) -> None:
    progress: list[tuple[int, int]] = []
    rows = compare.run(engine, PROMPTS, plan(), lambda done, total: progress.append((done, total)))
    names = ["none", "draft", "ngram"]
    assert [(row.prompt_kind, row.proposer) for row in rows] == [
        (kind, name) for kind in ("tale", "chat", ALL) for name in names
    ]
    assert progress == [(1, 2), (2, 2)]
    for row in rows:
        plain = next(r for r in rows if r.prompt_kind == row.prompt_kind)
        assert row.speedup == pytest.approx(row.tokens_per_s / plain.tokens_per_s)
        assert row.identical is True


def test_words_stay_equal_at_a_temperature_under_coupling(engine: LocalEngine) -> None:
    assert all(row.identical for row in compare.run(engine, PROMPTS, plan(0.9)))


def test_a_prompt_asked_again_is_drafted_as_at_first(engine: LocalEngine) -> None:
    """A proposer that remembered its own reply would be measured on it."""
    assert engine.loaded is not None
    for name in engine.loaded.capabilities.names:
        setting = compare.Setting(name, 5)
        first, again = (answer(engine, PROMPTS[0], plan().way(setting)) for _ in range(2))
        assert first.tokens == again.tokens
        assert first.statistics.drafted == again.statistics.drafted, name


def test_rejection_promises_no_equal_words(engine: LocalEngine) -> None:
    rows = compare.run(engine, PROMPTS, plan(0.9, AcceptanceRule.REJECTION))
    assert {row.identical for row in rows} == {None}


def test_counts_of_all_prompts_are_the_sum_over_kinds(engine: LocalEngine) -> None:
    answers = [
        answer(engine, prompt, plan().way(compare.Setting("ngram", 5))) for prompt in PROMPTS
    ]
    total = answers[0].statistics + answers[1].statistics
    row = compare.run(engine, PROMPTS, plan())[-1]
    assert row.proposer == "ngram"
    assert row.acceptance_rate == total.acceptance_rate
    assert row.mean_acceptance_length == total.mean_acceptance_length


def test_the_json_has_the_keys_scripts_rely_on(engine: LocalEngine) -> None:
    rows = compare.run(engine, PROMPTS[:1], plan())
    value = compare.as_json(rows, {1: 1.0, 2: 1.1})
    assert value["verify_cost"] == {"1": 1.0, "2": 1.1}
    assert set(value["results"][0]) == {
        "proposer",
        "depth",
        "controller",
        "prompt_kind",
        "tokens_per_s",
        "speedup",
        "acceptance_rate",
        "mean_acceptance_length",
        "identical",
    }


def test_verify_cost_is_relative_to_one_row(engine: LocalEngine) -> None:
    cost = engine.measure(lambda model: verify_cost.measure(model, (1, 4), repeats=3))
    assert cost[1] == 1.0
    assert cost[4] > 0


def test_a_failed_reply_is_an_error_with_the_engines_words(pair: tuple[Path, Path]) -> None:
    def failing(request: Request) -> Script:
        return Script((), failure="Memory ran out.")

    with (
        closing(FakeEngine(failing, loads=request_for(*pair))) as engine,
        pytest.raises(ForetokenError, match=r"^Memory ran out\.$"),
    ):
        compare.run(engine, PROMPTS, plan())
