"""What operations read when they run: a number, tokens, and which rows of a text.

They lie in the host's memory at an address that does not change, so that compiled operations read them
too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import NDArray

GROUP = 16
"""Tokens that are kept or left out of a vocabulary together: the outputs of a panel, computed at once."""


class Number:
    """An int32 that is set before operations run."""

    __slots__ = ("_cell", "address")

    def __init__(self, value: int = 0) -> None:
        self._cell = np.array([value], dtype=np.int32)
        self.address = self._cell.ctypes.data

    @property
    def value(self) -> int:
        return int(self._cell[0])

    @value.setter
    def value(self, value: int) -> None:
        self._cell[0] = value


class Tokens:
    """A fixed number of int64 token ids, each ``fill`` at first."""

    __slots__ = ("_ids", "address")

    def __init__(self, count: int, fill: int = 0) -> None:
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

    def address_of(self, place: int) -> int:
        """Return the address of the token at ``place``."""
        return self.address + place * self._ids.itemsize


class Candidates:
    """The tokens of a vocabulary that are chosen among, in whole groups of ``GROUP``; all at first.

    ``ids``: int64 token ids of their logits in a trimmed head's row.
    """

    __slots__ = ("_panels", "_runs", "address", "ids")

    def __init__(self, vocabulary: int) -> None:
        groups = -(-vocabulary // GROUP)
        self.ids = np.arange(vocabulary, dtype=np.int64)
        self._runs = np.zeros((groups // 2 + 1, 2), dtype=np.int32)
        layout = [("runs", np.uintp), *((name, np.int32) for name in ("count", "panels", "tokens"))]
        # As TrimmedPanels in structures.h.
        self._panels = np.zeros(1, dtype=np.dtype(layout, align=True))
        self._panels["runs"] = self._runs.ctypes.data
        self.address = self._panels.ctypes.data

    @property
    def trimmed(self) -> bool:
        """Return whether some tokens are left out."""
        return bool(self._panels["count"][0])

    @property
    def chosen(self) -> NDArray[np.int64]:
        """The candidates' ids, ascending, if some tokens are left out."""
        return self.ids[: int(self._panels["tokens"][0])]

    def choose(self, runs: Sequence[range] | None) -> None:
        """Choose among these groups, ascending and not adjacent; None: all tokens."""
        self._panels["count"] = 0
        if runs is None:
            return
        last = len(self.ids)
        parts = [np.arange(run.start * GROUP, min(run.stop * GROUP, last)) for run in runs]
        self._runs[: len(runs)] = [(run.start, run.stop) for run in runs]
        tokens = sum(map(len, parts))
        np.concatenate(parts, out=self.ids[:tokens])
        self._panels["panels"], self._panels["tokens"] = sum(map(len, runs)), tokens
        self._panels["count"] = len(runs)


class Groups(Candidates):
    """Candidates that operations choose: ``kept`` of ``count`` equal groups of a vocabulary.

    ``ordering`` int64 (vocabulary,): the token of each output, one group after the other.
    """

    __slots__ = ("count", "kept", "ordering")

    def __init__(self, ordering: NDArray[np.int64], count: int, kept: int) -> None:
        super().__init__(len(ordering))
        self.ordering, self.count, self.kept = ordering, count, kept

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
