"""Which of several proposers drafts, and how far: the one that promises most tokens a second.

Each is judged by an ``Auto`` of its own, from what its drafts took and how they stood. What was never
tried promises much, since nothing is known against it, so each gets its turn; and in every text anew,
since what others taught counts for little in the next one. Recalled text costs nothing to look up: the
proposer looks in every round, and the budget says how good it has to be to be faster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from engine.drafting.controllers.auto import Auto
from engine.events import Budget, Round

_BETTER = 1.05
"""How much more another must promise: what it missed of the text takes time to read."""
_INTERRUPT = 1.5
"""How much more recalled text must promise than one that has just begun."""
_STAY = 3
"""Rounds of one's own until another may take over: the first one says nothing about times."""
_LOOK = 16
"""Rounds after which those that sit out are looked at again: times have changed, and what was seen of
them in this text may have been bad luck."""


class Choice:
    """One of ``members`` drafts; ``recall`` knows what drafts of past text take."""

    def __init__(self, members: Mapping[str, Auto], recall: tuple[str, Auto]) -> None:
        assert members
        self._members = dict(members)
        self._recalling, self._recall = recall
        self._active = max(self._members, key=self._promise_of)
        self._stayed = self._rounds = 0
        self._needed: tuple[float, ...] = ()  # see ``Budget``; () is out of date

    def budget(self) -> Budget:
        if self._stayed >= _STAY:
            self._choose()
        name, auto = self._active, self._members[self._active]
        budget = auto.budget()
        decision = budget.decision
        if decision is not None:
            decision = replace(decision, why=f"{name}: {decision.why}")
        if not self._needed and (promised := auto.promise()):
            # Whoever has just begun is seldom interrupted: what it can do is still to be seen.
            promised *= 1 if self._stayed >= _STAY else _INTERRUPT
            self._needed = tuple(promised * took - 1 for took in self._recall.costs()[1:])
        return replace(budget, decision=decision, proposer=name, needed=self._needed)

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
        if round.tree.tokens:
            self._needed = ()
        if self._rounds % _LOOK == 0:
            self._recall.look_again()
            for name, auto in self._members.items():
                if name != self._active:
                    auto.doubt()

    def sit_out(self) -> None:
        self._members[self._active].sit_out()
        self._recall.sit_out()

    def _choose(self) -> None:
        best = max(self._members, key=self._promise_of)
        if self._promise_of(best) > _BETTER * self._promise_of(self._active):
            self._active, self._stayed, self._needed = best, 0, ()
            self._members[best].take_over()

    def _promise_of(self, name: str) -> float:
        return self._members[name].promise()
