"""Sizes of weights and KV caches in memory, for loads on this machine and for launch plans."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

WIDTHS: Mapping[str, float] = MappingProxyType(
    {
        "fp32": 4.0,
        "bf16": 2.0,
        "fp8": 1.0,
        "int8": 1.01,  # a scale a row
        "nf4": 0.5 + 2 / 64,  # a bf16 scale for 64 weights
        "awq": 0.5 + 2.5 / 128,  # a scale of 2 bytes and a zero of 4 bits for 128
        "nvfp4": 0.5 + 1 / 16,  # a scale in fp8 for 16
        "mxfp4": 0.5 + 1 / 32,  # a scale in e8m0 for 32
    }
)
"""Bytes of one weight with its scales, by format; those of one number of a cache are the same."""


def kv_numbers(kv_heads: int, head_dim: int) -> int:
    """Return how many numbers a layer caches of a token: the keys and values of its heads."""
    return 2 * kv_heads * head_dim


def largest(most: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number up to ``most`` that ``fits``, by bisection; 0 if 1 does not."""
    if most > 0 and fits(most):
        return most
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
