"""A static KV cache on a device, whose length a captured CUDA graph reads and advances.

One sequence. All memory is allocated once, so a graph may hold its addresses; the number of valid
positions is on the device, so one graph serves every length.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

FP8 = torch.float8_e4m3fn
FP8_LIMIT = 448.0
"""The largest number of e4m3 (Micikevicius et al. 2022)."""


@dataclass(frozen=True, slots=True)
class LayerKV:
    """One layer's views into a cache.

    ``keys``, ``values``: (kv_heads, capacity, head_dim), so that the positions that one program
    streams are contiguous. ``key_scales``, ``value_scales``: (kv_heads, capacity) float32 beside
    fp8: multiply a stored number by its position's scale.
    """

    keys: Tensor
    values: Tensor
    key_scales: Tensor | None = None
    value_scales: Tensor | None = None

    @property
    def capacity(self) -> int:
        return self.keys.shape[1]


class StaticKVCache:
    """Keys and values ``(layers, kv_heads, capacity, head_dim)`` in bf16, or in fp8 with scales.

    ``length (1,)`` int32 on the device: the valid positions. Later positions are stale but finite.
    A scale belongs to one position of one head: it is written once, with the position, so a row's
    key has the same bits whatever was written beside it or rolled back before.
    """

    def __init__(
        self,
        *,
        layers: int,
        kv_heads: int,
        head_dim: int,
        capacity: int,
        device: torch.device,
        dtype: torch.dtype = torch.bfloat16,
    ) -> None:
        self.capacity = capacity
        shape = (layers, kv_heads, capacity, head_dim)
        # Zeros, not empty: a masked NaN would still poison 0 * NaN in the weighted sum.
        self.keys = torch.zeros(shape, dtype=dtype, device=device)
        self.values = torch.zeros(shape, dtype=dtype, device=device)
        self.scales: Tensor | None = None  # (2, layers, kv_heads, capacity)
        if dtype == FP8:
            self.scales = torch.zeros(2, *shape[:3], dtype=torch.float32, device=device)
        self.length = torch.zeros(1, dtype=torch.int32, device=device)

    def layer(self, index: int) -> LayerKV:
        """Return views of one layer's part of this cache."""
        if self.scales is None:
            return LayerKV(self.keys[index], self.values[index])
        key_scales, value_scales = self.scales[:, index]
        return LayerKV(self.keys[index], self.values[index], key_scales, value_scales)

    def set_length(self, length: int) -> None:
        """Drop all positions from ``length`` on. Call it between graphs."""
        if not 0 <= length <= self.capacity:
            raise ValueError(f"a cache of {self.capacity} positions cannot hold {length}")
        self.length.fill_(length)

    @property
    def nbytes(self) -> int:
        """Bytes on the device."""
        parts = (self.keys, self.values, *(() if self.scales is None else (self.scales,)))
        return sum(part.nbytes for part in parts)

    def check(self) -> None:
        """Raise AssertionError if an invariant is broken (for tests; waits for the device)."""
        assert 0 <= int(self.length) <= self.capacity
        # isfinite does not take fp8.
        assert bool(self.keys.float().isfinite().all() & self.values.float().isfinite().all())
        if self.scales is not None:
            assert bool(self.scales.isfinite().all())
