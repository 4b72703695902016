"""What the machine is, and how fast it is right now."""

from __future__ import annotations

import re
from statistics import median
from time import perf_counter

import psutil
import torch

from engine.machine import processor, threads
from engine.machine.read_bandwidth import Memory
from tools.gate.figures import Limit, Machine

_SIDE = 1024
_REPEATS = 7


def this_machine() -> Machine:
    """Return the processor and the cores that compute."""
    return Machine(_processor(processor.cpuinfo()), threads.default())


def _processor(cpuinfo: str) -> str:
    """Return its name with family and model: several generations call themselves AMD EPYC."""
    found = [
        f"{key.removeprefix('cpu ')} {match[1]}"
        for key in ("cpu family", "model")
        if (match := re.search(rf"^{key}\s*: (\d+)$", cpuinfo, re.MULTILINE))
    ]
    return f"{processor.name()} ({', '.join(found)})" if found else processor.name()


class Calibration:
    """Measure the machine's limits again and again, with as many threads as the engine uses."""

    def __init__(self) -> None:
        threads.use()
        self._memory = Memory()
        self._matrix = torch.ones(_SIDE, _SIDE)

    def limits(self) -> dict[Limit, float]:
        """Return GB/s of reading memory and GFLOP/s of fp32 products."""
        times = []
        for _ in range(_REPEATS):
            began = perf_counter()
            torch.mm(self._matrix, self._matrix)
            times.append(perf_counter() - began)
        return {
            Limit.READING: self._memory.bandwidth(_REPEATS),
            Limit.COMPUTING: 2 * _SIDE**3 / median(times) / 1e9,
        }


def others() -> float:
    """Return the share of the processors that others use while this program waits for a second."""
    return psutil.cpu_percent(interval=1.0) / 100
