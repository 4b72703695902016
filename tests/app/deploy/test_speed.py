"""The estimates: what they are held to, and what must be true of any such estimate."""

from __future__ import annotations

import itertools

import pytest

from app.deploy.estimate.network import GpuGroup, of_model, seconds
from app.deploy.estimate.speed import schedule, stops_paying
from app.deploy.gpus import parse_gpus
from app.deploy.known import known_models
from app.deploy.methods import METHODS
from app.deploy.plan import Plan
from app.deploy.planning import make_plan
from app.deploy.request import PlanRequest


def plan(target: str = "llama-3.1-8b", gpus: str = "1xH100", **asked) -> Plan:
    facts = known_models()[target].facts
    return make_plan(PlanRequest("vllm", facts, parse_gpus(gpus), **asked))


def test_the_estimate_is_near_what_sglang_documents() -> None:
    """Llama-3.1-8B on one H100, MT-bench, one user: 158.34 tokens/s, and 373.25 with EAGLE-3."""
    found = plan(method="eagle3", users=1, context=1024).estimate
    assert found.plain_user == pytest.approx(158.34, rel=0.05)
    assert found.drafted_user == pytest.approx(373.25, rel=0.1)


def test_the_estimate_is_near_what_nvidia_documents() -> None:
    """Llama-3.3-70B in fp8 on one H200: 51.14 tokens/s plain, 3.55 times that with a 1B draft."""
    asked = {
        "users": 1,
        "context": 2048,
        "quantization": "fp8",
        "method": "draft_model",
        "draft": "llama-3.2-1b",
        "draft_model": known_models()["llama-3.2-1b"].facts,
        "depth": 8,
        "acceptance": 0.9,
    }
    found = plan("llama-3.3-70b", "1xH200", **asked).estimate
    assert found.plain_user == pytest.approx(51.14, rel=0.05)
    assert 3 < found.gain < 5


def test_drafts_bring_less_the_more_users_share_a_pass() -> None:
    setup = plan(method="eagle3", users=64, context=256).setup
    gains = [setup.gain(users, setup.depth) for users in (16, 64, 128, 256, 512)]
    assert gains == sorted(gains, reverse=True)
    stops = stops_paying(setup, 2000)
    assert stops is not None
    assert setup.gain(stops - 1, setup.depth) > 1 >= setup.gain(stops, setup.depth)


def test_a_mixture_of_experts_gains_less_for_few_users_than_a_dense_model() -> None:
    dense, experts = (
        plan(name, method="draft_model", users=1, context=2048, gpus="1xH200", acceptance=0.8)
        for name in ("qwen3-8b", "qwen3-30b-a3b")
    )
    assert experts.estimate.gain < dense.estimate.gain


def test_a_pass_takes_longer_with_more_of_anything() -> None:
    network = of_model(known_models()["gpt-oss-120b"].facts)
    place = GpuGroup(parse_gpus("H100").kind, 2)
    base = seconds(network, place, 8, 4, 1000, 2.0)
    assert base <= seconds(network, place, 64, 4, 1000, 2.0)
    assert base < seconds(network, place, 8, 8, 1000, 2.0)
    assert base < seconds(network, place, 8, 4, 9000, 2.0)
    assert seconds(network, place, 8, 4, 9000, 1.0) < seconds(network, place, 8, 4, 9000, 2.0)


def test_the_schedule_covers_every_load_and_is_never_slower_than_plain() -> None:
    setup = plan(method="eagle3", users=512, context=256).setup
    ranges = schedule(setup, 512)
    assert ranges[0][0] == 1
    assert ranges[-1][1] == 512
    assert len(ranges) > 1
    assert all(one[1] + 1 == two[0] for one, two in itertools.pairwise(ranges))
    assert [depth for *_, depth in ranges] == sorted((d for *_, d in ranges), reverse=True)
    assert all(setup.gain(last, depth) >= 1 for _, last, depth in ranges)


def test_a_useless_draft_never_pays_and_it_is_said() -> None:
    found = plan(method="eagle3", users=4, acceptance=0.0)
    assert found.estimate.gain < 1
    assert found.estimate.best_depth == 0
    assert found.estimate.stops_at == 1


def test_long_texts_keep_drafts_worth_while() -> None:
    """Reading everybody's cache is shared by the tokens of a round (MagicDec, arXiv 2408.11049)."""
    long, short = (
        plan("llama-3.1-8b", "1xH200", method="eagle3", users=64, context=context).setup
        for context in (8192, 128)
    )
    assert long.gain(512, 3) > short.gain(512, 3)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_says_what_its_acceptance_rests_on(method: str) -> None:
    known = METHODS[method]
    assert known.reason
    assert 0 <= known.acceptance <= 1
