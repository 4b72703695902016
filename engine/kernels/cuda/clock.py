"""Timestamps on the device, which measure the parts of a captured round without the host."""

from __future__ import annotations

import time

import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra.cuda import globaltimer

OPTIONS = {"num_warps": 1, "enable_fp_fusion": False}


@triton.jit
def stamp_kernel(times: tl.tensor, PLACE: tl.constexpr) -> None:
    """Write the time in nanoseconds since an arbitrary start; some devices tick once a microsecond."""
    tl.store(times + PLACE, globaltimer())


def stamp(times: Tensor, place: int) -> None:
    """Write the time to ``times[place]`` (int64), after everything launched before.

    In the interpreter, where launches are synchronous, use the host's clock.
    """
    if times.device.type == "cuda":
        stamp_kernel[(1,)](times, PLACE=place, **OPTIONS)
    else:
        times[place] = time.perf_counter_ns()
