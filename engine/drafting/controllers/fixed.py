"""``fixed``: the same depth every round. ``off``: none."""

from __future__ import annotations

from engine.decoding.controller import budget_to
from engine.drafting.controllers.controller_statistics import ControllerStatistics
from engine.events import Budget, Round


class Fixed:
    """Drafts as far as it may, whatever comes of it."""

    def __init__(self, depth: int, statistics: ControllerStatistics | None = None) -> None:
        self._budget = budget_to(depth)

    def budget(self) -> Budget:
        return self._budget

    def observe(self, round: Round) -> None:
        """A fixed depth learns nothing."""

    def sit_out(self) -> None:
        """Nor here."""


class Off(Fixed):
    """Plain decoding, with the proposer looking on."""

    def __init__(self, depth: int = 0, statistics: ControllerStatistics | None = None) -> None:
        super().__init__(0)
