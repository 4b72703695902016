"""The whole run, rehearsed on the CPU: parts, budget, failures, and files that are always there."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.errors import InvalidRequest, NotInstalled
from tools.gpu_bench import __main__ as command
from tools.gpu_bench import contest, device, run, shapes
from tools.gpu_bench.run import Options, Run

without_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
TINIEST = replace(
    shapes.REHEARSAL[0].shape, hidden=64, layers=1, heads=2, kv_heads=1, intermediate=64
)


def options(folder: Path, **given: Any) -> Options:
    return Options(**{"minutes": 5.0, "folder": folder, "device": "cpu", **given})


def test_a_rehearsal_measures_every_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contest, "PROMPT", 8)
    monkeypatch.setattr(shapes, "REHEARSAL", (shapes.Sizes("tiniest", TINIEST),))
    said: list[str] = []
    report = Run(options(tmp_path, kinds=("nf4",)), said.append)()
    assert said[:4] == [
        "read bandwidth", "tiniest in nf4", "nf4 kernels of tiniest", "attention of tiniest"
    ]  # fmt: skip
    assert report.finished and report.bandwidth > 0
    assert [one.part for one in report.left_out if one.part != "bitsandbytes"] == []
    assert [one.rows for one in report.steps] == list(range(1, 17))
    assert [one.different for one in report.bits] == [0]
    assert all(one.right for one in report.speeds) and len(report.speeds) == 3
    held = json.loads(report.file(tmp_path).with_suffix(".json").read_text())
    assert held["finished"] is True and len(held["kernels"]) >= 5 * 16 + 16


def work_of(monkeypatch: pytest.MonkeyPatch, work: Any) -> list[str]:
    """Replaces what parts do; the names of the models they were done for."""
    done: list[str] = []

    def model(self: Run, sizes: shapes.Sizes, kind: str, *_: bool) -> None:
        done.append(f"{sizes.name} {kind}")
        work(sizes, kind)

    monkeypatch.setattr(run.Run, "_model", model)
    for part in ("_linear", "_attention", "_bitsandbytes"):
        monkeypatch.setattr(run.Run, part, lambda self, *_: None)
    monkeypatch.setattr("tools.gpu_bench.rivals.why_no_bitsandbytes", lambda: None)
    monkeypatch.setattr(
        "engine.machine.device_memory.release", lambda: None
    )  # the tests' own objects are many
    return done


def test_the_largest_models_are_what_a_short_budget_leaves_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = work_of(monkeypatch, lambda sizes, kind: None)
    bench = Run(options(tmp_path))
    now = [0.0]
    bench.budget = run.Budget(5.5, lambda: now[0])
    monkeypatch.setattr(bench, "_bandwidth", lambda: None)
    sooner = run.Budget.run

    def a_second_each(estimate: float, part: Any) -> None:
        sooner(bench.budget, estimate, part)
        now[0] += 1.0

    monkeypatch.setattr(bench.budget, "run", a_second_each)
    report = bench()
    assert done == ["tiny-llama bf16", "tiny-llama int8", "tiny-llama nf4"]
    left = [one.part for one in report.left_out]
    assert left[-9:-6] == [f"tiny-qwen in {kind}" for kind in ("bf16", "int8", "nf4")]
    assert left[-3:] == [
        "attention of tiny-qwen", "bitsandbytes beside tiny-qwen",
        "tiny-qwen in bf16, with torch.compile",
    ]  # fmt: skip
    assert all("(--minutes)" in one.reason for one in report.left_out)


def test_a_part_that_fails_is_told_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(sizes: shapes.Sizes, kind: str) -> None:
        if kind == "int8":
            raise ValueError("a broken kernel\nand more")
        if kind == "nf4":
            raise torch.OutOfMemoryError("CUDA out of memory.")

    done = work_of(monkeypatch, fails)
    report = Run(options(tmp_path, models=("tiny-qwen",)))()
    assert done == [f"tiny-qwen {kind}" for kind in ("bf16", "int8", "nf4", "bf16")]
    assert {one.part: one.reason for one in report.left_out} == {
        "tiny-qwen in int8": "it failed: ValueError: a broken kernel",
        "tiny-qwen in nf4": "the GPU's memory ran out",
    }


@pytest.mark.exhaustive
def test_a_mistake_within_a_part_costs_no_other_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rivals that cannot be made, steps that cannot be timed: our speeds and bits are found."""

    def breaks(*_: object, **__: object) -> None:
        raise ValueError("an API that has changed")

    monkeypatch.setattr(contest, "PROMPT", 8)
    monkeypatch.setattr(shapes, "REHEARSAL", (shapes.Sizes("tiniest", TINIEST),))
    monkeypatch.setattr("tools.gpu_bench.rivals.transformers_model", breaks)
    monkeypatch.setattr(run, "time_steps", breaks)
    monkeypatch.setattr(run.Run, "_kernel_parts", lambda self, sizes: iter(()))
    report = Run(options(tmp_path, kinds=("bf16",)))()
    assert [one.part for one in report.left_out] == [
        "steps of tiniest in bf16",
        "rivals with tiniest in bf16",
        "steps of tiniest in bf16",
        "rivals with tiniest in bf16",
    ]  # the second time beside torch.compile
    assert report.finished and not report.steps
    assert [one.different for one in report.bits] == [0]
    assert len(report.speeds) == 4 and all(one.right for one in report.speeds)
    assert all(one.device_s is None for one in report.speeds)


def test_a_gpu_that_is_lost_ends_the_run_with_what_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost() -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    bench = Run(options(tmp_path))

    def fails(sizes: shapes.Sizes, kind: str) -> None:
        monkeypatch.setattr(bench.clock, "wait", lost)
        lost()

    done = work_of(monkeypatch, fails)
    report = bench()
    assert done == ["tiny-llama bf16"] and not report.finished
    assert [one.part for one in report.left_out] == ["tiny-llama in bf16", "all the rest"]
    assert "does not answer" in report.file(tmp_path).read_text()


def test_a_run_that_is_ended_leaves_what_it_had_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends(sizes: shapes.Sizes, kind: str) -> None:
        raise KeyboardInterrupt

    work_of(monkeypatch, ends)
    bench = Run(options(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        bench()
    text = bench.report.file(tmp_path).read_text()
    assert "**The run was not finished.**" in text and "GB/s" in text


def test_what_does_not_fit_on_the_gpu_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Judged by the sizes, before anything is made."""
    done = work_of(monkeypatch, lambda sizes, kind: None)
    bench = Run(options(tmp_path))
    bench.real, bench.models, bench.kinds = True, shapes.REAL, ["bf16", "nf4"]
    bench.report.bandwidth = 4e12
    monkeypatch.setattr(bench, "_bandwidth", lambda: None)
    monkeypatch.setattr("engine.machine.device_memory.gpu_free_bytes", lambda _: 24_000_000_000)
    reasons = {one.part: one.reason for one in bench().left_out}
    assert done == ["Llama-3.2-1B bf16", "Llama-3.2-1B nf4", "Llama-3.1-8B nf4",
                    "Qwen3-8B nf4", "Qwen3-32B nf4"]  # fmt: skip
    assert reasons["Llama-3.1-8B in bf16"] == "it needs 36.1 GB and 24.0 GB are free on the GPU"
    assert "Qwen3-32B in bf16" in reasons


@without_gpu
def test_without_a_gpu_the_reason_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(NotInstalled, match=r"There is no GPU to measure\..*--device cpu"):
        Run(options(tmp_path, device="cuda"))
    assert command.main(["--out", str(tmp_path)]) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith("foretoken: There is no GPU to measure.") and not shown.out
    assert not list(tmp_path.iterdir())


def test_mistakes_are_told_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="it must be cuda or cpu"):
        Run(options(tmp_path, device="tpu"))
    with pytest.raises(InvalidRequest, match="known here are tiny-llama, tiny-qwen"):
        Run(options(tmp_path, models=("Qwen3-8B",)))


@pytest.mark.parametrize(
    ("version", "there", "capability", "said"),
    [
        (None, False, (0, 0), "no CUDA support"),
        ("13.0", False, (0, 0), "built for CUDA 13.0, finds no device"),
        ("13.0", True, (7, 5), r"compute capability 7.5; the kernels need 8.0"),
    ],
)
def test_why_a_gpu_cannot_be_measured(
    version: str | None,
    there: bool,
    capability: tuple[int, int],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.version, "cuda", version)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda *_: "An old card")
    assert said in (device.why_not() or "")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_the_run_works_on_a_gpu_at_tiny_shapes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shapes, "REAL", shapes.REHEARSAL[:1])
    report = Run(options(tmp_path, device="cuda", minutes=3.0))()
    failed = [one for one in report.left_out if "failed" in one.reason]
    assert not failed, failed
    assert all(one.different == 0 for one in report.bits)
    assert all(one.right for one in report.speeds)
    assert all(one.equal is not False for one in report.kernels)
