"""The protocol of everything that decides how far to draft."""

from __future__ import annotations

from typing import Protocol

from engine.events import Budget, Decision, Round
from engine.request import MAX_DEPTH


class Controller(Protocol):
    """Decides for one request, before each draft. It sees finished rounds, never tokens ahead of
    time: under ``rejection`` a depth that knew what would be drafted would bend the distribution.

    Of a round it may use what was judged (the tree's size, the accepted path) and times, not the
    drafted tokens behind a rejected one nor their q: their noise is used again.
    """

    def budget(self) -> Budget:
        """How far the next round may draft."""

    def observe(self, round: Round) -> None:
        """Learns from a finished round."""

    def sit_out(self) -> None:
        """A round has ended that this had no part in, in the place of ``observe``."""


def budget_to(
    depth: int,
    decision: Decision | None = None,
    floor: float = 0.0,
    row_floor: float = 0.0,
    plain_s: float | None = None,
) -> Budget:
    """So deep, with as many branches as are verified in one pass."""
    return Budget(depth, MAX_DEPTH if depth else 0, decision, floor, row_floor, plain_s=plain_s)
