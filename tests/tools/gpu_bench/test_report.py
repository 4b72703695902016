"""The page, the JSON, and what was expected."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tools.gpu_bench.budget import LeftOut
from tools.gpu_bench.clock import Times
from tools.gpu_bench.device import Facts
from tools.gpu_bench.expected import checks
from tools.gpu_bench.kernels import KernelTime
from tools.gpu_bench.report import Report
from tools.gpu_bench.speed import Speed
from tools.gpu_bench.steps import Bits, Graphs, StepTime

GPU = Facts("NVIDIA H200", "cuda", 140_000_000_000, "2.11", "3.6", "9.0")


def step(rows: int, ms: float, share: float, kind: str = "bf16") -> StepTime:
    times = Times(ms / 1e3, ms / 1e3, ms / 1e3)
    return StepTime("Llama-3.1-8B", kind, "CUDA kernels", rows, times, share)


def speed(setting: str, ratio: float, detail: str = "graphs", right: float | None = 0.8) -> Speed:
    return Speed(
        "Llama-3.1-8B", "foretoken", setting, "bf16", detail, "", Times(100, 90, 110), ratio, True,
        right, 0.7, 0.010, 0.0098,
    )  # fmt: skip


def report() -> Report:
    return Report(
        GPU, "2026-11-21", 5.0, 4.2e12,
        [step(1, 4.0, 0.83), step(8, 4.2, 0.8), step(1, 1.5, 0.7, "nf4"), step(8, 1.8, 0.6, "nf4")],
        [Bits("Llama-3.1-8B", "bf16", 544, 0)],
        [Graphs("Llama-3.1-8B", "bf16", "steps", 16, 0.5, 30_000_000, None)],
        [speed("plain", 1.0, right=None), speed("draft", 3.0)],
        [KernelTime("Llama-3.1-8B", "head", "nf4", (8, 4), 1, Times(1e-5, 1e-5, 1e-5), 0.9, True),
         KernelTime("Llama-3.1-8B", "head", "nf4", (8, 4), 8, Times(2e-5, 2e-5, 2e-5), 0.4, False)],
        [LeftOut("Qwen3-32B in bf16", "it would take some 40 s, and 12 s are left")],
    )  # fmt: skip


def test_what_was_expected_stands_beside_what_was_found() -> None:
    told = {one.expected: (one.found, one.met) for one in report().checks}
    assert told["T(8)/T(1) of a step at most 1.10"] == ("1.20", False)  # NF4's, the worst
    assert told["an 8B step in bf16 at 80% of bandwidth at least"] == ("83%", True)
    assert told["an 8B step in nf4 at 65% of bandwidth at least"] == ("70%", True)
    assert told["the host takes under 5% of a round"] == ("2%", True)
    assert told["0.8 right at depth 5: at least 2.8 x plain"] == ("3.00", True)
    assert told["bits equal without exception"] == ("0 rows differ", True)


def test_nothing_measured_is_nothing_met() -> None:
    assert {one.met for one in checks([], [], [])} == {None}


def test_one_row_that_differs_is_enough() -> None:
    (*_, last) = checks([], [Bits("m", "int8", 544, 1), Bits("m", "nf4", 544, 0)], [])
    assert (last.found, last.met) == ("1 rows differ", False)


def test_rounds_without_graphs_do_not_count_where_there_are_graphs() -> None:
    slow = speed("draft", 1.1, "CUDA kernels, depth 5, 0.8 right")
    told = checks([], [], [speed("draft", 3.0), slow])
    assert told[-2].found == "3.00"
    assert checks([], [], [slow])[-2].met is False


def test_both_files_are_written_whole_and_say_what_is_missing(tmp_path: Path) -> None:
    found = report()
    page = found.write(tmp_path / "docs")
    assert page.name == "nvidia-h200-2026-11-21.md"
    assert {file.suffix for file in page.parent.iterdir()} == {".md", ".json"}
    text = page.read_text()
    assert "**4,200 GB/s**" in text and "**The run was not finished.**" in text
    assert "| Llama-3.1-8B | nf4 | CUDA kernels | 1.500 | 1.500 - 1.500 | 70% |" in text
    assert "| 2.00 | - | **differ** |" in text
    assert "- Qwen3-32B in bf16: it would take some 40 s" in text
    held = json.loads(page.with_suffix(".json").read_text())
    assert held["steps"][1]["times"]["median"] == pytest.approx(0.0042)
    assert len(held["expected"]) == 6
    found.finished = True
    assert "not finished" not in found.write(tmp_path / "docs").read_text()
    assert "Kernels" not in found.page(kernels=False)


def test_the_last_line_is_short(tmp_path: Path) -> None:
    line = json.dumps(report().summary())
    assert len(line) < 2000
    assert json.loads(line)["bandwidth_gb_s"] == 4200


def test_a_rehearsal_says_so_and_expects_nothing(tmp_path: Path) -> None:
    found = replace(report(), facts=Facts("x86_64", "cpu", 0, "2.13", "none", ""))
    page = found.write(tmp_path)
    assert page.name == "cpu-rehearsal-2026-11-21.md"
    assert "No figure here means anything" in page.read_text()
    assert found.checks == []
