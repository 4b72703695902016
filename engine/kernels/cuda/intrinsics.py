"""Device functions for all kernels: the last program of a launch, and the device's clock."""

from __future__ import annotations

import time

import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra.cuda import globaltimer

STAMP_OPTIONS = {"num_warps": 1, "enable_fp_fusion": False}


@triton.jit
def is_last_program(counter: tl.tensor, programs: tl.tensor) -> tl.tensor:
    """Return whether this is the last of ``programs`` to arrive; it may then read what the others wrote.

    The barrier orders the stores of all threads before the atomic addition, which releases them to
    the next program to add. The last one leaves the counter at zero for the next launch. The order of
    arrival does not affect the bits of later sums.
    """
    tl.debug_barrier()
    last = tl.atomic_add(counter, 1, sem="acq_rel", scope="gpu") == programs - 1
    if last:
        tl.store(counter, 0)
    tl.debug_barrier()
    return last


@triton.jit
def stamp_kernel(times: tl.tensor, INDEX: tl.constexpr) -> None:
    """Write the time in nanoseconds since an arbitrary start; some devices tick once a microsecond."""
    tl.store(times + INDEX, globaltimer())


def stamp(times: Tensor, index: int) -> None:
    """Write the time to ``times[index]`` (int64), after everything launched before.

    In the interpreter, where launches are synchronous, use the host's clock.
    """
    if times.device.type == "cuda":
        stamp_kernel[(1,)](times, INDEX=index, **STAMP_OPTIONS)
    else:
        times[index] = time.perf_counter_ns()
