"""How far to draft, decided each round. Controllers see rounds, never tokens ahead of time."""

from __future__ import annotations

from typing import Protocol

from engine.events import Budget, Round


class Controller(Protocol):
    def budget(self) -> Budget:
        """How far the next round may draft."""

    def observe(self, round: Round) -> None:
        """Learns from a finished round."""


class Fixed:
    """The same depth every round."""

    def __init__(self, depth: int) -> None:
        self._budget = Budget(depth=depth, nodes=depth)

    def budget(self) -> Budget:
        return self._budget

    def observe(self, round: Round) -> None:
        """A fixed depth learns nothing."""
