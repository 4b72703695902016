"""What recurrent layers keep of one sequence in the compiled step, and how it goes back.

A layer has two states. One has taken in committed tokens; rows that are pending go from it to the other,
the tip. If all of them are committed, the two change places. If some are, the step takes these in again
before its next rows, by the code that computed them, from what the layer keeps of its last rows.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.kernels.native import structures
from engine.machine.device_memory import zeros
from engine.models.architecture import Recurrent
from engine.values import MAX_ROWS, RECENT_ROWS


@dataclass(frozen=True, slots=True)
class Saved:
    """States behind ``absorbed`` tokens, and the rows that are needed to go on from there."""

    states: Sequence[Tensor]
    recent: Sequence[Tensor]
    absorbed: int

    @property
    def bytes(self) -> int:
        """What it takes."""
        return sum(each.nbytes for each in (*self.states, *self.recent))


class Recurrences:
    """The memory of each recurrent layer, as recent_rows.h and gated_delta.h read it."""

    def __init__(self, specs: Sequence[Recurrent]) -> None:
        self._kernel = max((spec.kernel for spec in specs), default=1)
        self.states = [zeros((2, spec.state_numbers), torch.float32) for spec in specs]
        self.recent = [
            zeros((RECENT_ROWS + MAX_ROWS, spec.row_numbers), torch.float32) for spec in specs
        ]
        self._current = 0  # which state has taken in committed tokens
        self._absorbed = 0  # how many
        self.view = (structures.Recurrence * len(specs))()
        for view, states, recent in zip(self.view, self.states, self.recent, strict=True):
            view.states = (ctypes.c_void_p * 2)(*(state.data_ptr() for state in states))
            view.recent = recent.data_ptr()

    def place(
        self, sequence: structures.Sequence, *, length: int, pending: int, final: bool
    ) -> None:
        """Say in ``sequence``, whose rows follow ``pending`` ones, between which states they go."""
        tip = 1 - self._current
        assert final or pending + sequence.rows + self._kernel - 1 <= RECENT_ROWS or not self.states
        sequence.from_, sequence.to = (tip if pending else self._current), tip
        sequence.absorbed, sequence.pending = (length + pending if pending else self._absorbed), tip
        if final:
            sequence.to = self._current

    def computed(self, rows: int, *, length: int, pending: int, final: bool) -> None:
        """Note that the step did what ``place`` said."""
        if not pending:
            self._absorbed = length
        if final:
            self._absorbed = length + rows

    def commit(self, rows: Sequence[int], *, length: int, pending: int) -> None:
        """Keep these of the pending rows of a chain."""
        if pending and len(rows) == pending:
            self._current, self._absorbed = 1 - self._current, length + pending

    def commit_tree(self, rows: Sequence[int], *, length: int) -> None:
        """Keep a path of a tree: its rows stand at their positions from now on."""
        for recent in self.recent:
            for position, row in enumerate(rows, length):
                recent[position % RECENT_ROWS] = recent[RECENT_ROWS + row]

    def save(self, length: int) -> Saved:
        """Return a copy of what is behind ``length`` committed tokens."""
        rows = self._rows(self._absorbed, length)
        return Saved(
            [states[self._current].clone() for states in self.states],
            [recent[rows] for recent in self.recent],
            self._absorbed,
        )

    def restore(self, saved: Saved | None, length: int) -> None:
        """Go back to ``saved``, which was behind ``length`` tokens; None: to the beginning."""
        if saved is None:
            self._absorbed = 0
            for states in self.states:
                states[self._current].zero_()
            return
        self._absorbed = saved.absorbed
        rows = self._rows(saved.absorbed, length)
        for states, state in zip(self.states, saved.states, strict=True):
            states[self._current].copy_(state)
        for recent, kept in zip(self.recent, saved.recent, strict=True):
            recent[rows] = kept

    def _rows(self, absorbed: int, length: int) -> list[int]:
        first = max(0, absorbed - self._kernel + 1)
        return [position % RECENT_ROWS for position in range(first, length)]
