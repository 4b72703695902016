"""Measure seconds on a device: by CUDA's events, and in graphs, without the host in between.

Without a GPU the host's clock times the same calls, so that a run can be tried.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import quantiles
from time import perf_counter

import torch

Call = Callable[[], object]
Spread = tuple[float, float, float]
WARM_UP = 3


def spread(values: Sequence[float]) -> Spread:
    """Return the median, and the limits of the middle eighty percent."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    tenths = quantiles(values, n=10, method="inclusive")
    return tenths[4], tenths[0], tenths[8]


class Clock:
    """Times calls on ``device``."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.cuda = device, device.type == "cuda"

    def wait(self) -> None:
        """Wait until the device has nothing left to do."""
        if self.cuda:
            torch.cuda.synchronize(self.device)

    def interleaved(self, calls: Mapping[int, Call], repeats: int) -> dict[int, Spread]:
        """Return the seconds of each, in turns to and fro, so that drift slows all alike."""
        for call in calls.values():
            for _ in range(WARM_UP if self.cuda else 1):
                call()
        self.wait()
        marks: dict[int, list[Callable[[], float]]] = {key: [] for key in calls}
        for repeat in range(repeats):
            for key in list(calls)[:: 1 if repeat % 2 == 0 else -1]:
                marks[key].append(self._mark(calls[key]))
        self.wait()
        return {key: spread([read() for read in reads]) for key, reads in marks.items()}

    def _mark(self, call: Call) -> Callable[[], float]:
        """Run ``call``; return a function that gives its seconds once the device has finished."""
        if not self.cuda:
            started = perf_counter()
            call()
            took = perf_counter() - started
            return lambda: took
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        call()
        last.record()
        return lambda: first.elapsed_time(last) / 1e3

    def capture(self, calls: Sequence[Call]) -> Call:
        """Return ``calls`` one after another as one graph; as they are without a GPU."""

        def all_of_them() -> None:
            for call in calls:
                call()

        all_of_them()  # compile kernels and fill caches
        if not self.cuda:
            return all_of_them
        self.wait()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            all_of_them()
        return graph.replay
