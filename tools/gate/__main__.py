"""``python -m tools.gate [MODELS]``: what this checkout does to words, speed, memory and closeness.

Ten minutes on the real pair: MODELS is a folder that holds both files (default: FORETOKEN_REAL_MODELS),
or TARGET::DRAFT. The figures are shown beside those that were committed last, docs/results/gate.json, and
status 1 says that one got worse by more than its spread. Speeds of another day or machine compare badly:
``--against COMMIT`` measures that commit too, in turns with this checkout, and judges by the ratios.
Commit before: what is measured is the checkout as it is, and it is named after its commit. The last line
is JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from engine.errors import ForetokenError, InvalidRequest
from tools.gate import checkout, figures, report, suite
from tools.gate.figures import FIGURES, Run
from tools.gate.judge import Line, Verdict, compare
from tools.gate.machine import Calibration, others, this_machine
from tools.gate.side import PIP, PIP_TARGET, TIMED, Side, Size, Task, lines, task, write_reference
from tools.running import ROOT

TARGET = "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
DRAFT = "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
VARIABLE = "FORETOKEN_REAL_MODELS"


def main(arguments: Sequence[str] | None = None, size: Size | None = None) -> int:
    """Return 0 for nothing worse, 1 for something worse, 2 for a mistake that the message explains."""
    given = _parser().parse_args(arguments)
    try:
        asked = task(_pair(given.models), size or Size())
        tests = suite.read(given.tests) if given.tests else {}
        with tempfile.TemporaryDirectory(prefix="foretoken-gate-") as folder:
            runs = _measure(asked, given.against, given.repeats, Path(folder))
        now, before = runs[0], runs[1] if given.against else report.kept(given.file)
        now.add(tests or (suite.run() if given.with_tests else {}))
    except ForetokenError as error:
        print(f"tools.gate: {error}", file=sys.stderr)
        return 2
    in_turns = bool(given.against)
    found = compare(before, now, in_turns=in_turns) if before else _alone(now)
    print(report.text(found, before, now, in_turns=in_turns))
    if given.write:
        report.keep(now, given.file)
    print(json.dumps(report.as_json(found, before, now)))
    return int(any(line.verdict is Verdict.WORSE for line in found))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.gate", description=__doc__)
    parser.add_argument("models", nargs="?", default=os.environ.get(VARIABLE))
    parser.add_argument(
        "--against", metavar="COMMIT", help="measure it too, in turns with this one"
    )
    parser.add_argument("--repeats", type=int, default=5, help="of each time and speed; default 5")
    parser.add_argument("--write", action="store_true", help="keep the run as the committed one")
    tests = parser.add_mutually_exclusive_group()
    tests.add_argument("--tests", type=Path, metavar="FILE", help="what a run of the tests printed")
    tests.add_argument("--with-tests", action="store_true", help="run the tests: ten minutes more")
    parser.add_argument("--file", type=Path, default=report.FILE, help=argparse.SUPPRESS)
    return parser


def _pair(models: str | None) -> str:
    """Return TARGET::DRAFT by absolute paths. Raises InvalidRequest."""
    if models and "::" in models:
        return "::".join(str(Path(part).resolve()) for part in models.split("::"))
    found = [Path(models or ".").resolve() / name for name in (TARGET, DRAFT)]
    if not models or not all(file.is_file() for file in found):
        raise InvalidRequest(
            "models",
            f"{models or 'No folder'} holds no real pair. Name the folder of {TARGET} and {DRAFT}, as "
            f"an argument or by {VARIABLE}, or give TARGET::DRAFT.",
        )
    return "::".join(map(str, found))


def _measure(asked: Task, against: str | None, repeats: int, folder: Path) -> list[Run]:
    """Measure this checkout and the one of ``against``. Raises ForetokenError."""
    with contextlib.ExitStack() as stack:
        roots = [(checkout.commit_of() + ("+" if checkout.is_changed() else ""), ROOT)]
        if against:
            commit = checkout.commit_of(against)
            older = stack.enter_context(checkout.worktree(commit, folder / "older"))
            roots.append((commit, older))
        runs = [_empty(commit, asked) for commit, _ in roots]
        sides = []
        for number, (commit, root) in enumerate(roots):
            _say(f"starting {commit}")
            side = Side(root, asked, folder / f"side-{number}")
            sides.append(stack.enter_context(side))
        both = list(zip(sides, runs, strict=True))
        _repeat(both, repeats)
        if against and _suspicious(runs):
            _say("something looks worse: as many repeats again")
            _repeat(both, repeats)
        for side, run in both:
            run.add({figures.MEMORY: side.peak(), figures.LINES: lines(side.root)})
            _say(f"words, {run.commit}")
            run.add({figures.WORDS: side.differed + side.differing(asked.pair)})
            run.add({figures.PIP_WORDS: side.differing(PIP)})
        _closeness(both, asked, folder)
    return runs


def _repeat(both: Sequence[tuple[Side, Run]], repeats: int) -> None:
    """Let the sides take turns at each part of a repeat, another first each time."""
    calibration = Calibration()
    for repeat in range(repeats):
        busy, limits = others(), calibration.limits()
        for _, run in both:
            run.others.append(busy)
            for limit, value in limits.items():
                run.limits.setdefault(limit, []).append(value)
        for part in TIMED:
            for side, run in both if repeat % 2 == 0 else reversed(both):
                values = part(side)
                run.add(values)
                said = ", ".join(f"{name} {value:.4g}" for name, value in values.items())
                _say(f"repeat {repeat + 1} of {repeats}, {run.commit}: {said}")


def _closeness(both: Sequence[tuple[Side, Run]], asked: Task, folder: Path) -> None:
    """Compare each side's model, and Pip in its formats, with the files' own weights."""
    _say("closeness: the file's own weights in fp32")
    reference = write_reference(asked.case.target, folder / "target.pt")
    for side, run in both:
        run.add({figures.KL: side.closeness(asked.case.target, reference, "auto")})
    reference = write_reference(PIP_TARGET, folder / "pip.pt")
    for side, run in both:
        for name in asked.size.formats:
            run.add({f"{figures.KL}, Pip in {name}": side.closeness(PIP_TARGET, reference, name)})


def _suspicious(runs: Sequence[Run]) -> bool:
    now, before = runs
    return any(line.verdict is Verdict.WORSE for line in compare(before, now, in_turns=True))


def _empty(commit: str, asked: Task) -> Run:
    names = [file.name for file in (asked.case.target, asked.case.draft) if file]
    return Run(commit, datetime.now(UTC).date().isoformat(), "::".join(names), this_machine())


def _alone(now: Run) -> list[Line]:
    """Return the lines of a run that there is nothing to compare with."""
    return [
        Line(figure, (), now.figures.get(figure.name, ()), None, Verdict.UNKNOWN)
        for figure in FIGURES
    ]


def _say(text: str) -> None:
    """Say on standard error how far the run has come."""
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    # An end that cleans up: else the worktree of --against would stay.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
