"""The compiled step's cache: keys, values and tapped states of one sequence."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from engine.kernels.native import library as native
from engine.kernels.native import structures
from engine.machine.zeros import zeros
from engine.models.architecture import Architecture
from engine.models.cache import Positions
from engine.models.hidden_states import Features, Tap


class NativeCache(Positions):
    """Keys and values of one sequence, as attention.h reads them.

    keys (layers, kv_heads, groups, head_dim, 16), values (layers, kv_heads, groups * 16, head_dim),
    float32 or bfloat16, as are the features. The last group is for the rows of a tree.
    """

    def __init__(
        self,
        architecture: Architecture,
        context: int,
        dtype: torch.dtype,
        features: Features | None = None,
    ) -> None:
        super().__init__(context, features)
        groups = -(-context // native.LANES) + 1
        outer = len(architecture.layers), architecture.kv_heads
        self.keys = zeros((*outer, groups, architecture.head_dim, native.LANES), dtype)
        self.values = zeros((*outer, groups * native.LANES, architecture.head_dim), dtype)
        taps = [] if features is None else [_tap(features, tap) for tap in features.taps]
        self.taps = (structures.Tap * len(taps))(*taps)
        self.view = structures.Cache(
            self.keys.data_ptr(),
            self.values.data_ptr(),
            self.taps,
            len(taps),
            dtype == torch.bfloat16,
            groups * native.LANES,
        )

    def commit(self, rows: Sequence[int]) -> None:
        """Appends these rows of the last tree, from the root down."""
        for row in rows:
            group, lane = divmod(self.length, native.LANES)
            self.keys[:, :, group, :, lane] = self.keys[:, :, -1, :, row]
            self.values[:, :, self.length] = self.values[:, :, row - native.ROWS]
            self.length += 1
        if self.features is not None:
            self.features.keep(self.length - len(rows), rows)

    def borrow(self, other: NativeCache, length: int) -> None:
        """See ``Lending``. Of the last group more is copied, which counts for nothing."""
        groups = slice(self.length // native.LANES, -(-length // native.LANES))
        rows = slice(self.length, length)
        self.keys[:, :, groups] = other.keys[:, :, groups]
        self.values[:, :, rows] = other.values[:, :, rows]
        if self.features is not None and other.features is not None:
            self.features.rows[:, rows] = other.features.rows[:, rows]
        self.length = length


def _tap(features: Features, tap: Tap) -> structures.Tap:
    return structures.Tap(features.at(tap).data_ptr(), -1 if tap.layer is None else tap.layer)
