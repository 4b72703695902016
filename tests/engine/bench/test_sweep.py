"""The sweep: fair beside plain decoding on a drifting machine, and honest about words and losses."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.bench import answering, sweep
from engine.bench.answering import Answer, Configuration, Stopped
from engine.bench.prompts import ALL, RANDOM, Prompt, noise
from engine.bench.reports import sweep as sweep_report
from engine.bench.sweep import Setting
from engine.errors import ContextExceeded, ForetokenError
from engine.local.engine import LocalEngine
from engine.request import PLAIN, Control
from engine.stats import Statistics
from engine.values import MAX_DEPTH
from engine.values.sampling import AcceptanceRule
from tests.support.loading import request_for

PROMPTS = (Prompt("tale", ("a fox and a crow",)), Prompt("chat", ("hello", "and again")))
TWO = (Setting("draft", 3), Setting("ngram", 5))


class Machine:
    """Answers without an engine: ``faster`` tells each setting's true speed-up.

    ``drift``: every reply takes so much longer than the one before.
    """

    def __init__(self, faster: dict[Setting, float], drift: float = 0.0) -> None:
        self.faster, self.drift = faster, drift
        self.asked: list[Setting] = []
        self.words: dict[Setting, tuple[int, ...]] = {}

    def answer(self, engine: Any, prompt: Prompt, way: Configuration, follow: Any = None) -> Answer:
        if "long" in prompt.turns:
            raise ContextExceeded(9000, 1024)
        asked = way.speculation
        setting = Setting(asked.proposer, asked.depth or 0, asked.control)
        if asked.proposer == PLAIN:
            setting = sweep.PLAIN_SETTING
        self.asked.append(setting)
        took = (1 + self.drift * len(self.asked)) / self.faster.get(setting, 1.0)
        statistics = Statistics(completion_tokens=10, rounds=5, accepted=5, decode_s=took)
        return Answer((self.words.get(setting, (1, 2, 3)),), statistics)


def swept(
    monkeypatch: pytest.MonkeyPatch,
    machine: Machine,
    plan: sweep.Plan,
    prompts: tuple[Prompt, ...] = PROMPTS,
) -> sweep.Result:
    monkeypatch.setattr(answering, "answer", machine.answer)
    return sweep.run(None, prompts, plan, lambda method: 7)  # type: ignore[arg-type]


def of(result: sweep.Result, setting: Setting, kind: str = ALL) -> sweep.Row:
    (row,) = (
        row
        for row in result.rows
        if (row.proposer, row.controller, row.depth, row.prompt_kind)
        == (setting.proposer, setting.controller, setting.depth, kind)
    )
    return row


def test_a_machine_that_slows_down_bends_no_speed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = tuple(sweep.settings(("draft", "ngram", "suffix"), (1, 2, 4)))
    faster = {setting: 0.5 + 0.2 * at for at, setting in enumerate(settings)}
    result = swept(monkeypatch, Machine(faster, drift=0.02), sweep.Plan(settings))
    for setting, expected in faster.items():
        assert of(result, setting).speedup == pytest.approx(expected, rel=0.03)
    assert of(result, sweep.PLAIN_SETTING).speedup == 1.0


def test_plain_decoding_stands_on_both_sides_of_every_two_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = tuple(sweep.settings(("draft", "ngram"), (1, 2)))
    machine = Machine({})
    swept(monkeypatch, machine, sweep.Plan(settings, repeats=4))
    names = "".join("p" if setting.proposer == PLAIN else "s" for setting in machine.asked)
    measured = names[len(PROMPTS) + len(settings) :]  # behind the trial of prompts and settings
    assert set(measured.replace("p", " ").split()) == {"ss"}
    assert machine.asked.count(settings[0]) == 1 + 4 * len(PROMPTS)


def test_of_two_repeats_the_slower_one_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was the faster one, which made every method look better than it is."""
    machine, speeds = Machine({}), iter((1.0, 2.0, 1.5))
    given = machine.answer

    def unsteady(engine: Any, prompt: Prompt, way: Configuration, follow: Any = None) -> Answer:
        if way.speculation.proposer != PLAIN:
            machine.faster[TWO[0]] = next(speeds)
        return given(engine, prompt, way, follow)

    monkeypatch.setattr(machine, "answer", unsteady)
    result = swept(monkeypatch, machine, sweep.Plan(TWO[:1], repeats=2), PROMPTS[:1])
    assert of(result, TWO[0]).speedup == 1.5


def test_the_order_turns_so_that_no_setting_is_always_behind_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine({})
    swept(monkeypatch, machine, sweep.Plan(TWO, repeats=4))
    drafting = [setting for setting in machine.asked if setting.proposer != PLAIN][2:]
    firsts = [drafting[at] for at in range(0, len(drafting), 2)]
    assert set(firsts) == set(TWO)


def test_other_words_are_counted_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine({})
    machine.words[TWO[1]] = (1, 2, 4)
    result = swept(monkeypatch, machine, sweep.Plan(TWO))
    assert (of(result, TWO[0]).divergences, of(result, TWO[1]).divergences) == (0, 2)
    assert result.divergences == 2
    assert "2 of 4 prompts gave other text. This is a bug" in sweep_report.divergences(result)
    machine.words.clear()
    sentence = sweep_report.divergences(swept(monkeypatch, machine, sweep.Plan(TWO)))
    assert "4 answers at temperature 0, all equal" in sentence and "0 divergences" in sentence


def test_rejection_promises_no_words(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine({})
    machine.words[TWO[1]] = (1, 2, 4)
    plan = sweep.Plan(TWO, (1.0,), AcceptanceRule.REJECTION)
    result = swept(monkeypatch, machine, plan)
    assert {row.divergences for row in result.rows} == {None}
    assert "keeps the target's distribution" in sweep_report.divergences(result)


def test_words_that_change_from_repeat_to_repeat_are_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine({})
    given = machine.answer

    def forgetful(*asked: Any) -> Answer:
        return replace(given(*asked), tokens=((len(machine.asked),),))

    monkeypatch.setattr(machine, "answer", forgetful)
    with pytest.raises(ForetokenError, match="different text"):
        swept(monkeypatch, machine, sweep.Plan(TWO))


def test_under_rejection_an_automatic_depth_may_give_other_words_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The words follow depths, and these follow measured times: it ended as "a bug of the engine"."""
    machine, auto = Machine({}), Setting("draft", MAX_DEPTH, Control.AUTO)
    given, changing = machine.answer, [Control.AUTO]

    def forgetful(engine: Any, prompt: Prompt, way: Configuration, follow: Any = None) -> Answer:
        made = given(engine, prompt, way, follow)
        changes = way.speculation.control is changing[-1]
        return replace(made, tokens=((len(machine.asked),),)) if changes else made

    monkeypatch.setattr(machine, "answer", forgetful)
    plan = sweep.Plan((auto, TWO[0]), (0.9,), AcceptanceRule.REJECTION)
    assert of(swept(monkeypatch, machine, plan), auto).divergences is None
    for changed in (Control.FIXED, Control.OFF):
        changing.append(changed)
        with pytest.raises(ForetokenError, match="different text"):
            swept(monkeypatch, machine, plan)


def test_prompts_that_are_too_long_are_left_out_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    long = Prompt("rag", ("long",))
    result = swept(monkeypatch, Machine({}), sweep.Plan(TWO), (*PROMPTS, long, long))
    assert result.left_out == {"rag": 2}
    assert "rag" not in result.kinds
    assert "rag 2" in sweep_report.left_out(result)
    with pytest.raises(ForetokenError, match="Choose shorter ones"):
        swept(monkeypatch, Machine({}), sweep.Plan(TWO), (long,))


def test_an_ended_sweep_keeps_the_prompts_that_every_setting_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine, told = Machine({TWO[0]: 2.0}), []
    given = machine.answer

    def until_told(*asked: Any) -> Answer:
        if told:
            raise Stopped
        return given(*asked)

    monkeypatch.setattr(answering, "answer", until_told)
    result = sweep.run(
        None,  # type: ignore[arg-type]
        PROMPTS,
        sweep.Plan(TWO),
        on_result=told.append,
    )
    assert result.stopped and not told[0].stopped
    assert result.rows == told[0].rows
    assert {row.prompts for row in result.rows} == {1}
    assert result.kinds == ("tale", ALL)
    assert of(result, TWO[0]).speedup == pytest.approx(2)
    assert sweep.winners(replace(result, rows=())) == {}


def test_the_winner_is_plain_decoding_where_nothing_is_faster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    auto = Setting("draft", MAX_DEPTH, Control.AUTO)
    settings = (Setting("draft", 1), Setting("draft", 4), auto)
    for speeds, expected in (
        ((0.9, 0.8, 0.99), sweep.PLAIN_SETTING),
        ((1.5, 2.0, 1.8), settings[1]),
        ((1.5, 2.0, 1.96), auto),  # within noise of the best, and it adapts
        ((0.5, 1.001, 0.999), settings[1]),
    ):
        machine = Machine(dict(zip(settings, speeds, strict=True)))
        best = sweep.winners(swept(monkeypatch, machine, sweep.Plan(settings)))
        assert set(best) == {"tale", "chat", ALL}
        won = best[ALL]
        assert Setting(won.proposer, won.depth, Control(won.controller)) == expected


def test_settings_are_every_method_at_every_depth_and_auto() -> None:
    made = sweep.settings(("suffix", "draft"), (1, 4))
    assert [(one.proposer, one.depth, one.controller) for one in made] == [
        ("suffix", 1, "fixed"),
        ("suffix", 4, "fixed"),
        ("suffix", MAX_DEPTH, "auto"),
        ("draft", 1, "fixed"),
        ("draft", 4, "fixed"),
        ("draft", MAX_DEPTH, "auto"),
    ]
    assert all(one.controller == "fixed" for one in sweep.settings(("draft",), (1,), auto=False))


@pytest.fixture(scope="module")
def engine(pair: tuple[Path, Path]) -> Iterator[LocalEngine]:
    with closing(LocalEngine()) as engine:
        engine.load(request_for(*pair))
        yield engine


def test_on_the_engine_words_are_equal_and_rows_are_whole(engine: LocalEngine) -> None:
    """Every method's words are tested elsewhere, over many more prompts."""
    assert engine.loaded is not None
    methods = ("ngram", "hybrid")
    plan = sweep.Plan(tuple(sweep.settings(methods, (2,))), (0.0, 1.5), max_tokens=6, repeats=1)
    progress: list[tuple[int, int]] = []
    prompts = [PROMPTS[1], *noise(engine.loaded.vocabulary, 1)]
    result = sweep.run(engine, prompts, plan, len, lambda *done: progress.append(done))
    assert progress == [(at, progress[-1][1]) for at in range(1, progress[-1][1] + 1)]
    assert result.divergences == 0
    assert result.kinds == ("chat", RANDOM, ALL)
    assert len(result.rows) == 2 * 3 * (1 + 2 * len(methods))
    for row in result.rows:
        assert row.tokens > 0 and row.speedup > 0
        assert row.memory_bytes == len(row.proposer)
        assert len(row.per_position) <= (2 if row.controller == "fixed" else MAX_DEPTH)
    page = sweep_report.markdown(result, "Title", {"pair": "random"})
    assert page.startswith("# Title\n") and "### random, 1 prompts" in page
    picture = ET.fromstring(sweep_report.chart(result, "Title"))
    drawn = picture.findall("{http://www.w3.org/2000/svg}rect")
    assert len(drawn) == len(result.rows) // 2  # of the first temperature
    value = sweep.as_json(result)
    assert set(value) == {"results", "winners", "left_out", "divergences"}
    assert set(value["winners"]) == set(result.kinds)
