"""A load through the formulas, step by step."""

from __future__ import annotations

import itertools

import pytest

from app.deploy.estimate.simulation import Load, simulate, table
from app.deploy.gpus import parse_gpus
from app.deploy.known import known_models
from app.deploy.plan import Plan
from app.deploy.planning import make_plan
from app.deploy.request import PlanRequest
from engine.stats import expected_tokens


@pytest.fixture(scope="module")
def plan() -> Plan:
    target = known_models()["llama-3.1-8b"].facts
    return make_plan(
        PlanRequest("vllm", target, parse_gpus("1xH100"), "eagle3", users=8, context=1024)
    )


def test_one_user_gets_what_the_formula_says(plan: Plan) -> None:
    load = Load(1, 16, 4000)
    plain = simulate(plan.setup, load, 8, 0)
    assert plain.user == pytest.approx(plan.setup.tokens_a_second(1, 0), rel=0.01)
    drafted = simulate(plan.setup, load, 8, plan.depth)
    assert drafted.user == pytest.approx(plan.setup.tokens_a_second(1, plan.depth), rel=0.03)


def test_a_run_is_the_same_twice_and_another_seed_is_another_run(plan: Plan) -> None:
    load = Load(4, 64, 64)
    first = simulate(plan.setup, load, 4, plan.depth)
    assert simulate(plan.setup, load, 4, plan.depth) == first
    assert simulate(plan.setup, load, 4, plan.depth, seed=1) != first


def test_who_finds_no_room_waits(plan: Plan) -> None:
    """Five users in two places: the others' replies are waited for."""
    alone = simulate(plan.setup, Load(2, 32, 64), 2, 0)
    crowded = simulate(plan.setup, Load(5, 32, 64), 2, 0)
    assert crowded.running <= 2
    assert crowded.wait > 5 * alone.wait
    assert crowded.total == pytest.approx(alone.total, rel=0.1)


def test_speculation_fades_as_users_become_more(plan: Plan) -> None:
    rows, slots = table(plan, 64, 32, (1, 20, 300))
    assert slots == plan.memory.most_users
    gains = [row.gain for row in rows]
    assert gains == sorted(gains, reverse=True)
    assert gains[0] > 1.5
    assert all(one.plain.total < two.plain.total for one, two in itertools.pairwise(rows))
    assert rows[0].drafted.total < expected_tokens(1.0, plan.depth) * rows[0].plain.total
