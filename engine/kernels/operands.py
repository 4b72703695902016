"""What operations read when they run: a number, tokens, and which rows of a text.

They lie in the host's memory at an address that does not change, so that compiled operations read them
too. On a GPU each has a copy, which a captured round reads, and may set without the host.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.kernels.native.structures import Range, TrimmedPanels

GROUP = 16
"""Tokens that are kept or left out of a vocabulary together: the outputs of a panel, computed at once."""


class Number:
    """An int32 that is set before operations run."""

    __slots__ = ("_cell", "_copy", "address")

    def __init__(self, value: int = 0) -> None:
        self._copy: Tensor | None = None
        self._cell = np.array([value], dtype=np.int32)
        self.address = self._cell.ctypes.data

    @property
    def value(self) -> int:
        return int(self._cell[0])

    @value.setter
    def value(self, value: int) -> None:
        self._cell[0] = value
        if self._copy is not None:
            self._copy.fill_(value)

    def on(self, device: torch.device) -> Tensor:
        """Return the copy on ``device``, int32 (1,). Setting ``value`` sets both."""
        if self._copy is None:
            with torch.inference_mode(False):  # others may be written in that mode alone
                self._copy = torch.full((1,), self.value, dtype=torch.int32, device=device)
        return self._copy


class Tokens:
    """A fixed number of int64 token ids, each ``fill`` at first."""

    __slots__ = ("_copy", "_ids", "address")

    def __init__(self, count: int, fill: int = 0) -> None:
        self._copy: Tensor | None = None
        self._ids = np.full(count, fill, dtype=np.int64)
        self.address = self._ids.ctypes.data

    def __len__(self) -> int:
        return len(self._ids)

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> list[int]: ...
    def __getitem__(self, place: int | slice) -> int | list[int]:
        found: int | list[int] = self._ids[place].tolist()
        return found

    @overload
    def __setitem__(self, place: int, ids: int) -> None: ...
    @overload
    def __setitem__(self, place: slice, ids: Sequence[int]) -> None: ...
    def __setitem__(self, place: int | slice, ids: int | Sequence[int]) -> None:
        """Raises ValueError where ``ids`` are not as many as the slice has places."""
        self._ids[place] = ids
        if self._copy is not None:
            self._copy[place] = torch.tensor(ids).to(self._copy.device)

    def on(self, device: torch.device) -> Tensor:
        """Return the copy on ``device``, int64. Setting tokens here sets both."""
        if self._copy is None:
            with torch.inference_mode(False):
                # The first one in all places, since a capture copies nothing from the host.
                self._copy = torch.full((len(self),), self[0], device=device)
                if len(set(self[:])) > 1:
                    self._copy.copy_(torch.from_numpy(self._ids))
        return self._copy

    def address_of(self, place: int) -> int:
        """Return the address of the token at ``place``."""
        return self.address + place * self._ids.itemsize


class Candidates:
    """The tokens of a vocabulary that are chosen among, in whole groups of ``GROUP``; all at first.

    ``ids``: int64 token ids of their logits in a trimmed head's row.
    """

    __slots__ = ("_runs", "address", "ids", "panels")

    def __init__(self, vocabulary: int) -> None:
        groups = -(-vocabulary // GROUP)
        self.ids = np.arange(vocabulary, dtype=np.int64)
        self._runs = (Range * (groups // 2 + 1))()
        self.panels = TrimmedPanels(self._runs)
        self.address = ctypes.addressof(self.panels)

    @property
    def trimmed(self) -> bool:
        """Return whether some tokens are left out."""
        return bool(self.panels.count)

    @property
    def chosen(self) -> NDArray[np.int64]:
        """The candidates' ids, ascending, if some tokens are left out."""
        return self.ids[: self.panels.tokens]

    def choose(self, runs: Sequence[range] | None) -> None:
        """Choose among these groups, ascending and not adjacent; None: all tokens."""
        self.panels.count = 0
        if runs is None:
            return
        last = len(self.ids)
        parts = [np.arange(run.start * GROUP, min(run.stop * GROUP, last)) for run in runs]
        for place, run in enumerate(runs):
            self._runs[place] = Range(run.start, run.stop)
        tokens = sum(map(len, parts))
        np.concatenate(parts, out=self.ids[:tokens])
        self.panels.panels, self.panels.tokens = sum(map(len, runs)), tokens
        self.panels.count = len(runs)


class Groups(Candidates):
    """Candidates that operations choose: ``kept`` of ``count`` equal groups of a vocabulary.

    ``ordering`` int64 (vocabulary,): the token of each output, one group after the other.
    """

    __slots__ = ("_copy", "count", "kept", "ordering")

    def __init__(self, ordering: NDArray[np.int64], count: int, kept: int) -> None:
        super().__init__(len(ordering))
        self.ordering, self.count, self.kept = ordering, count, kept
        self._copy: Tensor | None = None

    def on(self, device: torch.device) -> Tensor:
        """Return the ordering on ``device``, which captured operations read."""
        if self._copy is None:
            self._copy = torch.from_numpy(self.ordering).to(device)
        return self._copy

    @property
    def size(self) -> int:
        """Tokens of a group."""
        return len(self.ordering) // self.count


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """``count`` rows, no more than ``most``, at positions from ``start + offset`` on."""

    count: Number
    start: Number
    offset: int = 0
    most: int = 1

    @property
    def first(self) -> int:
        """The position of the first row."""
        return self.start.value + self.offset
