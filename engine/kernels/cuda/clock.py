"""The device's clock, so that a captured round knows how long its parts took without the host."""

from __future__ import annotations

import time

import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra.cuda import globaltimer

OPTIONS = {"num_warps": 1, "enable_fp_fusion": False}


@triton.jit
def stamp_kernel(times: tl.tensor, PLACE: tl.constexpr) -> None:
    """Writes now, in nanoseconds since some past; some devices count in steps of a microsecond."""
    tl.store(times + PLACE, globaltimer())


def stamp(times: Tensor, place: int) -> None:
    """Writes now to ``times (places,)`` int64; behind what was launched before.

    In the interpreter's memory, where nothing runs by itself, the host's clock does.
    """
    if times.device.type == "cuda":
        stamp_kernel[(1,)](times, PLACE=place, **OPTIONS)
    else:
        times[place] = time.perf_counter_ns()
