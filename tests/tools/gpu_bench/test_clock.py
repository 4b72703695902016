"""Turns, warm-up and spread."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from tests.support.places import ROOT
from tools.gpu_bench.clock import WARM_UP, Captured, Clock, Times

CPU = torch.device("cpu")


def test_calls_take_turns_forwards_and_backwards_after_each_was_warmed_up() -> None:
    """The first in a round would else always meet the device as the last one left it."""
    called: list[str] = []
    calls = {name: lambda name=name: called.append(name) for name in "abc"}
    times = Clock(CPU).interleaved(calls, 3)
    assert "".join(called) == "".join(name * WARM_UP for name in "abc") + "abc" + "cba" + "abc"
    assert set(times) == set("abc")


def test_the_spread_holds_eighty_percent() -> None:
    times = Times.of([float(value) for value in range(101)])
    assert (times.low, times.median, times.high) == (10, 50, 90)
    assert Times.of([2.0]) == Times(2.0, 2.0, 2.0)
    assert times.each(10) == Times(5.0, 1.0, 9.0)


def test_without_graphs_calls_run_one_after_another() -> None:
    called: list[int] = []
    captured = Clock(CPU).capture([lambda: called.append(1), lambda: called.append(2)])
    assert called == []
    captured.call()
    assert called == [1, 2]
    assert captured == Captured(captured.call)


on_device = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


class TestOnDevice:
    pytestmark = on_device

    def test_a_graph_does_what_was_captured(self) -> None:
        clock = Clock(torch.device("cuda"))
        x = torch.ones(1000, device="cuda")
        graph = clock.capture([lambda: x.add_(1)])
        assert graph.problem is None and graph.seconds > 0
        before = float(x[0])
        graph.call()
        assert float(x[0]) == before + 1
        clock.check()

    def test_what_waits_for_the_host_cannot_be_captured_and_that_is_told(self) -> None:
        """In a process of its own: there random numbers and freed memory are lost from then on."""
        code = """
import torch
from tools.gpu_bench.clock import Clock
clock = Clock(torch.device("cuda"))
x, stream = torch.ones(1000, device="cuda"), torch.cuda.current_stream()
waits = clock.capture([lambda: float(x.sum())])
assert waits.problem is not None
assert torch.cuda.current_stream() == stream
assert clock.time(waits.call, 3).median > 0
print("told", flush=True)
"""
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert "told" in done.stdout, done.stderr
