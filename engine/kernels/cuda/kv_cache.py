"""A static KV cache on a device, whose length a captured CUDA graph reads and advances.

One sequence. All memory is allocated once, so a graph may hold its addresses; the number of valid
positions is on the device, so one graph serves every length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor

FP8 = torch.float8_e4m3fn
FP8_LIMIT = 448.0
"""The largest number of e4m3 (Micikevicius et al. 2022)."""


@dataclass(frozen=True, slots=True)
class LayerKV:
    """What a slot holds.

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

    @property
    def tensors(self) -> list[Tensor]:
        parts = self.keys, self.values, self.key_scales, self.value_scales
        return [part for part in parts if part is not None]

    def floats(self) -> tuple[Tensor, Tensor]:
        """Return keys and values in float32."""
        keys, values = self.keys.float(), self.values.float()
        if self.key_scales is None or self.value_scales is None:
            return keys, values
        return keys * self.key_scales[..., None], values * self.value_scales[..., None]


class StaticKVCache:
    """Keys and values ``(kv_heads, capacity, head_dim)`` of each slot, in bf16, or in fp8 with scales.

    Layers that attend have a slot each, of their own size, or share one.

    ``length (1,)`` int32 on the device: the valid positions. Later positions are stale but finite.
    ``host_length``: the length that the host set last; graphs have advanced it since. ``parts``: what all
    slots hold, ``(slots, 2, kv_heads, capacity, ...)`` of each size, so that few operations move a row.
    A scale belongs to one position of one head: it is written once, with the position, so a row's
    key has the same bits whatever was written beside it or rolled back before.
    """

    def __init__(
        self,
        slots: Sequence[tuple[int, int]],
        *,
        capacity: int,
        device: torch.device,
        dtype: torch.dtype = torch.bfloat16,
    ) -> None:
        """``slots``: kv_heads and head_dim of each."""
        self.capacity = capacity
        self.parts: list[Tensor] = []
        made = {}
        for size in dict.fromkeys(slots):
            parts = _empty(slots.count(size), *size, capacity, device, dtype)
            self.parts += parts
            made[size] = iter(zip(*parts, strict=True))  # of each slot: keys and values, scales
        self.slots = [LayerKV(*chain(*next(made[size]))) for size in slots]
        self.length = torch.zeros(1, dtype=torch.int32, device=device)
        self.host_length = 0

    def set_length(self, length: int) -> None:
        """Drop all positions from ``length`` on. Call it between graphs."""
        if not 0 <= length <= self.capacity:
            raise ValueError(f"a cache of {self.capacity} positions cannot hold {length}")
        self.host_length = length
        self.length.fill_(length)

    def move(self, start: Tensor, rows: Tensor) -> None:
        """Move these of the rows that were stored from ``start`` on, one after the other, to ``start``.

        ``start`` int64 (1,) and ``rows`` int64 (count,) are on the device, which nothing waits for.
        """
        for part in self.parts:
            # torch moves no fp8.
            move_rows(part.view(torch.uint8) if part.dtype == FP8 else part, 3, start, rows)


def _empty(
    slots: int,
    kv_heads: int,
    head_dim: int,
    capacity: int,
    device: torch.device,
    dtype: torch.dtype,
) -> list[Tensor]:
    """Return ``StaticKVCache.parts`` of one size."""
    shape = slots, 2, kv_heads, capacity
    # Zeros, not empty: a masked NaN would still poison 0 * NaN in the weighted sum.
    parts = [torch.zeros(*shape, head_dim, dtype=dtype, device=device)]
    return [*parts, torch.zeros(shape, device=device)] if dtype == FP8 else parts


def move_rows(part: Tensor, dim: int, start: Tensor, rows: Tensor) -> None:
    """Move rows of ``part`` in dimension ``dim``; see ``StaticKVCache.move``."""
    places = torch.arange(len(rows), device=part.device)
    there, source = (start + each for each in (places, rows))
    last = part.shape[dim] - 1
    moved = part.index_select(dim, source.clamp_max(last))
    part.index_copy_(dim, there.clamp_max(last), moved)
