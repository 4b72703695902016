"""``auto`` with proposers that say how sure they are: drafts end where one more token does not pay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from engine.drafting.controllers.factory import Fixed
from engine.drafting.controllers.proposer_statistics import ProposerStatistics
from engine.events import Budget, Round, Timing, Tree
from tests.engine.drafting.controllers.machine import FLAT, STEEP, Machine, play, speed_of, warm


@dataclass
class Telling(Machine):
    """Some drafts are sure and others are not, and the proposer says so, bent by ``bend``."""

    bend: float = 1.0
    silent: bool = False
    sure: float = 0.5
    unsure: tuple[float, float] = (0.5, 0.2)

    def round(self, index: int, budget: Budget) -> Round:
        rates: list[float] = []
        stated: list[float] = []
        steps, batch = 0, 1.0
        sure = self.chance.random() < self.sure
        while steps < min(budget.depth, self.most):
            steps += 1
            chance = self.chance.choice((0.99, 0.9) if sure else self.unsure)
            batch *= chance**self.bend
            if self.silent or batch >= budget.row_floor:
                rates.append(chance)
                stated.append(chance**self.bend)
            if not self.silent and batch < budget.floor:
                break
        accepted = 0
        while accepted < len(rates) and self.chance.random() < rates[accepted]:
            accepted += 1
        drafts = steps * self.draft_step * self._jitter()
        total = drafts + self.verify(1 + len(rates)) * self._jitter()
        return replace(
            super().round(index, Budget(0, 0)),
            budget=budget,
            tree=Tree.chain([0] * len(rates)),
            accepted_path=tuple(range(accepted)),
            p=(None,) * len(rates),
            q=(None,) * len(rates) if self.silent else tuple(stated),
            timing=Timing(drafts, total - drafts, total),
            emitted=accepted + 1,
        )


@pytest.mark.parametrize(
    ("verify", "step", "bend"),
    [
        (lambda rows: 0.9 + 0.1 * rows, 0.1, 1.0),
        (lambda rows: 0.9 + 0.1 * rows, 0.1, 0.4),
        (FLAT, 0.15, 1.0),
        (FLAT, 0.15, 2.5),
    ],
    ids=["right", "too sure", "right, rows are free", "not sure enough, rows are free"],
)
def test_drafts_that_end_where_they_are_unlikely_beat_every_fixed_depth(
    verify: Callable[[int], float], step: float, bend: float
) -> None:
    machine = Telling(verify, step, bend=bend)
    fixed = max(speed_of(play(machine, Fixed(depth), 2000)) for depth in (1, 2, 3, 4, 5, 6, 8, 12))
    auto = speed_of(play(machine, warm(machine).auto(15), 2000))
    assert auto > 1.05 * fixed


def test_a_token_that_is_drafted_already_has_only_its_row_to_pay_for() -> None:
    machine = Telling(lambda rows: 0.95 + 0.05 * rows, 0.25)
    last = play(machine, warm(machine).auto(15), 200)[-1].budget
    assert 0 < last.row_floor < 0.3 * last.floor
    free = Telling(lambda rows: 0.95 + 0.05 * rows, 0.0)
    last = play(free, warm(free).auto(15), 200)[-1].budget
    assert last.row_floor == pytest.approx(last.floor, rel=0.3)


def test_drafts_of_which_nothing_is_verified_cost_their_time() -> None:
    machine = Telling(lambda rows: 0.8 + 0.2 * rows, 0.3, sure=0.0, unsure=(0.05, 0.05))
    rounds = play(machine, warm(machine).auto(15), 2000)[500:]
    assert sum(not one.budget.depth for one in rounds) > 0.7 * len(rounds)
    assert speed_of(rounds) > 0.95 * speed_of(play(machine, Fixed(0), 1500))


def test_who_says_nothing_of_its_tokens_is_asked_for_nothing() -> None:
    rounds = play(machine := Telling(silent=True), warm(machine).auto(15), 300)
    assert all(one.budget.floor == 0 for one in rounds)
    assert any(one.budget.depth for one in rounds)


def test_while_drafting_pauses_tries_are_not_cut_short() -> None:
    """What is to be learnt is whether the first tokens stand."""
    machine = Telling(STEEP, 1.0)
    rounds = play(machine, warm(machine).auto(15), 400)
    tries = [one for one in rounds[100:] if one.budget.depth]
    assert tries and all(one.budget.floor == 0 for one in tries)


def test_where_drafts_may_not_end_early_nothing_asks_them_to() -> None:
    """Rules that weigh q, and captured rounds, take whole drafts: see ``stops_early``."""
    machine = Telling(lambda rows: 0.9 + 0.1 * rows)
    statistics = replace(warm(machine), proposer=ProposerStatistics(stops_early=False))
    rounds = play(machine, statistics.auto(15), 300)
    assert all(one.budget.floor == 0 for one in rounds)
    assert any(one.budget.depth for one in rounds)


def test_where_shallow_trees_are_wider_than_deep_ones_a_token_more_costs_nothing() -> None:
    """It cost less than nothing: a negative chance, whose root is a complex number, ended the reply."""
    machine = Machine(lambda rows: 0.9 + 0.02 * rows, draft_step=0.001)
    statistics = warm(machine)
    tree = Tree((0,) * 15, (-1,) * 15)
    wide = replace(
        machine.round(0, Budget(0, 0)),
        budget=Budget(5, 15),
        tree=tree,
        accepted_path=(0,),
        p=(0.8,) + (None,) * 14,
        q=(0.8,) + (0.01,) * 14,
        emitted=2,
    )
    for _ in range(20):
        statistics.proposer.learn(wide)
    statistics.proposer.calibration.learn([0.8] * 20, 16)  # from chains; trees tell it nothing
    budget = statistics.auto(5).budget()
    assert budget.depth and 0 <= budget.floor < 1
