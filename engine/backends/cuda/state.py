"""A sequence's state whose length the host and the device both know."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.kernels.cuda.kv_cache import StaticKVCache, move_rows
from engine.machine.devices import device_errors
from engine.models.hidden_states import AuxHiddenStates
from engine.models.sequence_state import SequenceState

Step = Sequence[tuple[StaticKVCache, int, Tensor | None]]
"""The caches of a step's sequences, how many of its rows each has, and the tree that these form, see
``engine.kernels.cuda.trees``; None: a chain."""


class DeviceState(SequenceState):
    """The host's view of a ``StaticKVCache``. It never waits for the device.

    ``aux`` has one row more than positions, for rows that a round computes beyond the last.
    """

    def __init__(self, static: StaticKVCache, aux: AuxHiddenStates | None = None) -> None:
        super().__init__(static.capacity, aux)
        self.static = static

    def append(self, rows: int, *, final: bool) -> None:
        super().append(rows, final=final)
        self._update_device()

    def settle(self, length: int) -> None:
        """See ``SequenceState``. Rounds on the device may have advanced beyond the host's length."""
        super().settle(length)
        self._update_device()

    def move(self, start: Tensor, rows: Tensor) -> None:
        """Move rows and their hidden states; see ``StaticKVCache.move``."""
        self.static.move(start, rows)
        if self.aux is not None:
            move_rows(self.aux.rows, 1, start, rows)

    def _keep_path(self, rows: Sequence[int]) -> None:
        device = self.static.length.device
        with device_errors(device):
            start = torch.tensor([self.length], device=device)
            self.move(start, torch.tensor(rows, device=device))

    def copy_prefix(self, other: SequenceState, length: int) -> int:
        """See ``SequenceState``. Rounds that run ahead there only write beyond ``length``."""
        assert isinstance(other, DeviceState) and length <= other.length
        if length <= self.length:
            return self.length
        rows = slice(self.length, length)
        with device_errors(self.static.length.device):
            for own, its in zip(self.static.slots, other.static.slots, strict=True):
                for copy, source in zip(own.tensors, its.tensors, strict=True):
                    copy[:, rows] = source[:, rows]
            if self.aux is not None and other.aux is not None:
                self.aux.rows[:, rows] = other.aux.rows[:, rows]
        self.settle(length)
        return length

    def _update_device(self) -> None:
        """Write the position of the next row to the device."""
        with device_errors(self.static.length.device):
            self.static.set_length(self.end)
