"""A static KV cache: allocated once, appended to, cropped, checked.

Keys and values of all layers in blocks of 256 positions (the unit ``attend`` reads). ``length`` says
how many positions are valid; what lies behind it is stale but finite, and masked.
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.kernels.cpu.attention import KV_BLOCK
from engine.machine.zeros import zeros
from engine.models.hidden_states import Features


class Positions:
    """How many of ``context`` positions hold tokens."""

    def __init__(self, context: int, features: Features | None = None) -> None:
        """``features`` of these positions, where somebody reads them."""
        self.context = context
        self.length = 0
        self.features = features

    def crop(self, length: int) -> None:
        """Forgets all positions from ``length`` on."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot crop a cache of {self.length} positions to {length}")
        self.length = length


class KVCache(Positions):
    """Keys and values ``(layers, blocks, kv_heads, KV_BLOCK, head_dim)`` for one sequence."""

    def __init__(
        self,
        *,
        layers: int,
        kv_heads: int,
        head_dim: int,
        context: int,
        dtype: torch.dtype,
        device: torch.device,
        features: Features | None = None,
    ) -> None:
        super().__init__(context, features)
        blocks = -(-context // KV_BLOCK)
        shape = (layers, blocks, kv_heads, KV_BLOCK, head_dim)
        # Zeros, not empty: a masked NaN would still poison 0 * NaN in the weighted sum.
        self.keys = zeros(shape, dtype, device)
        self.values = zeros(shape, dtype, device)

    def write(self, layer: int, start: int, keys: Tensor, values: Tensor) -> None:
        """Stores ``keys``, ``values`` (rows, kv_heads, head_dim) at ``start``; mutates the cache.

        ``length`` is left alone: the caller advances it once all layers are written.
        """
        rows = keys.shape[0]
        done = 0
        while done < rows:
            block, slot = divmod(start + done, KV_BLOCK)
            take = min(rows - done, KV_BLOCK - slot)
            part = slice(done, done + take)
            self.keys[layer, block, :, slot : slot + take] = keys[part].transpose(0, 1)
            self.values[layer, block, :, slot : slot + take] = values[part].transpose(0, 1)
            done += take

    def blocks(self, layer: int, end: int, first: int = 0) -> tuple[Tensor, Tensor]:
        """The blocks that cover positions 0..end-1, from block ``first`` on, as views."""
        stop = -(-end // KV_BLOCK)
        return self.keys[layer, first:stop], self.values[layer, first:stop]

    def check(self) -> None:
        """Raises AssertionError where an invariant is broken (for tests)."""
        assert 0 <= self.length <= self.context
        assert bool(self.keys.isfinite().all()) and bool(self.values.isfinite().all())
        assert self.features is None or self.features.rows.shape[1] == self.context
