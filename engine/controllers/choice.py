"""Which of several proposers drafts, and how far: the one that promises most tokens a second.

Each is judged by an ``Auto`` of its own, from what its drafts took and how they stood. What was never
tried promises much, since nothing is known against it, so each gets its turn; and in every text anew,
since what others taught counts for little in the next one. Recalled text costs nothing to look up: it is
looked at in every round, and drafted where there is so much of it that it is expected to be faster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from engine.controllers.auto import Auto
from engine.events import Budget, Round
from engine.request import MAX_DEPTH

_BETTER = 1.05
"""How much more another must promise: what it missed of the text takes time to read."""
_STAY = 3
"""Rounds until another may take over: the first one says nothing about times."""
_LOOK = 8
"""Rounds after which those that sit out are looked at again."""
_NEVER = MAX_DEPTH + 1


class Choice:
    """One of ``members`` drafts; ``recall`` judges what past text offers."""

    def __init__(self, members: Mapping[str, Auto], recall: tuple[str, Auto]) -> None:
        assert members
        self._members = dict(members)
        self._recalling, self._recall = recall
        self._active = max(self._members, key=self._promise_of)
        self._stayed = self._rounds = 0
        self._least = 0  # recalled tokens from which on they are drafted; 0 is out of date

    def budget(self) -> Budget:
        if self._stayed >= _STAY:
            self._choose()
        name, auto = self._active, self._members[self._active]
        budget = auto.budget()
        decision = budget.decision
        if decision is not None:
            decision = replace(decision, why=f"{name}: {decision.why}")
        if not self._least:
            self._least = self._least_worth(auto.promise())
        return replace(budget, decision=decision, proposer=name, least=self._least, most=MAX_DEPTH)

    def observe(self, round: Round) -> None:
        active = self._members[self._active]
        if round.proposer == self._recalling:
            # To it, what it found is what it was asked for.
            found = replace(round.budget, depth=round.tree.depth)
            self._recall.observe(replace(round, budget=found))
            active.sit_out()
        else:
            active.observe(round)
            self._recall.sit_out()
        self._stayed += 1
        self._rounds += 1
        if round.tree.tokens or self._rounds % _LOOK == 0:
            self._least = 0
        if self._rounds % _LOOK == 0:
            for one in (*self._members.values(), self._recall):
                one.look_again()

    def _choose(self) -> None:
        best = max(self._members, key=self._promise_of)
        if self._promise_of(best) > _BETTER * self._promise_of(self._active):
            self._active, self._stayed, self._least = best, 0, 0
            self._members[best].take_over()

    def _promise_of(self, name: str) -> float:
        return self._members[name].promise()

    def _least_worth(self, promised: float) -> int:
        """How many recalled tokens promise more."""
        speeds = self._recall.sure_speeds()
        worth = (depth for depth in range(1, len(speeds)) if speeds[depth] > promised)
        return next(worth, _NEVER)
