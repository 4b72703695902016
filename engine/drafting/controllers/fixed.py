"""``fixed``: the same depth every round. ``off``: depth 0."""

from __future__ import annotations

from engine.decoding.controller import budget_to
from engine.events import Budget, Round


class Fixed:
    """Drafts the same depth every round, and learns nothing."""

    def __init__(self, depth: int) -> None:
        self._budget = budget_to(depth)

    def budget(self) -> Budget:
        return self._budget

    def observe(self, round: Round) -> None: ...

    def skip_round(self) -> None: ...


class Off(Fixed):
    """Decodes plainly; the proposer reads along."""

    def __init__(self) -> None:
        super().__init__(0)
