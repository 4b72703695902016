"""Results as JSON for programs and as a page for people, both rewritten after every part."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from engine.values.units import format_bytes
from tools.gpu_bench import device
from tools.gpu_bench.budget import LeftOut
from tools.gpu_bench.expected import Check, checks
from tools.gpu_bench.kernels import KernelTime
from tools.gpu_bench.speed import Speed
from tools.gpu_bench.steps import Bits, Graphs, StepTime

REHEARSAL = (
    "**A rehearsal on a CPU, at tiny shapes: the run works. No figure here means anything.**"
)
SHOWN = (2, 4, 8, 16)
"""Row counts whose times the page compares with one row; the JSON has all."""
_COLUMNS = {
    "steps": ("model", "weights", "path", "1 row, ms", "80 % within", "of bandwidth",
              *(f"T({rows})/T(1)" for rows in SHOWN)),
    "kernels": ("model", "kernel", "weights", "size", "1 row, us", "of bandwidth",
                *(f"T({rows})/T(1)" for rows in SHOWN), "bits"),
    "speeds": ("model", "engine", "setting", "weights", "tok/s", "80 % within", "to plain",
               "accepted", "round, ms", "host's share", "words", "how"),
    "bits": ("model", "weights", "rows compared", "different"),
    "graphs": ("model", "weights", "of", "graphs", "seconds", "memory", ""),
}  # fmt: skip


@dataclass(slots=True)
class Report:
    """The results so far."""

    facts: device.Facts
    date: str
    minutes: float
    bandwidth: float = 0.0
    """Bytes a second."""
    steps: list[StepTime] = field(default_factory=list)
    bits: list[Bits] = field(default_factory=list)
    graphs: list[Graphs] = field(default_factory=list)
    speeds: list[Speed] = field(default_factory=list)
    kernels: list[KernelTime] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    """Parts that have ended, with or without a result."""
    seconds: float = 0.0
    finished: bool = False

    @property
    def checks(self) -> list[Check]:
        """Expectations and results; nothing is expected of a rehearsal."""
        if self.facts.kind == device.CPU:
            return []
        return checks(self.steps, self.bits, self.speeds)

    def as_json(self) -> dict[str, Any]:
        """Return all results; keys are the dataclasses' fields, times are seconds."""
        return {**asdict(self), "expected": [asdict(one) for one in self.checks]}

    def file(self, folder: Path) -> Path:
        """Return the path of the page in ``folder``; the JSON is beside it."""
        return folder / f"{self.facts.slug}-{self.date}.md"

    def write(self, folder: Path) -> Path:
        """Write both files into ``folder`` atomically; return the page's path."""
        folder.mkdir(parents=True, exist_ok=True)
        page = self.file(folder)
        _replace(page.with_suffix(".json"), json.dumps(self.as_json(), indent=1) + "\n")
        _replace(page, self.page())
        return page

    def summary(self) -> dict[str, Any]:
        """Return the values of the last line, for programs."""
        return {
            "device": self.facts.name,
            "bandwidth_gb_s": self.bandwidth / 1e9,
            "seconds": self.seconds,
            "expected": [asdict(one) for one in self.checks],
            "left_out": [asdict(one) for one in self.left_out],
        }

    def page(self, kernels: bool = True) -> str:
        """Return the page in Markdown; without ``kernels`` it is short enough for a terminal."""
        kernel_rows = _kernel_rows(self.kernels) if kernels else ()
        parts = [
            f"# {self.facts.name}, {self.date}",
            REHEARSAL if self.facts.kind == device.CPU else "",
            self._about(),
            _section("Expected and found", self._checks_table()),
            _section("Whole steps", _table(_COLUMNS["steps"], _step_rows(self.steps))),
            _section("Tokens a second", _table(_COLUMNS["speeds"], _speed_rows(self.speeds))),
            _section("Bits", _table(_COLUMNS["bits"], [
                (one.model, one.kind, f"{one.compared:,}", f"{one.different:,}") for one in self.bits
            ])),
            _section("Graphs", _table(_COLUMNS["graphs"], [
                (one.model, one.kind, one.what, str(one.count), f"{one.seconds:.2f}",
                 format_bytes(one.bytes), one.problem or "") for one in self.graphs
            ])),
            _section("Kernels", _table(_COLUMNS["kernels"], kernel_rows)),
            _section("Left out", "\n".join(f"- {one.part}: {one.reason}." for one in self.left_out)),
        ]  # fmt: skip
        return "\n\n".join(part for part in parts if part) + "\n"

    def _about(self) -> str:
        facts = self.facts
        memory = f"{format_bytes(facts.memory)} of memory free, " if facts.memory else ""
        capability = f"compute capability {facts.capability}, " if facts.capability else ""
        state = "" if self.finished else " **The run was not finished.**"
        return (
            f"{memory}{capability}torch {facts.torch}, triton {facts.triton}. Reading memory: "
            f"**{self.bandwidth / 1e9:,.0f} GB/s**. {self.seconds:.0f} s of {self.minutes:g} "
            f"minutes.{state}\n\n"
            "Random weights of real shapes, made on the device; heads stand apart from embeddings. "
            "Medians of CUDA's events after warm-up, row counts and engines in turns. Drafts have one "
            "layer, and weights that make them right at a set share of all tokens: their acceptance is "
            "simulated, their time is real. The host's share is a round's wall time less what its steps "
            "take alone."
        )

    def _checks_table(self) -> str:
        words = {True: "yes", False: "**no**", None: "not measured"}
        rows = [(one.expected, one.found, words[one.met]) for one in self.checks]
        return _table(("expected", "found", "met"), rows)


def _section(title: str, body: str) -> str:
    return f"## {title}\n\n{body}" if body else ""


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _step_rows(steps: Sequence[StepTime]) -> list[tuple[str, ...]]:
    lines = []
    for group in _grouped(steps, lambda one: (one.model, one.kind, one.path)):
        first, times = group[0], {one.rows: one.times.median for one in group}
        lines.append(
            (
                first.model, first.kind, first.path, f"{1e3 * first.times.median:.3f}",
                f"{1e3 * first.times.low:.3f} - {1e3 * first.times.high:.3f}", f"{first.share:.0%}",
                *_ratios(times),
            )
        )  # fmt: skip
    return lines


def _kernel_rows(kernels: Sequence[KernelTime]) -> list[tuple[str, ...]]:
    lines = []
    for group in _grouped(kernels, lambda one: (one.model, one.kernel, one.kind, one.size)):
        first, times = group[0], {one.rows: one.times.median for one in group}
        bits = "-" if first.equal is None else "equal"
        name = first.kernel if first.problem is None else f"{first.kernel} (no graph)"
        if any(one.equal is False for one in group):
            bits = "**differ**"
        lines.append(
            (
                first.model, name, first.kind, " x ".join(map(str, first.size)),
                f"{1e6 * first.times.median:.1f}", f"{first.share:.0%}", *_ratios(times), bits,
            )
        )  # fmt: skip
    return lines


def _speed_rows(speeds: Sequence[Speed]) -> list[tuple[str, ...]]:
    return [
        (
            one.model, one.engine, one.setting, one.kind, f"{one.tokens_per_s.median:,.1f}",
            f"{one.tokens_per_s.low:,.1f} - {one.tokens_per_s.high:,.1f}", f"{one.ratio:.2f}x",
            "-" if one.acceptance is None else f"{one.acceptance:.0%}",
            "-" if one.round_s is None else f"{1e3 * one.round_s:.3f}",
            "-" if one.host_share is None else f"{one.host_share:.0%}",
            "as made" if one.right else "**others**",
            "; ".join(filter(None, (one.source, one.detail))),
        )
        for one in speeds
    ]  # fmt: skip


def _ratios(times: dict[int, float]) -> list[str]:
    return [f"{times[rows] / times[1]:.2f}" if rows in times else "-" for rows in SHOWN]


def _grouped(items: Sequence[Any], key: Callable[[Any], object]) -> list[list[Any]]:
    """Group items by ``key``, in the order of its first occurrence; sort each group by rows."""
    groups: dict[object, list[Any]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return [sorted(group, key=lambda one: one.rows) for group in groups.values()]


def _replace(file: Path, text: str) -> None:
    """Write ``file`` so that a run that is killed never leaves half of it."""
    part = file.with_name(file.name + ".part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, file)
