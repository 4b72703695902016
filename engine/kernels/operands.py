"""What operations read when they run: a number, tokens, and which rows of a text.

They lie in the host's memory at an address that does not change, so that compiled operations read them
too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np


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


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """``count`` rows, no more than ``most``, at positions from ``start + offset`` on."""

    count: Number
    start: Number
    offset: int = 0
    most: int = 1
