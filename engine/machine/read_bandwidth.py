"""How fast memory is read here: the limit of a decoding step, which reads every weight once."""

from __future__ import annotations

from statistics import median
from time import perf_counter

import torch

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


def read_bandwidth(threads: int, repeats: int = 9) -> float:
    """Return GB/s that so many of torch's threads read."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return Memory().bandwidth(repeats)
    finally:
        torch.set_num_threads(before)
