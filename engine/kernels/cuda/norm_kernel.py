"""The kernel of ``norm``: two passes over a row of some kilobytes, which stays in the cache."""

from __future__ import annotations

import triton
import triton.language as tl

from engine.kernels.cuda.linear.parts import norm_factor


@triton.jit
def normalise_rows(
    x: tl.tensor, weight: tl.tensor, residual: tl.tensor, result: tl.tensor, width: tl.tensor,
    epsilon: tl.tensor, DEPTH: tl.constexpr,
) -> None:  # fmt: skip
    """One row a program: ``x (rows, width)`` normalised, times ``weight``, plus ``residual``."""
    row = tl.program_id(0).to(tl.int64) * width
    square = tl.zeros((DEPTH,), tl.float32)
    for start in range(0, width, DEPTH):
        place = start + tl.arange(0, DEPTH)
        values = tl.load(x + row + place, mask=place < width, other=0.0).to(tl.float32)
        square += values * values
    factor = norm_factor(tl.sum(square, 0), width, epsilon)
    for start in range(0, width, DEPTH):
        place = start + tl.arange(0, DEPTH)
        there = place < width
        values = tl.load(x + row + place, mask=there, other=0.0).to(tl.float32)
        values = values * factor * tl.load(weight + place, mask=there, other=0.0).to(tl.float32)
        if residual is not None:
            values += tl.load(residual + row + place, mask=there, other=0.0).to(tl.float32)
        tl.store(result + row + place, values.to(result.dtype.element_ty), mask=there)
