"""Choosing among proposers on a simulated machine: given costs, given acceptance, no clock."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from statistics import fmean

import pytest

from engine.drafting.controllers.auto import Auto
from engine.drafting.controllers.proposer_statistics import ProposerStatistics
from engine.drafting.controllers.times import Costs
from engine.drafting.controllers.warm_up import ROWS
from engine.events import Budget, Origin, Round, Timing, Tree

RECALL = "suffix"


@dataclass(frozen=True)
class Member:
    """Seconds for a drafted token, and the chance that one stands."""

    step: float
    acceptance: float


@dataclass
class Machine:
    """A machine whose plain round takes a second, and several proposers; ``offers``: in each round,
    with the chance ``recalls``, so many tokens of past text, each right with ``recall_acceptance``."""

    members: Mapping[str, Member]
    recalls: float = 0.0
    offers: int = 0
    recall_acceptance: float = 0.9
    row: float = 0.03
    chance: random.Random = field(default_factory=lambda: random.Random(1))

    def __post_init__(self) -> None:
        self.proposers = {name: ProposerStatistics() for name in (*self.members, RECALL)}
        self.costs = Costs()
        for rows in ROWS:
            self.costs.verify.learn(rows, self.verify(rows))

    def verify(self, rows: int) -> float:
        return 1 + self.row * (rows - 1)

    def controller(self) -> Auto:
        """For another text."""
        members = {name: self.proposers[name] for name in self.members}
        recall = RECALL, self.proposers[RECALL].draft_times
        return Auto(15, self.costs, members, recall, clock=lambda: 0.0)

    def play(self, rounds: int, controller: Auto | None = None) -> list[Round]:
        controller, done = controller or self.controller(), []
        for index in range(rounds):
            done.append(self._round(index, controller.budget()))
            controller.observe(done[-1])
        return done

    def _round(self, index: int, budget: Budget) -> Round:
        assert budget.proposer is not None
        member, depth = self.members[budget.proposer], budget.depth
        name = budget.proposer if depth else "best"  # as the proposer has it
        recalled = self.offers if self.chance.random() < self.recalls else 0
        worth = self._worth(recalled, budget)
        if worth:
            name, depth = RECALL, worth
            member = Member(0.0, self.recall_acceptance)
        accepted = 0
        while accepted < depth and self.chance.random() < member.acceptance:
            accepted += 1
        took = depth * member.step * self._jitter()
        total = took + self.verify(1 + depth) * self._jitter()
        return Round(
            index=index,
            proposer=name,
            budget=budget,
            tree=Tree.chain([0] * depth),
            accepted_path=tuple(range(accepted)),
            next_token=0,
            origin=Origin.BONUS if accepted == depth else Origin.CORRECTION,
            p=(None,) * depth,
            q=(None,) * depth,
            next_p=None,
            timing=Timing(took, total - took, total),
            emitted=accepted + 1,
        )

    def _worth(self, recalled: int, budget: Budget) -> int:
        """How many recalled tokens to draft, for one who knows how many of them will stand."""
        expected = list(
            accumulate(self.recall_acceptance**place for place in range(1, recalled + 1))
        )
        ratios = [(1 + a) / (1 + b) for a, b in zip(expected, budget.needed, strict=False)]
        return ratios.index(max(ratios)) + 1 if ratios and max(ratios) > 1 else 0

    def _jitter(self) -> float:
        return 1 + 0.05 * self.chance.gauss(0, 1)


def speed(rounds: list[Round]) -> float:
    return sum(r.emitted for r in rounds) / sum(r.timing.total_s for r in rounds)


def share(rounds: list[Round], name: str) -> float:
    return sum(r.proposer == name for r in rounds) / len(rounds)


GOOD, DEAR, POOR = Member(0.05, 0.8), Member(0.4, 0.85), Member(0.01, 0.2)


@pytest.mark.parametrize("order", [("good", "dear", "poor"), ("poor", "dear", "good")])
def test_the_fastest_drafts_most_of_a_text(order: tuple[str, ...]) -> None:
    members = {"good": GOOD, "dear": DEAR, "poor": POOR}
    machine = Machine({name: members[name] for name in order})
    first, second = machine.play(200), machine.play(200)
    assert share(first[60:], "good") > 0.9
    assert share(second, "good") > 0.85
    alone = Machine({"good": GOOD})
    alone.play(200)
    assert speed(second) > 0.93 * speed(alone.play(200))


def test_all_are_tried_once_and_in_turn() -> None:
    machine = Machine({str(number): Member(0.05 + 0.01 * number, 0.6) for number in range(6)})
    rounds = machine.play(200)
    assert {r.proposer for r in rounds} == set(machine.members)
    turns = [a.proposer != b.proposer for a, b in pairwise(rounds)]
    assert sum(turns) < 40


def test_when_the_text_turns_against_one_another_takes_over() -> None:
    """Three unlucky rounds may move the choice, so this is true on average."""
    before, after = [], []
    for seed in range(8):
        machine = Machine(
            {"a": Member(0.05, 0.9), "b": Member(0.05, 0.7)}, chance=random.Random(seed)
        )
        machine.play(100)
        controller = machine.controller()
        before.append(share(machine.play(60, controller), "a"))
        machine.members = {"a": Member(0.05, 0.1), "b": Member(0.05, 0.7)}
        after.append(share(machine.play(100, controller)[40:], "b"))
    assert fmean(before) > 0.7
    assert fmean(after) > 0.7


def test_recalled_text_drafts_where_there_is_enough_of_it() -> None:
    machine = Machine({"good": GOOD}, recalls=0.3, offers=12, recall_acceptance=0.98)
    machine.play(100)
    rounds = machine.play(200)
    assert 0.2 < share(rounds, RECALL) < 0.4
    without = Machine({"good": GOOD})
    without.play(100)
    assert speed(rounds) > 1.15 * speed(without.play(200))


def test_recalled_text_that_is_mostly_wrong_does_not() -> None:
    machine = Machine({"good": GOOD}, recalls=1.0, offers=8, recall_acceptance=0.1)
    rounds = machine.play(300)
    assert share(rounds[100:], RECALL) < 0.05


def test_few_recalled_tokens_are_left_to_a_good_drafter_and_taken_beside_a_poor_one() -> None:
    few = {"recalls": 1.0, "offers": 2, "recall_acceptance": 0.95}
    beside_good = Machine({"good": Member(0.01, 0.95)}, **few)
    beside_poor = Machine({"poor": Member(0.5, 0.2)}, **few)
    beside_good.recalls = 0.0
    controller = beside_good.controller()
    beside_good.play(50, controller)  # so that it is known to be good
    beside_good.recalls = 1.0
    assert share(beside_good.play(200, controller)[100:], RECALL) < 0.1
    assert share(beside_poor.play(200)[100:], RECALL) > 0.9


def test_where_nothing_pays_nothing_is_drafted() -> None:
    machine = Machine({"a": Member(0.9, 0.3), "b": Member(2.0, 0.5)})
    rounds = machine.play(400)
    assert sum(bool(r.tree.tokens) for r in rounds[100:]) < 30
    assert speed(rounds[100:]) > 0.95


def test_after_a_pause_it_is_tried_again_and_drafting_goes_on() -> None:
    machine = Machine({"a": Member(0.9, 0.1)})
    controller = machine.controller()
    machine.play(100, controller)
    machine.members = {"a": Member(0.02, 0.95)}
    rounds = machine.play(300, controller)
    assert sum(bool(r.tree.tokens) for r in rounds[150:]) > 100


def test_a_decision_says_whose_it_is() -> None:
    machine = Machine({"good": GOOD, "poor": POOR})
    reasons = [r.budget.decision.why for r in machine.play(100) if r.budget.decision is not None]
    assert reasons[-1].startswith("good: drafting")
    assert all("tokens per round in the time of" in why for why in reasons)
