"""A simulated machine that runs rounds: given costs, given acceptance, no clock."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from engine.decoding.controller import Controller
from engine.drafting.controllers.auto import Auto
from engine.drafting.controllers.proposer_statistics import ProposerStatistics
from engine.drafting.controllers.times import Costs
from engine.drafting.controllers.warm_up import ROWS
from engine.events import Budget, Origin, Round, Timing, Tree

FLAT, STEEP = (lambda rows: 1.0), float


@dataclass
class Machine:
    """Seconds for drafting n tokens and for verifying M rows; the chance that a token stands.

    ``finds`` is the chance that anything is drafted, ``most`` the longest draft. ``pace`` slows all.
    Each call waits ``wait`` seconds with the chance ``waits``, drafting only if ``draft_waits``.
    """

    verify: Callable[[int], float] = FLAT
    draft_step: float = 0.1
    acceptance: float = 0.8
    finds: float = 1.0
    most: int = 15
    pace: float = 1.0
    noise: float = 0.05
    wait: float = 0.0
    waits: float = 0.0
    draft_waits: bool = True
    chance: random.Random = field(default_factory=lambda: random.Random(1))

    def round(self, index: int, budget: Budget) -> Round:
        found = self.chance.random() < self.finds
        drafted = min(budget.depth, self.most) if found else 0
        accepted = 0
        while accepted < drafted and self.chance.random() < self.acceptance:
            accepted += 1
        drafts = drafted * self.draft_step * self._jitter() + self._waited() * (
            drafted > 0 and self.draft_waits
        )
        total = drafts + self.verify(1 + drafted) * self._jitter() + self._waited()
        return Round(
            index=index,
            proposer="it",
            budget=budget,
            tree=Tree.chain([0] * drafted),
            accepted_path=tuple(range(accepted)),
            next_token=0,
            origin=Origin.BONUS if accepted == drafted else Origin.CORRECTION,
            p=(None,) * drafted,
            q=(None,) * drafted,
            next_p=None,
            timing=Timing(drafts, total - drafts, total),
            emitted=accepted + 1,
        )

    def _waited(self) -> float:
        return self.wait if self.waits and self.chance.random() < self.waits else 0.0

    def _jitter(self) -> float:
        return self.pace * (1 + self.noise * self.chance.gauss(0, 1))

    def speed(self, depth: int) -> float:
        """Tokens a second that a fixed depth has in the long run, if something is always found."""
        tokens = sum(self.acceptance**j for j in range(depth + 1))
        waited = self.wait * self.waits * (1 + (depth > 0 and self.draft_waits))
        return tokens / (depth * self.draft_step + self.verify(1 + depth) + waited)


def play(machine: Machine, controller: Controller, rounds: int, ahead: int = 0) -> list[Round]:
    """Run rounds; ``ahead``: of which so many are decided before the oldest one is observed."""
    done = []
    for index in range(rounds):
        done.append(machine.round(index, controller.budget()))
        if index >= ahead:
            controller.observe(done[index - ahead])
    for late in done[rounds - ahead :] if ahead else ():
        controller.observe(late)
    return done


def speed_of(rounds: list[Round]) -> float:
    return sum(r.emitted for r in rounds) / sum(r.timing.total_s for r in rounds)


@dataclass
class Learned:
    """What outlives a request."""

    costs: Costs = field(default_factory=Costs)
    proposer: ProposerStatistics = field(default_factory=ProposerStatistics)

    def auto(self, deepest: int = 15, clock: Callable[[], float] = lambda: 0.0) -> Auto:
        """The controller of another request."""
        return Auto(deepest, self.costs, {"it": self.proposer}, clock=clock)


def warm(machine: Machine) -> Learned:
    """What the engine measures before the first request."""
    learned = Learned()
    for rows in ROWS:
        learned.costs.verify.learn(rows, machine.verify(rows))
    return learned
