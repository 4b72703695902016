"""The compiled step's state: keys, values and aux hidden states of one sequence."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from engine.kernels.native import library as native
from engine.kernels.native import structures
from engine.machine.device_memory import zeros
from engine.models.architecture import Architecture
from engine.models.hidden_states import AuxHiddenStates, AuxLayer
from engine.models.sequence_state import SequenceState


class NativeState(SequenceState):
    """Keys and values of one sequence, as attention.h reads them.

    keys (layers, kv_heads, groups, head_dim, 16), values (layers, kv_heads, groups * 16, head_dim),
    float32 or bfloat16, as are the hidden states. The last group is for the rows of a tree.
    """

    def __init__(
        self,
        architecture: Architecture,
        context: int,
        dtype: torch.dtype,
        aux: AuxHiddenStates | None = None,
    ) -> None:
        super().__init__(context, aux)
        groups = -(-context // native.LANES) + 1
        outer = len(architecture.layers), architecture.kv_heads
        self.keys = zeros((*outer, groups, architecture.head_dim, native.LANES), dtype)
        self.values = zeros((*outer, groups * native.LANES, architecture.head_dim), dtype)
        self._tree: Sequence[int] | None = None  # parents of the pending rows
        aux_layers = (
            [] if aux is None else [_aux_layer(aux, aux_layer) for aux_layer in aux.aux_layers]
        )
        self.aux_layers = (structures.AuxLayer * len(aux_layers))(*aux_layers)
        self.view = structures.Cache(
            self.keys.data_ptr(),
            self.values.data_ptr(),
            self.aux_layers,
            len(aux_layers),
            dtype == torch.bfloat16,
            groups * native.LANES,
        )

    def append_tree(self, parents: Sequence[int]) -> None:
        """Note that the step has computed a tree's rows in the last group, behind no pending ones."""
        assert not self.pending
        self.pending, self._tree = len(parents), parents

    def commit(self, rows: Sequence[int]) -> None:
        """See ``SequenceState``."""
        tree = self._tree
        if tree is None or not rows:
            super().commit(rows)
            return
        if [tree[row] for row in rows] != [-1, *rows[:-1]]:
            raise ValueError(f"{list(rows)} is no path from the root of a tree of {len(tree)}")
        for at, row in enumerate(rows, self.length):
            group, lane = divmod(at, native.LANES)
            self.keys[:, :, group, :, lane] = self.keys[:, :, -1, :, row]
            self.values[:, :, at] = self.values[:, :, row - native.ROWS]
        if self.aux is not None:
            self.aux.keep(self.length, rows)
        self.settle(self.length + len(rows))

    def settle(self, length: int) -> None:
        """See ``SequenceState``."""
        super().settle(length)
        self._tree = None

    def copy_prefix(self, other: SequenceState, length: int) -> int:
        """See ``SequenceState``. Of the last group more is copied, which counts for nothing."""
        assert isinstance(other, NativeState) and length <= other.length
        groups = slice(self.length // native.LANES, -(-length // native.LANES))
        rows = slice(self.length, length)
        self.keys[:, :, groups] = other.keys[:, :, groups]
        self.values[:, :, rows] = other.values[:, :, rows]
        if self.aux is not None and other.aux is not None:
            self.aux.rows[:, rows] = other.aux.rows[:, rows]
        self.settle(length)
        return length


def _aux_layer(aux: AuxHiddenStates, aux_layer: AuxLayer) -> structures.AuxLayer:
    return structures.AuxLayer(
        aux.at(aux_layer).data_ptr(), -1 if aux_layer.layer is None else aux_layer.layer
    )
