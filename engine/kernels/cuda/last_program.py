"""Let the last program of a launch read what the others wrote."""

from __future__ import annotations

import triton
import triton.language as tl


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
