"""What a run has found and what it is at, in a file: a process that ends early leaves it to the next."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tools.gpu_bench.budget import LeftOut
from tools.gpu_bench.clock import Times
from tools.gpu_bench.device import Facts
from tools.gpu_bench.products import KernelTime
from tools.gpu_bench.report import Report
from tools.gpu_bench.speed import Speed
from tools.gpu_bench.steps import Bits, Graphs, StepTime


@dataclass(frozen=True, slots=True)
class Part:
    """What is under way, and the seconds that it was thought to take."""

    name: str
    estimate: float


@dataclass(frozen=True, slots=True)
class State:
    """The file; it need not be there yet. Written whole or not at all."""

    file: Path

    def report(self) -> Report | None:
        """What was found so far; None at the start."""
        held = self._read().get("report")
        return None if held is None else report_of(held)

    def part(self) -> Part | None:
        """What is under way; None between parts."""
        held = self._read().get("part")
        return None if held is None else Part(**held)

    def error(self) -> str | None:
        """Why there is no run at all, for people."""
        said: str | None = self._read().get("error")
        return said

    def refuse(self, error: str) -> None:
        """There is no run."""
        self._put({"error": error})

    def begin(self, report: Report, name: str, estimate: float) -> None:
        """``name`` begins."""
        self._write(report, {"name": name, "estimate": estimate})

    def keep(self, report: Report) -> None:
        """More was found; the part goes on, unless ``report`` counts it as done."""
        part = self._read().get("part")
        self._write(report, None if part and part["name"] in report.done else part)

    def _read(self) -> dict[str, Any]:
        try:
            held: dict[str, Any] = json.loads(self.file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        return held

    def _write(self, report: Report, part: dict[str, Any] | None) -> None:
        self._put({"report": report.as_json(), "part": part})

    def _put(self, held: dict[str, Any]) -> None:
        fresh = self.file.with_name(self.file.name + ".part")
        fresh.write_text(json.dumps({**self._read(), **held}), encoding="utf-8")
        os.replace(fresh, self.file)


def report_of(held: dict[str, Any]) -> Report:
    """What ``Report.as_json`` has written."""

    def times(one: dict[str, Any], key: str = "times") -> dict[str, Any]:
        return {**one, key: Times(**one[key])}

    known = {field.name: held[field.name] for field in fields(Report)}
    made = {
        "facts": Facts(**held["facts"]),
        "steps": [StepTime(**times(one)) for one in held["steps"]],
        "bits": [Bits(**one) for one in held["bits"]],
        "graphs": [Graphs(**one) for one in held["graphs"]],
        "speeds": [Speed(**times(one, "tokens_per_s")) for one in held["speeds"]],
        "kernels": [
            KernelTime(**{**times(one), "size": tuple(one["size"])}) for one in held["kernels"]
        ],
        "left_out": [LeftOut(**one) for one in held["left_out"]],
    }
    return Report(**{**known, **made})
