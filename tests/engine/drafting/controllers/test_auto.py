"""The automatic depth on a simulated machine: given costs, given acceptance, no clock."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from statistics import fmean

import pytest

from engine.drafting.controllers.factory import Fixed, Off
from engine.drafting.controllers.proposer_statistics import PRIOR, ProposerStatistics
from engine.drafting.controllers.times import Costs, MixtureTimes
from engine.drafting.controllers.warm_up import ROWS
from engine.events import Budget, Decision, Round, Timing, Tree
from engine.stats import percent
from tests.engine.drafting.controllers.machine import (
    FLAT,
    STEEP,
    Learned,
    Machine,
    play,
    speed_of,
    warm,
)


def decisions(rounds: list[Round]) -> list[Decision]:
    return [r.budget.decision for r in rounds if r.budget.decision is not None]


@pytest.mark.parametrize(
    ("verify", "draft_step", "acceptance"),
    [
        *itertools.product([FLAT], [0.02, 0.15], [0.95, 0.7, 0.4]),
        *itertools.product([lambda rows: 0.7 + 0.3 * rows], [0.02, 0.15], [0.9, 0.6]),
        *itertools.product([lambda rows: 1.0 if rows <= 4 else 2.5], [0.05], [0.9, 0.5]),
        (STEEP, 0.1, 0.8),
    ],
)
def test_it_comes_to_be_as_fast_as_the_best_fixed_depth(
    verify: Callable[[int], float], draft_step: float, acceptance: float
) -> None:
    reached, begun = [], []
    for seed in range(5):
        machine = Machine(verify, draft_step, acceptance, chance=random.Random(seed))
        best = max(machine.speed(depth) for depth in range(16))
        rounds = play(machine, warm(machine).auto(15), 400)
        reached.append(speed_of(rounds[100:]) / best)
        begun.append(speed_of(rounds[:100]) / best)
    assert fmean(reached) > 0.94
    assert fmean(begun) > 0.88


@pytest.mark.parametrize("wrong", [{1: 20.0}, {4: 20.0}, {1: 0.1, 4: 20.0}, {2: 5.0, 8: 0.8}])
def test_one_drafting_time_measured_beside_other_programs_does_not_pause_drafting(
    wrong: dict[int, float],
) -> None:
    machine = Machine(lambda rows: 1 + 0.05 * rows, 0.1, 0.83)
    learned = warm(machine)
    for depth, seconds in wrong.items():
        learned.proposer.draft_times.learn(depth, seconds)
    rounds = play(machine, learned.auto(15), 400)
    best = max(machine.speed(depth) for depth in range(16))
    assert speed_of(rounds[150:]) > 0.9 * best


@pytest.mark.parametrize("depth", [1, 3, 8])
def test_it_goes_no_deeper_than_it_may(depth: int) -> None:
    rounds = play(Machine(acceptance=1.0), Learned().auto(depth), 100)
    assert max(r.budget.depth for r in rounds) == depth


@pytest.mark.parametrize(
    ("machine", "because"),
    [
        (Machine(draft_step=0.5, acceptance=0.3), "drafting paused: needs"),
        (Machine(STEEP, 0.3, 0.9), "it cannot be faster"),
        (Machine(FLAT, 3.0, 0.5), "it cannot be faster"),
    ],
)
def test_where_nothing_pays_it_pauses_says_why_and_costs_little(
    machine: Machine, because: str
) -> None:
    rounds = play(machine, Learned().auto(15), 1000)
    late = rounds[200:]
    assert any(r.budget.depth > 0 for r in late)  # it tries now and then
    assert speed_of(late) > 0.95 * machine.speed(0)
    last = decisions(rounds)[-1]
    assert last.depth == 0
    assert last.why.startswith("drafting paused")
    assert because in last.why
    if last.needed is None:
        assert "cannot be faster" in last.why
    else:
        assert last.expected is not None and last.expected < last.needed


@pytest.mark.parametrize("draft_step", [0.3, 0.5])
def test_rounds_decided_ahead_are_learnt_as_what_they_were(draft_step: float) -> None:
    """On a GPU the next round is decided before one is observed: a try told nobody anything."""
    tries, costs = [], []
    for ahead in (0, 1):
        played = []
        for seed in range(5):
            machine = Machine(STEEP, draft_step, 0.5, chance=random.Random(seed))
            played += play(machine, warm(machine).auto(15), 1000, ahead)[200:]
        tries.append(sum(r.budget.depth > 0 for r in played))
        costs.append(machine.speed(0) - speed_of(played))
    assert 0 < tries[1] < 1.5 * tries[0]
    assert costs[1] < 1.5 * costs[0]


def test_what_lies_between_rounds_speaks_for_drafting() -> None:
    """A round costs its text and events too: fewer rounds save them."""
    machine = Machine(STEEP, 0.3, 0.9)  # alone, not even a perfect draft would pay
    now = itertools.count()
    slow = warm(machine).auto(15, clock=lambda: 5.0 * next(now))  # five seconds from call to call
    late = play(machine, slow, 400)[200:]
    assert sum(r.budget.depth > 0 for r in late) > 0.9 * len(late)


def test_the_sentence_tells_what_is_needed_and_what_is_there() -> None:
    machine = Machine(draft_step=0.5, acceptance=0.3, noise=0.0)
    last = decisions(play(machine, Learned().auto(15), 400))[-1]
    assert last.needed is not None and last.expected is not None
    # One token costs half a plain round: it must stand half of the time, and a bit more to begin
    # again: (1 + needed) / 1.5 = 1.03.
    assert last.needed == pytest.approx(0.545, abs=0.02)
    assert last.why == (
        f"drafting paused: needs {percent(last.needed)} accepted, expecting {percent(last.expected)}"
    )


def test_it_recovers_when_acceptance_returns() -> None:
    machine = Machine(draft_step=0.3, acceptance=0.1)
    controller = Learned().auto(15)
    first = play(machine, controller, 600)
    assert first[-1].budget.depth == 0 or decisions(first)[-1].depth == 0
    machine.acceptance = 0.95
    rounds = play(machine, controller, 400)
    assert decisions(rounds)[-1].depth > 0
    assert speed_of(rounds[150:]) > 0.9 * max(machine.speed(d) for d in range(16))
    machine.acceptance = 0.1
    assert decisions(play(machine, controller, 300))[-1].depth == 0


def test_a_proposer_that_seldom_finds_something_is_left_to_search() -> None:
    machine = Machine(draft_step=0.0, acceptance=0.9, finds=0.05, most=6)
    rounds = play(machine, Learned().auto(15), 1000)
    assert sum(r.budget.depth > 0 for r in rounds[50:]) > 0.98 * 950


def test_a_machine_that_slows_down_changes_no_decision() -> None:
    """The times of depths that are not in use must not be those of a faster hour."""
    machine = Machine(draft_step=0.1, acceptance=0.8)
    controller = Learned().auto(15)
    before = play(machine, controller, 300)
    machine.pace = 4.0
    after = play(machine, controller, 300)
    assert all(decision.depth > 0 for decision in decisions(after))
    assert 4 * speed_of(after[-200:]) > 0.93 * speed_of(before[-200:])


def test_an_accident_of_one_round_changes_no_decision() -> None:
    machine = Machine(draft_step=0.1, acceptance=0.8)
    controller = Learned().auto(15)
    play(machine, controller, 200)
    machine.pace = 50.0
    play(machine, controller, 1)
    machine.pace = 1.0
    assert all(r.budget.depth > 0 for r in play(machine, controller, 50))


def test_experience_outlives_a_request() -> None:
    machine, statistics = Machine(draft_step=0.5, acceptance=0.2), Learned()
    play(machine, statistics.auto(15), 300)
    again = play(machine, statistics.auto(15), 9)
    assert decisions(again)[0].depth == 0
    # One round of drafting to see what it takes, eight plain ones before the next try.
    assert [r.budget.depth for r in again[:8]] == [0] * 8


def test_the_same_machine_with_another_drafter_starts_with_the_known_times() -> None:
    machine, statistics = Machine(draft_step=0.5, acceptance=0.2), Learned()
    play(machine, statistics.auto(15), 300)
    other = Learned(statistics.costs, ProposerStatistics(statistics.proposer.draft_times))
    assert other.costs.verify(1) == statistics.costs.verify(1)
    assert next(other.proposer.survival())[1] == pytest.approx(PRIOR)
    assert decisions(play(machine, other.auto(15), 3))[0].depth > 0


def test_a_draft_model_that_reads_what_it_missed_is_not_thought_slow() -> None:
    """Its first draft after plain rounds feeds it the whole text: a cost of once."""

    class Catching(Machine):
        drafted = False

        def round(self, index: int, budget: Budget) -> Round:
            done = super().round(index, budget)
            if budget.depth and not self.drafted:
                timing = Timing(9.0, done.timing.verify_s, 9.0 + done.timing.verify_s)
                object.__setattr__(done, "timing", timing)
            self.drafted = budget.depth > 0
            return done

    rounds = play(Catching(draft_step=0.05, acceptance=0.9), Learned().auto(15), 60)
    assert all(r.budget.depth > 0 for r in rounds[1:])


def test_what_lies_behind_a_rejected_token_decides_nothing() -> None:
    """Under rejection its noise is used again: a depth that knew it would bend the distribution."""
    plans = []
    for token in (3, 4):
        machine, depths = Machine(), []
        controller = Learned().auto(15, clock=lambda: 0.0)
        for index in range(200):
            budget = controller.budget()
            done = machine.round(index, budget)
            reached = len(done.accepted_path) + 1
            tokens = [0] * reached + [token] * (len(done.tree) - reached)
            object.__setattr__(done, "tree", Tree.chain(tokens[: len(done.tree)]))
            stated = [0.5] * reached + [token / 10] * (len(done.tree) - reached)
            object.__setattr__(done, "q", tuple(stated[: len(done.tree)]))
            controller.observe(done)
            depths.append(budget)
        plans.append(depths)
    assert plans[0] == plans[1]


def answered(machine: Machine, statistics: Learned, tokens: int) -> list[Round]:
    """One text of so many tokens, begun by a controller of its own."""
    controller, rounds = statistics.auto(15), []
    while (left := tokens - sum(one.emitted for one in rounds)) > 0:
        budget = controller.budget()
        depth = min(budget.depth, left - 1)
        rounds.append(machine.round(len(rounds), Budget(depth, depth, budget.decision)))
        controller.observe(rounds[-1])
    return rounds


def test_a_text_that_cannot_be_foreseen_costs_little_after_texts_that_could() -> None:
    """What good texts taught used to keep drafts of five tokens going for twenty vain rounds."""
    lost = []
    for seed in range(20):
        chance = random.Random(seed)
        machine = Machine(lambda rows: 0.9 + 0.1 * rows, 0.07, 0.9, chance=chance)
        statistics = warm(machine)
        for _ in range(5):
            answered(machine, statistics, 100)
        machine.acceptance = 0.05
        rounds = answered(machine, statistics, 160)
        lost.append(1 - speed_of(rounds) / machine.speed(0))
    assert sum(lost) / len(lost) < 0.08
    assert max(lost) < 0.12


@pytest.mark.parametrize(("acceptance", "least"), [(0.8, 1.4), (0.65, 1.1), (0.3, 0.91)])
@pytest.mark.parametrize(("waits", "wait"), [(0.1, 10.0), (0.3, 10.0), (0.4, 6.0)])
def test_calls_that_wait_for_a_core_make_no_depth_look_dear(
    waits: float, wait: float, acceptance: float, least: float
) -> None:
    """Beside a browser: one wait in a draft of one token paused drafting for a whole tale."""
    gains = []
    for seed in range(6):
        machine = Machine(
            lambda rows: 0.9 + 0.1 * rows, 0.12, acceptance, wait=wait, waits=waits,
            chance=random.Random(seed),
        )  # fmt: skip
        statistics = warm(machine)
        rounds = [one for _ in range(6) for one in answered(machine, statistics, 120)]
        gains.append(speed_of(rounds) / machine.speed(0))
    assert sum(gains) / len(gains) > least


def test_only_a_drafter_that_waits_is_thought_to() -> None:
    """One that looks the text up makes no call; drafting seemed as dear there as with a model."""
    gains = []
    for seed in range(6):
        machine = Machine(
            lambda rows: 0.9 + 0.1 * rows, 0.02, 0.35, wait=10.0, waits=0.3, draft_waits=False,
            chance=random.Random(seed),
        )  # fmt: skip
        statistics = warm(machine)
        rounds = [one for _ in range(6) for one in answered(machine, statistics, 120)]
        gains.append(speed_of(rounds) / machine.speed(0))
    assert sum(gains) / len(gains) > 1.2


def test_off_never_drafts_and_fixed_always_does() -> None:
    assert {r.budget.depth for r in play(Machine(), Off(), 20)} == {0}
    assert {r.budget.depth for r in play(Machine(), Fixed(9), 20)} == {9}


def test_it_tells_what_a_plain_round_takes_once_it_was_measured() -> None:
    machine = Machine(lambda rows: 1.0 + 0.1 * rows, noise=0.0)
    rounds = play(machine, Learned().auto(15), 60)
    assert rounds[0].budget.plain_s is None  # nothing was measured before the first
    times = [r.budget.plain_s for r in rounds if r.budget.plain_s is not None]
    assert len(times) > 3
    assert times == [pytest.approx(1.1, rel=0.1)] * len(times)
    slower = Machine(lambda rows: 1.0 + 0.1 * rows, pace=2.0, noise=0.0)
    statistics = warm(machine)
    late = play(slower, statistics.auto(15), 200)[100:]
    # What was measured at another pace is reckoned with this one, which is learnt as rounds go by.
    assert 1.5 < [r.budget.plain_s for r in late if r.budget.plain_s][-1] < 2.9


def test_the_prior_is_named_as_an_assumption_until_a_draft_was_verified() -> None:
    """A first chat said "1.68 times as fast, at 70% acceptance", which nobody had measured."""
    machine = Machine(acceptance=0.9, noise=0.0)
    first, *later = decisions(play(machine, warm(machine).auto(15), 100))
    assert first.why.endswith("(estimated before the first draft)")
    assert later and "estimated" not in later[-1].why
    first, *later = decisions(play(machine, warm(machine).auto(15), 8))  # a short reply's rounds
    assert "estimated" in first.why and later and "estimated" not in later[-1].why


class Mixture(Machine):
    """Verifies by 8 of 128 experts a row: three fifths of a plain step. Rows of a text choose
    8 * rows ** growth in all, more or less."""

    growth, experts = 0.9, 1.0

    def read(self, rows: int) -> float:
        apart = self.chance.gauss(1, 0.1) if rows > 1 else 1.0
        self.experts = max(1.0, rows**self.growth * apart)
        return 0.4 + 0.6 * self.experts + 0.02 * (rows - 1)

    def plays(self, statistics: Learned, growth: float) -> tuple[float, float]:
        """A text's tokens a second, in those of plain decoding, and its mean depth."""
        self.growth, self.verify = growth, self.read
        rounds = answered(self, statistics, 200)
        return speed_of(rounds), fmean(one.tree.depth for one in rounds)


def test_a_text_whose_rows_choose_alike_is_drafted_for_further() -> None:
    """By times of row counts alone, what scattered rows took kept drafts short in such texts."""
    speeds: dict[str, list[float]] = {"scattered": [], "alike": [], "by rows alone": []}
    depths: dict[str, list[float]] = {"scattered": [], "alike": []}
    for seed in range(3):
        machine = Mixture(draft_step=0.05, acceptance=0.75, chance=random.Random(seed))
        times = MixtureTimes(0.6, lambda machine=machine: machine.experts)
        knowing, unknowing = Learned(Costs(times)), Learned()
        for rows in ROWS:
            seconds = machine.read(rows)
            times.observe_step(rows)
            times.learn(rows, seconds)
            unknowing.costs.verify.learn(rows, seconds)
        for name, growth in [("scattered", 0.9), ("alike", 0.3)] * 3:
            speed, depth = machine.plays(knowing, growth)
            speeds[name].append(speed)
            depths[name].append(depth)
            speed, _ = machine.plays(unknowing, growth)
            speeds["by rows alone"] += [speed] if name == "alike" else []
    assert fmean(depths["alike"]) > 1.8 * fmean(depths["scattered"])
    assert fmean(speeds["alike"]) > 1.04 * fmean(speeds["by rows alone"])
    assert fmean(speeds["scattered"]) > 0.97  # of plain decoding: tries cost the rest
