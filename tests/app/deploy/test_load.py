"""Expected speeds under load."""

from __future__ import annotations

import itertools

import pytest

from app.deploy.estimate.speed import Load, outcome, table
from app.deploy.gpus import parse_gpus
from app.deploy.model import known_models
from app.deploy.planning import make_plan
from app.deploy.request import Plan, PlanRequest, Targets, service


@pytest.fixture(scope="module")
def plan() -> Plan:
    target = known_models()["llama-3.1-8b"].facts
    return make_plan(
        PlanRequest("vllm", target, parse_gpus("1xH100"), "eagle3", users=8, context=1024)
    )


def test_one_user_gets_what_the_formula_says(plan: Plan) -> None:
    for depth in (0, plan.depth):
        alone = outcome(plan.setup, Load(1, 16, 4000), 8, depth)
        assert alone.user == pytest.approx(plan.setup.tokens_a_second(1, depth), rel=0.01)


def test_users_that_copies_cannot_share_evenly_are_counted_once() -> None:
    """Nine users of two copies had the speed of ten; and a plan for nine was one for ten."""
    target = known_models()["llama-3.1-8b"].facts
    asked = PlanRequest("vllm", target, parse_gpus("8xH100"), users=64, context=1024)
    made = make_plan(asked)
    assert made.layout.replicas == 2
    eight, nine, ten = table(made.setup, made.memory.most_users, 768, 256, (8, 9, 10))
    each = [row.plain.total / row.users for row in (eight, nine, ten)]
    assert each[0] > each[1] == pytest.approx(each[2])
    nine, ten = (
        service(made.setup, made.layout, Targets(768, 256), made.memory.most_users, users)
        for users in (9, 10)
    )
    assert (nine.users, nine.rps / 9) == (9, pytest.approx(ten.rps / 10))


def test_who_finds_no_room_waits(plan: Plan) -> None:
    """Five users in two places: the others' replies are waited for."""
    alone = outcome(plan.setup, Load(2, 32, 64), 2, 0)
    crowded = outcome(plan.setup, Load(5, 32, 64), 2, 0)
    assert alone.total <= crowded.total < 1.2 * alone.total
    seconds = 64 / alone.user
    assert crowded.wait - alone.wait == pytest.approx(1.5 * seconds, rel=0.05)


def test_speculation_fades_as_users_become_more(plan: Plan) -> None:
    rows = table(plan.setup, plan.memory.most_users, 64, 32, (1, 20, 300))
    gains = [row.gain for row in rows]
    assert gains == sorted(gains, reverse=True)
    assert gains[0] > 1.5
    assert all(one.plain.total < two.plain.total for one, two in itertools.pairwise(rows))
    assert rows[0].drafted.total < (plan.depth + 1) * rows[0].plain.total


def test_a_round_takes_no_more_rows_than_a_batch_has(plan: Plan) -> None:
    """Long prompts hold up the replies of many users, who wait."""
    few = outcome(plan.setup, Load(20, 8000, 16), 100_000, 0)
    many = outcome(plan.setup, Load(2000, 8000, 16), 100_000, 0)
    assert many.user == pytest.approx(few.user, rel=0.2)
    assert many.wait > 50 * few.wait
