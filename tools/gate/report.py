"""The gate's table, its sentences, and the file that keeps a run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from app.cli.text.output import table
from tools.gate.figures import Figure, Limit, Run
from tools.gate.judge import Line, Verdict, alike
from tools.running import ROOT

FILE = ROOT / "docs" / "results" / "gate.json"
BUSY = 0.1
"""The share of the processors from which on other programs spoil speeds."""


def text(lines: Sequence[Line], before: Run | None, now: Run, *, in_turns: bool) -> str:
    """Return the table and what follows from it."""
    head = ("figure", "", before.commit if before else "before", now.commit, "change", "")
    rows = [
        (
            line.figure.name,
            line.figure.unit,
            _shown(line.figure, line.before),
            _shown(line.figure, line.now),
            "" if line.change is None else f"{line.change:.3f}",
            line.verdict.value,
        )
        for line in lines
        if line.before or line.now
    ]
    said = [table(head, rows, frozenset({2, 3, 4})), "", _conditions(now)]
    said.append("Change: times as costly as before, above 1 is worse.")
    if before is None:
        said.append("Nothing is committed to compare with. Keep this run with --write.")
    elif not in_turns:
        said += _comparability(before, now)
    missing = [line.figure.name for line in lines if line.before and not line.now]
    if missing:
        said.append(f"Not measured now, but before: {', '.join(missing)}.")
    worse = [line.figure.name for line in lines if line.verdict is Verdict.WORSE]
    said.append(
        f"Worse: {', '.join(worse)}." if worse else "Nothing got worse by more than its spread."
    )
    return "\n".join(said)


def as_json(lines: Sequence[Line], before: Run | None, now: Run) -> dict[str, Any]:
    """Return the stable keys that scripts rely on."""
    return {
        **now.as_json(),
        "compared_with": before.commit if before else None,
        "changes": {line.figure.name: line.change for line in lines if line.change is not None},
        "worse": [line.figure.name for line in lines if line.verdict is Verdict.WORSE],
    }


def keep(run: Run, file: Path = FILE) -> None:
    """Write a run, each figure on a line of its own, so that a difference shows which moved."""
    value = run.as_json()
    parts = [f' "{key}": {_nested(kept)}' for key, kept in value.items()]
    file.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def kept(file: Path = FILE) -> Run | None:
    """Return the run that was kept last; None where none was."""
    if not file.is_file():
        return None
    return Run.from_json(json.loads(file.read_text(encoding="utf-8")))


def _nested(value: Any) -> str:
    if not isinstance(value, dict):
        return json.dumps(_rounded(value))
    inner = [f'  "{key}": {json.dumps(_rounded(kept))}' for key, kept in value.items()]
    return "{\n" + ",\n".join(inner) + "\n }"


def _rounded(value: Any) -> Any:
    """Five digits: no measurement here has more."""
    return (
        [float(f"{one:.5g}") if isinstance(one, float) else one for one in value]
        if isinstance(value, list)
        else value
    )


def _shown(figure: Figure, values: Sequence[float]) -> str:
    """The median, and the range where there are several."""
    if not values:
        return "-"
    digits = ",.0f" if figure.slack < 0.01 else ".5f" if figure.unit == "nat" else ".1f"
    if figure.unit == "s":
        digits = ".2f"
    middle, low, high = (format(v, digits) for v in (median(values), min(values), max(values)))
    return middle if len(values) == 1 else f"{middle} ({low} to {high})"


def _conditions(run: Run) -> str:
    reading, computing = (median(run.limits.get(limit) or [0.0]) for limit in Limit)
    others = median(run.others or [0.0])
    said = (
        f"{run.machine.processor}, {run.machine.cores} cores, reads {reading:.1f} GB/s, computes "
        f"{computing:.0f} GFLOP/s; other programs took {others:.0%} of the processors."
    )
    if others > BUSY:
        said += " The machine was busy: trust no speed of this run."
    return said


def _comparability(before: Run, now: Run) -> list[str]:
    how = f"python -m tools.gate --against {before.commit} measures both here, in turns."
    if before.pair != now.pair:
        return [f"The kept run is of another pair ({before.pair}): only lines and tests compare."]
    if not alike(before, now):
        return [
            f"The kept run is of another machine ({before.machine.processor}, {before.machine.cores} "
            f"cores): its speeds do not compare. {how}"
        ]
    return [
        "Times were compared relative to what the machine read or computed beside them. "
        f"Before you believe that one got worse: {how}"
    ]
