"""What a recurrent layer keeps of a sequence in torch: its memory after committed and pending rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, Protocol, Self, TypeVar


class Memory(Protocol):
    """A layer's state after some rows."""

    @property
    def bytes(self) -> int:
        """What it takes."""
        ...

    def after(self, row: Any) -> Self:
        """Return the memory after one more row, in what the mixer keeps of a row."""
        ...


M = TypeVar("M", bound=Memory)


class RecurrentState(Generic[M]):
    """The memory after committed rows, and after pending ones."""

    def __init__(self, empty: M) -> None:
        self.committed = self.tip = self._empty = empty
        self._pending: list[Any] = []

    def append(self, row: Any, *, final: bool) -> None:
        """Apply a row to the tip."""
        self.tip = self.tip.after(row)
        if final:
            self.committed = self.tip
        else:
            self._pending.append(row)

    def commit(self, rows: Sequence[int]) -> None:
        """Keep these of the pending rows; if others are discarded, theirs are applied again."""
        if len(rows) == len(self._pending):
            self.committed = self.tip
        else:
            for row in rows:
                self.committed = self.committed.after(self._pending[row])
        self.tip = self.committed
        self._pending = []

    def restore(self, memory: M | None) -> None:
        """Go back to a memory that was committed before; None means before the first row."""
        self.committed = self.tip = self._empty if memory is None else memory
        self._pending = []
