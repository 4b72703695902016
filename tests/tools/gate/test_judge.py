"""What counts as worse: beside a kept run, and in turns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.gate import figures, report
from tools.gate.figures import Limit, Machine, Run
from tools.gate.judge import Line, Verdict, compare

HERE = Machine("A processor", 2)
REPEATS = 5


def run(machine: Machine = HERE, bandwidth: float = 20.0, **values: list[float]) -> Run:
    """A run with these figures; underscores stand for spaces."""
    limits = {limit: [bandwidth] * REPEATS for limit in Limit}
    named = {name.replace("_", " "): found for name, found in values.items()}
    return Run("abc", "2026-11-23", "a::b", machine, limits, [0.0] * REPEATS, named)


def judged(before: Run, now: Run, *, in_turns: bool = False) -> dict[str, Line]:
    lines = compare(before, now, in_turns=in_turns)
    return {line.figure.name: line for line in lines if line.before}


def around(value: float, spread: float = 0.02) -> list[float]:
    return [value * (1 + spread * step / 2) for step in (-2, -1, 0, 1, 2)]


def test_a_time_is_worse_where_its_range_lies_beyond_the_other() -> None:
    before = run(first_token=around(4.0), plain=around(30.0))
    slower = run(first_token=around(4.4), plain=around(27.0))
    found = judged(before, slower)
    assert {line.verdict for line in found.values()} == {Verdict.WORSE}
    assert found["plain"].change == pytest.approx(30 / 27)
    back = judged(slower, before)
    assert {line.verdict for line in back.values()} == {Verdict.BETTER}
    within = run(first_token=around(4.2), plain=around(28.6))
    assert {line.verdict for line in judged(before, within).values()} == {Verdict.SAME}


def test_a_machine_that_reads_slower_today_makes_nothing_worse() -> None:
    before = run(plain=around(30.0), bandwidth=20.0)
    assert judged(before, run(plain=around(20.0)))["plain"].verdict is Verdict.WORSE
    throttled = judged(before, run(plain=around(20.0), bandwidth=13.3))["plain"]
    assert throttled.verdict is Verdict.SAME and throttled.change == pytest.approx(1, abs=0.01)


def test_speeds_of_another_processor_do_not_compare_and_words_do() -> None:
    values = {"replies_that_differ": [0.0], "plain": around(30.0), "peak_memory": [2000.0]}
    later = {"replies_that_differ": [1.0], "plain": around(10.0), "peak_memory": [2100.0]}
    before, now = run(**values), run(Machine("Another", 2), **later)
    found = {name: line.verdict for name, line in judged(before, now).items()}
    assert found == {
        figures.WORDS: Verdict.WORSE,
        figures.MEMORY: Verdict.WORSE,
        figures.PLAIN: Verdict.UNKNOWN,
    }
    said = report.text(compare(before, now), before, now, in_turns=False)
    assert "another machine (A processor, 2 cores)" in said and "--against abc" in said


def test_what_is_exact_may_move_within_its_slack() -> None:
    before = run(lines=[80_000.0], KL=[0.00180], tests=[600.0])
    same = judged(before, run(lines=[80_150.0], KL=[0.00182], tests=[640.0]))
    assert {line.verdict for line in same.values()} == {Verdict.SAME}
    worse = judged(before, run(lines=[80_250.0], KL=[0.00190], tests=[700.0]))
    assert {line.verdict for line in worse.values()} == {Verdict.WORSE}


def test_in_turns_ratios_count_and_a_drifting_machine_does_not() -> None:
    drift = [30.0, 12.0, 25.0, 8.0, 20.0]
    before = run(plain=drift, best_auto=[0.0])
    tenth_slower = run(plain=[speed * 0.9 for speed in drift])
    assert judged(before, tenth_slower)["plain"].verdict is Verdict.SAME  # drowned by the drift
    found = judged(before, tenth_slower, in_turns=True)["plain"]
    assert found.verdict is Verdict.WORSE and found.change == pytest.approx(1 / 0.9)
    mixed = run(
        plain=[
            speed * ratio for speed, ratio in zip(drift, (0.9, 1.02, 0.8, 0.9, 0.9), strict=True)
        ]
    )
    assert judged(before, mixed, in_turns=True)["plain"].verdict is Verdict.SAME
    few = judged(run(plain=[30.0] * 3), run(plain=[20.0] * 3), in_turns=True)
    assert few["plain"].verdict is Verdict.SAME  # three pairs show nothing


def test_a_run_is_kept_and_read_again_a_figure_a_line(tmp_path: Path) -> None:
    kept = run(plain=around(30.123456), lines=[78_725.0])
    report.keep(kept, tmp_path / "gate.json")
    text = (tmp_path / "gate.json").read_text()
    assert '  "lines": [78725.0]' in text.splitlines()
    again = report.kept(tmp_path / "gate.json")
    assert again is not None and again.machine == HERE and again.limits == kept.limits
    assert again.figures["plain"] == pytest.approx(kept.figures["plain"], rel=1e-4)
    assert report.kept(tmp_path / "missing.json") is None


def test_the_table_and_the_json_name_what_got_worse() -> None:
    before = run(plain=around(30.0), KL=[0.0018], lines=[100.0])
    now = run(plain=around(20.0), KL=[0.0018], lines=[100.0])
    lines = compare(before, now)
    said = report.text(lines, before, now, in_turns=False)
    (row,) = (line for line in said.splitlines() if line.startswith("plain"))
    assert row.split()[-2:] == ["1.500", "WORSE"] and "30.0 (29.4 to 30.6)" in row
    assert "Worse: plain." in said and "0.00180" in said
    value = json.loads(json.dumps(report.as_json(lines, before, now)))
    assert value["worse"] == ["plain"] and value["changes"]["lines"] == 1.0
    assert value["compared_with"] == "abc" and value["figures"]["KL"] == [0.0018]


def test_what_is_no_longer_measured_is_named() -> None:
    before, now = run(plain=around(30.0), tests=[600.0]), run(plain=around(30.0))
    said = report.text(compare(before, now), before, now, in_turns=False)
    assert "Not measured now, but before: tests." in said


def test_a_busy_machine_is_said() -> None:
    now = run(plain=around(20.0))
    now.others = [0.5] * REPEATS
    said = report.text(compare(now, now), now, now, in_turns=True)
    assert "other programs took 50% of the processors" in said and "trust no speed" in said
