"""The comparison measures what the app does: same engine, same events, equal words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.api import Engine
from engine.bench import sweep, verify_cost
from engine.bench.answering import answer
from engine.bench.prompts import ALL, Prompt
from engine.errors import ForetokenError
from engine.local.engine import LocalEngine
from engine.request import Request
from engine.values.sampling import AcceptanceRule
from tests.support.fake_engine import FakeEngine, Script
from tests.support.loading import request_for

PROMPTS = (Prompt("tale", ("a fox and a crow",)), Prompt("chat", ("hello there", "and again")))
SETTINGS = (sweep.Setting("draft", 3), sweep.Setting("ngram", 5))


@pytest.fixture(scope="module")
def engine(pair: tuple[Path, Path]) -> Iterator[LocalEngine]:
    with closing(LocalEngine()) as engine:
        engine.load(request_for(*pair))
        yield engine


def plan(temperature: float = 0.0, rule: AcceptanceRule = AcceptanceRule.AUTO) -> sweep.Plan:
    return sweep.Plan(
        SETTINGS,
        (temperature,),
        acceptance=rule,
        max_tokens=12,
        repeats=2,
    )


def compared(
    engine: Engine, plan: sweep.Plan, prompts: tuple[Prompt, ...] = PROMPTS, **more: Any
) -> tuple[sweep.Row, ...]:
    return sweep.run(engine, prompts, plan, **more).rows


def test_plain_decoding_alone_is_measured_too(engine: LocalEngine) -> None:
    rows = compared(engine, replace(plan(), settings=()))
    assert {row.proposer for row in rows} == {"none"}


def test_there_is_a_row_for_every_setting_and_kind_and_plain_is_the_measure(
    engine: LocalEngine,
) -> None:
    progress: list[tuple[int, int]] = []
    rows = compared(engine, plan(), on_progress=lambda done, total: progress.append((done, total)))
    names = ["none", "draft", "ngram"]
    assert [(row.prompt_kind, row.proposer) for row in rows] == [
        (kind, name) for kind in ("tale", "chat", ALL) for name in names
    ]
    assert progress[-1][0] == progress[-1][1] == len(progress)
    for row in rows:
        assert (row.speedup == 1.0) is (row.proposer == "none")
        assert row.identical is True


def test_words_stay_equal_at_a_temperature_under_coupling(engine: LocalEngine) -> None:
    assert all(row.identical for row in compared(engine, plan(0.9)))


def test_a_prompt_asked_again_is_drafted_as_at_first(engine: LocalEngine) -> None:
    """A proposer that remembered its own reply would be measured on it."""
    assert engine.loaded is not None
    for name in engine.loaded.capabilities.names:
        setting = sweep.Setting(name, 5)
        first, again = (answer(engine, PROMPTS[0], plan().way(setting, 0.0)) for _ in range(2))
        assert first.tokens == again.tokens
        assert first.statistics.drafted == again.statistics.drafted, name


def test_rejection_promises_no_equal_words(engine: LocalEngine) -> None:
    rows = compared(engine, plan(0.9, AcceptanceRule.REJECTION))
    assert {row.identical for row in rows} == {None}


def test_counts_of_all_prompts_are_the_sum_over_kinds(engine: LocalEngine) -> None:
    answers = [
        answer(engine, prompt, plan().way(sweep.Setting("ngram", 5), 0.0)) for prompt in PROMPTS
    ]
    total = answers[0].statistics + answers[1].statistics
    row = compared(engine, plan())[-1]
    assert row.proposer == "ngram"
    assert row.acceptance_rate == total.acceptance_rate
    assert row.mean_acceptance_length == total.mean_acceptance_length


def test_the_json_has_the_keys_scripts_rely_on(engine: LocalEngine) -> None:
    value = sweep.as_json(sweep.run(engine, PROMPTS[:1], plan()))
    keys = "proposer depth controller prompt_kind tokens_per_s speedup acceptance_rate identical"
    assert {*keys.split(), "mean_acceptance_length"} <= set(value["results"][0])


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
        compared(engine, plan())
