"""Engines in turns on one pair: who goes on, what is compared with what, what is said of it."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from engine.bench.prompts import ALL, read
from engine.bench.real import contest as contest_module
from engine.bench.real import summary
from engine.bench.real.case import SHIPPED
from engine.bench.real.contest import (
    Case,
    EncodedPrompt,
    Method,
    NotMeasured,
    Program,
    Reply,
    Result,
    Setting,
    Turn,
    run,
)
from engine.bench.real.report import Report
from engine.errors import PeerFailed

EOS = frozenset({1})
CASE = Case(Path("t.gguf"), Path("d.gguf"), EOS, (7,), 64, 8, 2)
PROMPTS = [EncodedPrompt("code", (5,)), EncodedPrompt("chat", (6, 6))]
PLAIN, DRAFT = Setting("plain", Method.PLAIN), Setting("draft", Method.DRAFT)


@dataclass
class Told:
    """A program that answers ``words`` at ``speeds``, one for each repeat, in every setting."""

    engine: str
    speeds: Mapping[Setting, Sequence[float]]
    words: Mapping[Setting, tuple[int, ...]] = field(default_factory=dict)
    variant: str = ""
    fails_in_repeat: int | None = None
    failure: BaseException = field(default_factory=lambda: PeerFailed("out of memory"))
    log: list[str] = field(default_factory=list)
    started: int = 0
    open: int = 0

    weights = "q4"
    settings = property(lambda self: tuple(self.speeds))

    @property
    def program(self) -> Program:
        return Program(self.engine, self.engine + self.variant, self.start)

    def start(self, case: Case, log: Path) -> Told:
        self.log.append(self.program.name)
        self.started, self.open = self.started + 1, self.open + 1
        return self

    def answer(self, setting: Setting, prompt: Sequence[int], limit: int) -> Reply:
        if self.fails_in_repeat == self.started - 1 and limit == CASE.limit:
            raise self.failure
        seconds = 10 / self.speeds[setting][self.started - 1]
        drafts = (8, 6, 2, 0.2) if setting.method is Method.DRAFT else (None,) * 4
        return Reply(self.words.get(setting, (3, 4, 1)), len(prompt), 0.5, 10, seconds, *drafts)

    def told(self, what: str) -> dict[str, Any]:
        told = {"steps": {"1": 0.1, "4": 0.13}, "reading": {"step_bytes": 2 * 10**9, "gb_s": 25.0}}
        return dict(told[what]) if self.engine == "ours" else {}

    def peak_bytes(self) -> int | None:
        return 1000 * self.started

    def close(self) -> None:
        self.open -= 1


def programs(*line_up: Told | NotMeasured) -> list[Program | NotMeasured]:
    return [one if isinstance(one, NotMeasured) else one.program for one in line_up]


def contest(*line_up: Told | NotMeasured, repeats: int = 2) -> Result:
    result = run(programs(*line_up), PROMPTS, CASE, repeats, Path())
    assert all(one.open == 0 for one in line_up if isinstance(one, Told))
    return result


def near(spread: summary.Spread, middle: float, low: float, high: float) -> bool:
    return (spread.median, spread.low, spread.high) == pytest.approx((middle, low, high))


def test_each_program_begins_a_repeat_in_turn_and_starts_anew_for_it() -> None:
    log: list[str] = []
    contest(*(Told(name, {PLAIN: (1, 1, 1)}, log=log) for name in "abc"), repeats=3)
    assert "".join(log) == "abcbcacab"


def test_slow_variants_of_a_method_sit_out_after_the_first_repeat() -> None:
    ours = Told("ours", {PLAIN: (10, 10), DRAFT: (5, 5)})  # slow, but in the process of its plain
    plain = Told("other", {PLAIN: (8, 8)}, variant=" plain")
    slow, fast = (
        Told("other", {Setting(f"n {n}", Method.DRAFT): (speed, speed)}, variant=f" {n}")
        for n, speed in ((2, 4), (4, 5))
    )
    contest(ours, plain, slow, fast)
    assert [one.started for one in (ours, plain, slow, fast)] == [2, 2, 1, 2]


def test_who_fails_later_has_no_figures_and_the_others_go_on() -> None:
    ours, other = Told("ours", {PLAIN: (1, 1)}), Told("other", {PLAIN: (1, 1)}, fails_in_repeat=1)
    missing = NotMeasured("third", "It is not here.")
    result = contest(ours, other, missing)
    assert {turn.engine for turn in result.turns} == {"ours"}
    assert [(one.name, one.reason) for one in result.absent] == [
        ("third", "It is not here."),
        ("other", "out of memory"),
    ]


def test_ratios_are_taken_within_a_repeat() -> None:
    """A machine that halves its speed between two repeats changes none of them."""
    ours = Told("ours", {PLAIN: (20, 10, 20), DRAFT: (60, 30, 62)})
    other = Told("other", {PLAIN: (10, 5, 10)})
    result = contest(ours, other, repeats=3)
    rows = {(row.engine, row.setting): row for row in summary.rows(result, EOS)}
    drafting = rows["ours", DRAFT]
    assert near(drafting.tokens_per_s[ALL], 60, 30, 62)
    assert drafting.speedup is not None and near(drafting.speedup, 3, 3, 3.1)
    assert (drafting.acceptance, drafting.length) == (0.75, 4.0)
    (lead,) = summary.leads(result, list(rows.values()), "ours")
    assert near(lead.ratio, 6, 6, 6.2)
    relative_costs = summary.relative_costs(result, "ours")
    assert relative_costs is not None and relative_costs.verify[4] == pytest.approx(1.3)
    assert relative_costs.draft == pytest.approx(0.2 / 8 / 0.1)
    assert relative_costs.step_gb_s == pytest.approx(20.0) and relative_costs.read_gb_s == 25.0


def test_words_are_those_of_the_same_engines_plain_decoding() -> None:
    same, other = {PLAIN: (3, 4, 1), DRAFT: (3, 4)}, {PLAIN: (3, 9, 1), DRAFT: (3, 4, 1)}
    speeds = {PLAIN: (1, 1), DRAFT: (1, 1)}
    result = contest(Told("ours", speeds, same), Told("other", speeds, other))
    differ = {(row.engine, row.setting.name): row.differ for row in summary.rows(result, EOS)}
    # Up to the token that ends the reply: some return it and some do not.
    assert differ["ours", "draft"] == 0
    assert differ["other", "draft"] == 2
    said = Report(result, "ours", EOS).headlines()
    changed = "other (draft, q4) wrote other text than without drafting"
    assert any(changed in sentence for sentence in said)


def test_the_report_says_who_is_ahead_and_the_chart_shows_the_same_figures() -> None:
    ours = Told("ours", {PLAIN: (10, 10), DRAFT: (15, 17)})
    other = Told("other", {PLAIN: (32, 32)})
    report = Report(contest(ours, other), "ours", EOS)
    assert "other is ahead" in report.headlines()[0]
    page = report.markdown("A pair", {"machine": "two cores"})
    assert "| draft model | **16.0 (15.0 to 17.0)** draft |  |" in page
    assert "| ours | q4 | with the draft |" in page and "T_draft / T_verify(1): 0.25" in page
    value = json.loads(json.dumps({"title": "A pair & more", **report.as_json()}))
    assert value["leads"][0]["ratio"]["median"] == pytest.approx(0.5)
    assert len(value["records"]) == 2 * 2 * 3  # prompts, repeats, settings
    picture = report.chart("A pair & more")
    texts = [node.text for node in ET.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")]
    assert "A pair & more" in texts and "16.0" in texts and "32.0" in texts


def test_the_shipped_prompts_are_of_four_kinds_and_one_edits_sixty_lines() -> None:
    prompts = read(SHIPPED)
    assert len(prompts) >= 7
    assert {prompt.kind for prompt in prompts} == {"code", "chat", "json", "rewrite"}
    edits = [prompt.turns[0] for prompt in prompts if prompt.kind == "rewrite"]
    assert max(text.partition("```python\n")[2].count("\n") for text in edits) >= 60


def test_each_turn_is_told_as_soon_as_it_is_over() -> None:
    """Ten minutes passed without a word."""
    log: list[str] = []
    ours = Told("ours", {PLAIN: (10, 10)}, log=log)
    broken = Told("broken", {PLAIN: (5,)}, log=log, fails_in_repeat=0)

    def told(turn: Turn | NotMeasured) -> None:
        log.append(f"-{turn.name if isinstance(turn, NotMeasured) else turn.engine}")

    run(programs(ours, broken), PROMPTS, CASE, 2, Path(), on_turn=told)
    assert log == ["ours", "-ours", "broken", "-broken", "ours", "-ours"]


def test_no_turn_begins_that_would_end_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each turn takes ten seconds of a clock that starts alone move."""
    now = 0.0
    monkeypatch.setattr(contest_module, "perf_counter", lambda: now)

    class Slow(Told):
        def start(self, case: Case, log: Path) -> Told:
            nonlocal now
            now += 10
            return super().start(case, log)

    line_up = [Slow("ours", {PLAIN: (9,) * 3})]
    line_up += [Slow("theirs", {PLAIN: (9,) * 3}, variant=f" {number}") for number in range(3)]
    result = run(programs(*line_up), PROMPTS, CASE, 3, Path(), seconds=35)
    assert [one.started for one in line_up] == [1, 1, 1, 0]
    for one in line_up:
        one.started = 0
    result = run(programs(*line_up), PROMPTS, CASE, 3, Path(), seconds=5)
    assert [one.started for one in line_up] == [1, 1, 0, 0]  # else nothing would be compared
    absent = result.absent[-1]
    assert absent.name == "theirs 2" and "--minutes" in absent.reason
    theirs = Slow("theirs", {PLAIN: (9,) * 3}), Slow("theirs", {PLAIN: (8,) * 3}, variant=" near")
    for seconds, turns in ((95, [3, 3, 3]), (55, [2, 2, 1]), (45, [1, 1, 1])):
        line_up = [Slow("ours", {PLAIN: (9,) * 3}), *theirs]
        for one in line_up:
            one.started = 0
        run(programs(*line_up), PROMPTS, CASE, 3, Path(), seconds=seconds)
        assert [one.started for one in line_up] == turns, seconds  # whole repeats, or none


def test_a_run_that_is_ended_tells_what_it_has_measured() -> None:
    """Half an hour of turns was lost with the last of them."""
    ours = Told("ours", {PLAIN: (10.0, 10.0)})
    theirs = Told("theirs", {PLAIN: (5.0, 5.0)}, fails_in_repeat=0, failure=KeyboardInterrupt())
    result = contest(ours, theirs)
    assert {turn.engine for turn in result.turns} == {"ours"}
    assert [(one.name, "was stopped" in one.reason) for one in result.absent] == [("theirs", True)]
    later = Told("theirs", {PLAIN: (5.0, 5.0)}, fails_in_repeat=1, failure=KeyboardInterrupt())
    result = contest(Told("ours", {PLAIN: (10.0, 10.0)}), later)
    assert sum(len(turn.answers) for turn in result.turns) == 2 * len(PROMPTS) and not result.absent
    with pytest.raises(KeyboardInterrupt):
        contest(Told("ours", {PLAIN: (1.0,)}, fails_in_repeat=0, failure=KeyboardInterrupt()))
