"""Choose the proposer with the highest expected speed, and how far it drafts.

Each proposer has an ``Auto`` of its own, which measures its times and acceptance. Much is expected of an
untried proposer, so each is tried; in every text anew, because earlier texts have little weight. Recalled
text costs nothing to look up: the proposer looks in every round, and the budget tells from how many
expected tokens on it is faster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from engine.drafting.controllers.auto import Auto
from engine.events import Budget, Round
from engine.values.method_titles import method_title

_BETTER = 1.05
"""Minimum ratio of expected speeds for a change of proposers: the new one must catch up with the text."""
_INTERRUPT = 1.5
"""The same for recalled text in place of a proposer that has just begun."""
_STAY = 3
"""Minimum rounds of a proposer before another may replace it: the first one tells nothing about times."""
_LOOK = 16
"""Rounds after which inactive proposers are reconsidered: times change, and the text may have been
unlucky for them."""


class Choice:
    """Chooses one of ``members``; ``recall`` names recalled text and measures its drafts."""

    def __init__(self, members: Mapping[str, Auto], recall: tuple[str, Auto]) -> None:
        assert members
        self._members = dict(members)
        self._recall_name, self._recall = recall
        self._active = max(self._members, key=self._speed_of)
        self._stayed = self._rounds = 0
        self._needed: tuple[float, ...] = ()  # see ``Budget``; (): outdated

    def budget(self) -> Budget:
        if self._stayed >= _STAY:
            self._choose()
        name, auto = self._active, self._members[self._active]
        budget = auto.budget()
        decision = budget.decision
        if decision is not None:
            decision = replace(decision, why=f"{method_title(name)}: {decision.why}")
        if not self._needed and (speed := auto.expected_speed()):
            speed *= 1 if self._stayed >= _STAY else _INTERRUPT
            self._needed = tuple(speed * seconds - 1 for seconds in self._recall.round_times()[1:])
        return replace(budget, decision=decision, proposer=name, needed=self._needed)

    def observe(self, round: Round) -> None:
        active = self._members[self._active]
        if round.proposer == self._recall_name:
            # As if it had been allowed exactly the depth that it drafted.
            budget = replace(round.budget, depth=round.tree.depth)
            self._recall.observe(replace(round, budget=budget))
            active.skip_round()
        else:
            active.observe(round)
            self._recall.skip_round()
            self._stayed += 1
        self._rounds += 1
        if round.tree.tokens:
            self._needed = ()
        if self._rounds % _LOOK == 0:
            self._recall.refresh_times()
            for name, auto in self._members.items():
                if name != self._active:
                    auto.discount()

    def skip_round(self) -> None:
        self._members[self._active].skip_round()
        self._recall.skip_round()

    def _choose(self) -> None:
        best = max(self._members, key=self._speed_of)
        if self._speed_of(best) > _BETTER * self._speed_of(self._active):
            self._active, self._stayed, self._needed = best, 0, ()
            self._members[best].take_over()

    def _speed_of(self, name: str) -> float:
        return self._members[name].expected_speed()
