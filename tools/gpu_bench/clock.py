"""Measure seconds on a device: by CUDA's events, and in graphs, without the host in between.

A CPU has neither; there the host's clock times the same calls, so that a run can be tried.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import quantiles
from time import perf_counter
from typing import TypeVar

import torch

Call = Callable[[], object]
Key = TypeVar("Key", bound=Hashable)

WARM_UP = 3


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds: the median; the middle eighty percent lie between ``low`` and ``high``."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Times:
        if len(seconds) == 1:
            return cls(seconds[0], seconds[0], seconds[0])
        tenths = quantiles(seconds, n=10, method="inclusive")
        return cls(tenths[4], tenths[0], tenths[8])

    def each(self, count: int) -> Times:
        """Return the times of one of ``count`` equal calls."""
        return Times(self.median / count, self.low / count, self.high / count)


@dataclass(frozen=True, slots=True)
class Captured:
    """Calls as one graph: ``call`` replays it. Capturing took ``seconds`` and ``bytes``.

    ``problem``: why a capture failed; ``call`` then launches one by one.
    """

    call: Call
    seconds: float = 0.0
    bytes: int = 0
    problem: str | None = None


class Clock:
    """Times calls on ``device``."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.cuda = device.type == "cuda"

    def wait(self) -> None:
        """Wait until the device has nothing left to do."""
        if self.cuda:
            torch.cuda.synchronize(self.device)

    def check(self) -> None:
        """Raise RuntimeError if the device refuses further calls.

        After an error of the device it refuses all, after a failed capture random numbers.
        """
        self.wait()
        if self.cuda:
            torch.rand(1, device=self.device)

    def time(self, call: Call, repeats: int) -> Times:
        """Return the times of one call."""
        return self.interleaved({0: call}, repeats)[0]

    def interleaved(self, calls: Mapping[Key, Call], repeats: int) -> dict[Key, Times]:
        """Return the times of each, in turns forwards and backwards, so that drift slows all alike."""
        for call in calls.values():
            for _ in range(WARM_UP):
                call()
        self.wait()
        marks: dict[Key, list[Callable[[], float]]] = {key: [] for key in calls}
        for repeat in range(repeats):
            order = list(calls)[:: 1 if repeat % 2 == 0 else -1]
            for key in order:
                marks[key].append(self._mark(calls[key]))
        self.wait()
        return {key: Times.of([read() for read in reads]) for key, reads in marks.items()}

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

    def capture(self, calls: Sequence[Call]) -> Captured:
        """Capture ``calls`` one after another as one graph, if the device has graphs."""

        def all_of_them() -> None:
            for call in calls:
                call()

        if not self.cuda:
            return Captured(all_of_them)
        stream = torch.cuda.current_stream(self.device)
        try:
            return self._graph(all_of_them)
        except RuntimeError as error:  # for example because a call waits for the host
            torch.cuda.set_stream(stream)  # a failed capture leaves its own stream set
            self.wait()
            return Captured(all_of_them, problem=str(error).splitlines()[0])

    def _graph(self, call: Call) -> Captured:
        side = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):  # compile kernels and fill caches
            for _ in range(2):
                call()
        torch.cuda.current_stream(self.device).wait_stream(side)
        self.wait()
        free, started = torch.cuda.mem_get_info(self.device)[0], perf_counter()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
        graph.replay()
        self.wait()
        took = perf_counter() - started
        taken = free - torch.cuda.mem_get_info(self.device)[0]
        return Captured(graph.replay, took, max(taken, 0))
