"""The registry of controllers, and what a request's words choose from it."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.decoding.context import Context
from engine.decoding.sampling import Sampler
from engine.drafting.controllers.factory import ControllerFactory
from engine.drafting.controllers.proposer_statistics import ProposerStatistics
from engine.drafting.controllers.times import MixtureTimes, Times
from engine.drafting.controllers.warm_up import ROWS, warm_up
from engine.drafting.proposers import create
from engine.drafting.resources import Resources
from engine.errors import InvalidRequest
from engine.events import Budget, Origin, Round, Timing, Tree
from engine.request import FIXED_DEPTH, Control, Speculation, controller_named
from engine.values import MAX_DEPTH
from engine.values.sampling import AcceptanceRule, Sampling
from tests.support.fakes import TableModel


@pytest.mark.parametrize("control", Control)
def test_every_controller_starts_without_experience(control: Control) -> None:
    speculation = Speculation(proposer="ngram", controller=control, depth=5)
    proposer = create("ngram", {}, Resources())
    sampler = Sampler(Sampling(), AcceptanceRule.GREEDY, 1, Context([1]), 2)
    budget = ControllerFactory().controller(speculation, proposer, sampler).budget()
    # Auto measures a plain round first: it is what all others are compared with.
    assert budget == (Budget(5, 15) if control is Control.FIXED else Budget(0, 0))


@pytest.mark.parametrize(
    ("arguments", "control", "deepest"),
    [
        ({}, Control.AUTO, MAX_DEPTH),
        ({"depth": 6}, Control.FIXED, 6),
        ({"controller": Control.AUTO, "depth": 6}, Control.AUTO, 6),
        ({"controller": Control.FIXED}, Control.FIXED, FIXED_DEPTH),
        ({"controller": Control.OFF}, Control.OFF, 0),
        ({"controller": Control.OFF, "depth": 6}, Control.OFF, 0),
        ({"controller": Control.OFF, "depth": 0}, Control.OFF, 0),
        ({"proposer": "none"}, Control.OFF, 0),
        ({"proposer": "none", "controller": Control.AUTO}, Control.OFF, 0),
    ],
)
def test_a_depth_given_alone_is_kept_to_and_nothing_given_is_measured(
    arguments: dict[str, object], control: Control, deepest: int
) -> None:
    speculation = Speculation(**arguments)  # type: ignore[arg-type]
    assert (speculation.control, speculation.deepest) == (control, deepest)


def test_unknown_controllers_are_refused() -> None:
    for wrong in (lambda: controller_named("lucky"), lambda: Speculation(controller="lucky")):  # type: ignore[arg-type]
        with pytest.raises(InvalidRequest, match="must be one of auto, fixed, off") as caught:
            wrong()
        assert caught.value.field == "controller"


def test_a_warm_up_measures_every_row_count_with_the_clock_it_is_given() -> None:
    ticks = iter(range(10_000))
    verify = Times(proportional=False)
    model = TableModel(lambda tokens: [0.0, 0.0], 2, context=64)
    warm_up(model, verify, clock=lambda: float(next(ticks)))
    assert [verify(rows) for rows in ROWS] == [1.0] * len(ROWS)
    assert model.fed < 200  # the limit is half a second, and this clock's second is long


def test_a_warm_up_beside_other_programs_finds_the_computing_time() -> None:
    waits = random.Random(1)
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 1e-3 + (waits.random() < 0.3) * 5e-3
        return now

    verify = Times(proportional=False)
    warm_up(TableModel(lambda tokens: [0.0, 0.0], 2, context=64), verify, clock=clock)
    assert [verify(rows) for rows in ROWS] == pytest.approx([1e-3] * len(ROWS))


def test_a_model_with_little_context_is_not_warmed_up() -> None:
    verify = Times(proportional=False)
    warm_up(TableModel(lambda tokens: [0.0, 0.0], 2, context=8), verify)
    assert not verify.known


def test_times_between_known_sizes_lie_on_a_line() -> None:
    verify, drafts = Times(proportional=False), Times(proportional=True)
    assert verify(3) == 0
    for times in (verify, drafts):
        times.learn(4, 8.0)
    assert [verify(rows) for rows in (1, 4, 16)] == [8, 8, 8]
    assert [drafts(count) for count in (0, 2, 4, 8)] == [0, 4, 8, 16]
    for times in (verify, drafts):
        times.learn(8, 10.0)
        assert [times(size) for size in (6, 10)] == [9, 11]
    verify.learn(12, 9.0)
    assert verify(16) == 9.0  # a line that falls is noise


def test_a_far_shorter_time_replaces_the_first_few() -> None:
    times = Times(proportional=False)
    for seconds in (9.0, 8.0, 9.0, 8.0, 1.0):
        times.learn(1, seconds)
    assert times(1) == 1.0
    times.learn(1, 0.1)
    assert 0.8 < times(1) < 1.0


def test_a_far_shorter_time_of_a_mixture_is_learned_as_it_is() -> None:
    """Its weights were cold at first: the time went below zero, and on from there."""
    times = MixtureTimes(0.6, lambda: 1.0)
    for seconds in (1.0, 0.3, 0.3):
        times.observe_step(1)
        times.learn(1, seconds)
    assert times(1) == times.expected(1) == pytest.approx(0.3)


def test_drafted_tokens_take_no_longer_than_so_many_first_ones() -> None:
    drafts = Times(proportional=True)
    drafts.learn(0, 0.1)  # a draft that ended with its first token
    drafts.learn(1, 0.1)
    drafts.learn(4, 6.0)
    assert [drafts(count) for count in (0, 2, 4, 8)] == pytest.approx([0.1, 0.2, 0.4, 0.8])
    drafts.learn_limit(4, 0.15)
    drafts.learn_limit(4, 0.9)
    assert drafts(4) == pytest.approx(0.15)


def test_one_wild_measurement_moves_a_time_little() -> None:
    times = Times(proportional=False)
    for _ in range(20):
        times.learn(1, 1.0)
    times.learn(1, 1000.0)
    assert times(1) < 1.2


@given(st.lists(st.tuples(st.integers(0, 12), st.floats(0.1, 10)), max_size=40), st.booleans())
def test_a_table_of_times_never_falls_and_keeps_what_agrees(
    measured: list[tuple[int, float]], proportional: bool
) -> None:
    times = Times(proportional=proportional)
    for size, seconds in measured:
        times.learn(size, seconds)
    table = times.table(15)
    assert len(table) == 16
    assert all(low <= high + 1e-12 for low, high in itertools.pairwise(table))
    plain = [times(size) for size in range(16)]
    if all(low <= high for low, high in itertools.pairwise(plain)):
        assert table == plain
    assert min(plain) - 1e-9 <= table[0] and table[15] <= max(plain) + 1e-9


def test_one_measurement_of_a_rare_size_does_not_outweigh_many_of_another() -> None:
    verify = Times(proportional=False)
    for _ in range(50):
        verify.learn(1, 2.0)
    verify.learn(2, 1.0)
    assert verify.table(2)[1] == pytest.approx(2.0, abs=0.1)


def test_counts_do_not_overflow_and_another_text_begins_with_what_is_usual() -> None:
    proposer = ProposerStatistics()
    right = Round(0, "it", Budget(2, 2), Tree.chain([0, 0]), (0, 1), 0, Origin.BONUS,
                  (None,) * 2, (None,) * 2, None, Timing(0, 1, 1), 3)  # fmt: skip
    wrong = replace(right, accepted_path=(), origin=Origin.CORRECTION)
    for _ in range(5000):  # the weights would overflow, were they not brought back
        proposer.learn(right)
    assert all(0.9 < accepted <= 1 for _, accepted in itertools.islice(proposer.survival(), 2))
    proposer.begin()
    for _ in range(20):
        proposer.learn(wrong)
    assert next(proposer.survival())[1] < 0.25
    proposer.begin()
    assert next(proposer.survival())[1] > 0.8


def test_a_text_that_is_worse_than_usual_is_thought_worse_at_later_positions_too() -> None:
    proposer = ProposerStatistics()
    draft = Round(0, "it", Budget(4, 4), Tree.chain([0] * 4), (0, 1, 2, 3), 0, Origin.BONUS,
                  (None,) * 4, (None,) * 4, None, Timing(0, 1, 1), 5)  # fmt: skip
    for _ in range(100):
        proposer.learn(draft)
    proposer.begin()
    for _ in range(10):
        proposer.learn(replace(draft, accepted_path=()))
    (_, first), (_, second) = itertools.islice(proposer.survival(), 2)
    assert second < 0.5 * first
