"""Who comes last: how programs of one launch hand what they wrote to one of them."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def is_last_program(counter: tl.tensor, programs: tl.tensor) -> tl.tensor:
    """Whether this is the last of so many programs to come here; it may then read what they wrote.

    The barrier orders the stores of all threads before the atomic addition, which releases them to
    whoever adds next. The last one leaves the counter at zero for the next launch. Integer counting
    has no order, so this does not touch the bits of what is summed afterwards.
    """
    tl.debug_barrier()
    last = tl.atomic_add(counter, 1, sem="acq_rel", scope="gpu") == programs - 1
    if last:
        tl.store(counter, 0)
    tl.debug_barrier()
    return last
