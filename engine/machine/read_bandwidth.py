"""How fast memory is read here: the limit of a decoding step, which reads every weight once."""

from __future__ import annotations

from statistics import median
from time import perf_counter

import torch

from engine.machine import threads

BYTES = 256_000_000
"""More than any cache."""
_WARM_UP = 2


class Memory:
    """A buffer larger than any cache: read to find the bandwidth, and to push weights out."""

    def __init__(self, size: int = BYTES) -> None:
        self.buffer = torch.ones(size // 4)

    def read(self) -> None:
        self.buffer.sum()

    def bandwidth(self, repeats: int) -> float:
        """Return GB/s of reading, the median, by as many threads as torch has."""
        seconds = []
        for _ in range(_WARM_UP + repeats):
            began = perf_counter()
            self.read()
            seconds.append(perf_counter() - began)
        return self.buffer.nbytes / median(seconds[_WARM_UP:]) / 1e9


def read_bandwidth(count: int, repeats: int = 9) -> float:
    """Return GB/s that so many of torch's threads read."""
    with threads.using(count):
        return Memory().bandwidth(repeats)


def gpu_bandwidth(device: torch.device) -> float | None:
    """Return the most GB/s that ``device`` reads of its own memory, by clock and bus width; None where
    that is not known. 72 % of it were reached in bf16 on an H200 (docs/log/cuda.md)."""
    if device.type != "cuda" or not torch.cuda.is_available():
        return None
    found = torch.cuda.get_device_properties(device)
    khz, bits = (getattr(found, f"memory_{name}", 0) for name in ("clock_rate", "bus_width"))
    return 2 * khz * bits / 8e6 or None  # two transfers a clock
