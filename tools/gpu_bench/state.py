"""The results and the current part of a run in a file, for the next process if this one ends early."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tools.gpu_bench.budget import LeftOut
from tools.gpu_bench.clock import Times
from tools.gpu_bench.device import Facts
from tools.gpu_bench.kernels import KernelTime
from tools.gpu_bench.report import Report
from tools.gpu_bench.speed import Speed
from tools.gpu_bench.steps import Bits, Graphs, StepTime


@dataclass(frozen=True, slots=True)
class Part:
    """The current part, and its estimated seconds."""

    name: str
    estimate: float


@dataclass(frozen=True, slots=True)
class State:
    """The file, which may not exist yet. It is written atomically."""

    file: Path

    def report(self) -> Report | None:
        """Return the results so far; None at the start."""
        values = self._read().get("report")
        return None if values is None else report_of(values)

    def part(self) -> Part | None:
        """Return the current part; None between parts."""
        values = self._read().get("part")
        return None if values is None else Part(**values)

    def error(self) -> str | None:
        """Return why there is no run at all, for people; None if there is one."""
        error: str | None = self._read().get("error")
        return error

    def refuse(self, error: str) -> None:
        """Store why there is no run."""
        self._put({"error": error})

    def begin(self, report: Report, name: str, estimate: float) -> None:
        """Store that part ``name`` begins."""
        self._write(report, {"name": name, "estimate": estimate})

    def save(self, report: Report) -> None:
        """Store the results; the current part stays unless ``report`` lists it as done."""
        part = self._read().get("part")
        self._write(report, None if part and part["name"] in report.done else part)

    def _read(self) -> dict[str, Any]:
        try:
            values: dict[str, Any] = json.loads(self.file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        return values

    def _write(self, report: Report, part: dict[str, Any] | None) -> None:
        self._put({"report": report.as_json(), "part": part})

    def _put(self, values: dict[str, Any]) -> None:
        fresh = self.file.with_name(self.file.name + ".part")
        fresh.write_text(json.dumps({**self._read(), **values}), encoding="utf-8")
        os.replace(fresh, self.file)


def report_of(values: dict[str, Any]) -> Report:
    """Return the report from the values of ``Report.as_json``."""

    def times(one: dict[str, Any], key: str = "times") -> dict[str, Any]:
        return {**one, key: Times(**one[key])}

    known = {field.name: values[field.name] for field in fields(Report)}
    made = {
        "facts": Facts(**values["facts"]),
        "steps": [StepTime(**times(one)) for one in values["steps"]],
        "bits": [Bits(**one) for one in values["bits"]],
        "graphs": [Graphs(**one) for one in values["graphs"]],
        "speeds": [Speed(**times(one, "tokens_per_s")) for one in values["speeds"]],
        "kernels": [
            KernelTime(**{**times(one), "size": tuple(one["size"])}) for one in values["kernels"]
        ],
        "left_out": [LeftOut(**one) for one in values["left_out"]],
    }
    return Report(**{**known, **made})
