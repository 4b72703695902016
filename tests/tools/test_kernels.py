"""The kernel bench: every kernel, every row count, and figures that follow from one another."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from engine.kernels.formats import FORMATS
from engine.kernels.torch.linear import is_row_independent
from tests.support.loading import load_model
from tools import kernels
from tools.kernels import KERNELS, Memory, Step, Timing


def test_every_quantisation_has_a_kernel_to_time() -> None:
    assert set(KERNELS) == set(FORMATS)


def test_what_is_timed_is_what_runs() -> None:
    known = kernels.kernels()
    for name in known.keys() - kernels.UNBOUND.keys():
        kernel, weight = known[name], torch.randn(96, 64)
        assert is_row_independent(kernel.make(weight), weight.to(kernel.inputs))


def test_times_and_bandwidth_belong_together() -> None:
    known = kernels.kernels()
    memory = Memory(1_000_000)
    seen: list[tuple[int, int]] = []
    timings = kernels.run(
        memory, [(64, 128)], (1, 3), repeats=1, on_progress=lambda *at: seen.append(at)
    )
    assert [(t.kernel, t.m) for t in timings] == [(name, m) for name in known for m in (1, 3)]
    for timing in timings:
        size = 64 * 128 * known[timing.kernel].bytes_per_weight
        assert timing.gb_s == pytest.approx(size / timing.ms / 1e6)
    assert seen[-1] == (len(known), len(known))
    assert memory.bandwidth(repeats=2) > 0


def test_steps_name_model_and_quantisation(pair: tuple[Path, Path]) -> None:
    steps = kernels.steps(load_model(pair[0], quantization="int8"), (1, 4), repeats=1)
    assert [(s.model, s.quantization, s.m) for s in steps] == [
        ("target", "int8", 1),
        ("target", "int8", 4),
    ]
    assert all(step.ms > 0 for step in steps)


def test_json_has_the_keys_that_programs_read() -> None:
    timing, step = Timing("int8", 64, 32, 4, 0.5, 1.5), Step("pip", "nf4", 2, 0.25)
    assert kernels.as_json([timing], 70.0, [step]) == {
        "results": [{"kernel": "int8", "n": 64, "k": 32, "m": 4, "ms": 0.5, "gb_s": 1.5}],
        "bandwidth_gb_s": 70.0,
        "step": [{"model": "pip", "quantization": "nf4", "m": 2, "ms": 0.25}],
    }
