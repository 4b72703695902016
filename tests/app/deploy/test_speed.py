"""The estimates: what they are held to, and what must be true of any such estimate."""

from __future__ import annotations

import csv
import itertools
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from app.cli.text.plan import plan_text
from app.deploy.estimate.assumptions import RANGE
from app.deploy.estimate.network import Drafter, Layout, of_model, seconds
from app.deploy.estimate.speed import Load, Setup, outcome, schedule, stops_paying
from app.deploy.gpus import KINDS, parse_gpus
from app.deploy.launch_plan import facts, ground
from app.deploy.methods import METHODS, acceptance_of
from app.deploy.model import known_models
from app.deploy.planning import make_plan
from app.deploy.render import render
from app.deploy.request import Plan, PlanRequest


def plan(target: str = "llama-3.1-8b", gpus: str = "1xH100", **asked) -> Plan:
    facts = known_models()[target].facts
    return make_plan(PlanRequest("vllm", facts, parse_gpus(gpus), **asked))


@dataclass(frozen=True)
class Run:
    """A published run; ``ratio``: its speed by the estimated one."""

    model: str
    gpu: str
    source: str
    ratio: float


def published_runs() -> tuple[Run, ...]:
    """Runs of published_runs.csv: those that the estimates were fitted to are a sample of
    aiconfigurator's systems/silicon_sample.csv at 095f58a5, each the mean time between tokens of so many
    users with prompts and replies of these lengths; the others were left out of the fit."""
    runs = []
    with (Path(__file__).with_name("published_runs.csv")).open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            facts = replace(known_models()[row["model"]].facts, format=row["format"])
            prompt, reply, tensor = (int(row[key]) for key in ("prompt", "reply", "gpus"))
            setup = Setup(
                of_model(facts),
                Drafter(None, 0),
                KINDS[row["gpu"]],
                Layout(tensor, 1, 1),
                0,
                0.0,
                prompt + reply // 2,
                2.0,
            )
            found = outcome(setup, Load(int(row["users"]), prompt, reply), 10**9, 0)
            ratio = 1000 / float(row["ms_a_token"]) / found.user
            runs.append(Run(row["model"], row["gpu"], row["source"], ratio))
    return tuple(runs)


RUNS = published_runs()


def test_nine_in_ten_published_runs_lie_above_the_range_s_end_and_nine_below_the_other() -> None:
    """Of 251 runs of ten models; the median is right within 5 %."""
    ratios = sorted(run.ratio for run in RUNS if run.source == "fitted")
    assert len(ratios) > 200
    low, middle, high = (ratios[int(len(ratios) * share)] for share in (0.1, 0.5, 0.9))
    assert RANGE[0] <= low
    assert high <= RANGE[1] * 1.1
    assert middle == pytest.approx(1, abs=0.05)


def test_runs_that_were_left_out_of_the_fit_are_near_too() -> None:
    """Other engines' pages, other cards, one user, two nodes: all but those of mixtures on cards that
    tell no speed (MI300X) or share memory with their CPU (GB10)."""
    ratios = [r.ratio for r in RUNS if r.source != "fitted" and r.gpu not in ("MI300X", "GB10")]
    assert len(ratios) >= 10
    assert all(RANGE[0] <= ratio <= RANGE[1] for ratio in ratios), ratios
    shared = [run.ratio for run in RUNS if run.gpu == "GB10"]
    assert all(0.6 < ratio < 1.6 for ratio in shared)


@pytest.mark.parametrize("model", sorted({run.model for run in RUNS}))
def test_no_model_is_told_twice_its_speed_or_half_of_it(model: str) -> None:
    """What mixtures were told before: up to 5.4 times."""
    ratios = sorted(run.ratio for run in RUNS if run.model == model and run.gpu != "MI300X")
    if ratios:
        assert 0.5 < ratios[len(ratios) // 2] < 2


def test_speeds_are_told_of_cards_with_published_runs_alone() -> None:
    with_runs = {run.gpu for run in RUNS} - {"MI300X"}  # there it is wrong by half
    assert {name for name, kind in KINDS.items() if kind.runs} == with_runs


def test_a_card_with_few_runs_says_which_and_claims_no_range() -> None:
    """Nine in ten of others' runs stood beside a GB10 whose own ones lie outside."""
    by_card: defaultdict[str, list[Run]] = defaultdict(list)
    for run in RUNS:
        by_card[run.gpu].append(run)
    for name, runs in by_card.items():
        assert bool(KINDS[name].few) == (len(runs) < 5)
        for run in runs if len(runs) < 5 else ():
            assert f"{run.ratio:.2f}" in KINDS[name].few
    drafted = ground(plan("llama-3.1-8b", "1xGB10", method="eagle3", users=1, context=2048))
    assert "No range is known for GB10" in drafted
    assert "gain of drafts is a further estimate" in drafted
    assert "Nine in ten" in ground(plan())
    assert "MiniMax" in ground(plan(gpus="1xMI300X"))


def test_a_card_without_runs_gets_memory_and_commands_and_no_speed() -> None:
    found = plan("llama-3.1-8b", "1xL4", quantization="fp8", users=1, context=2048, method="eagle3")
    known = facts(found, render(found))
    assert known["estimate"] == {"has_ground": False, "stops_at": None, "by_users": []}
    text = plan_text(found, render(found), known["notes"])
    assert "No speeds are shown" in text
    assert "tokens/s" not in text


TOKENS_A_ROUND = {
    ("eagle3", "llama", 2): 2.36,  # vLLM issue 20780, Llama-3.1-8B
    ("eagle3", "llama", 3): 2.79,
    ("eagle3", "llama", 4): 3.08,
    ("mtp", "deepseek_v3", 1): 1.91,  # TensorRT-LLM pull request 4762
    ("mtp", "deepseek_v3", 3): 2.83,
    ("mtp", "deepseek_v3", 5): 2.97,
    ("mtp", "glm_moe_dsa", 1): 1.84,  # golden_al_distribution of InferenceX
    ("mtp", "glm_moe_dsa", 3): 2.99,
    ("mtp", "glm_moe_dsa", 5): 3.61,
    ("mtp", "qwen3_5_text", 3): 2.52,
    ("mtp", "qwen3_5_moe", 1): 1.93,
    ("mtp", "qwen3_5_moe", 3): 3.39,
    ("eagle3", "kimi_k2", 3): 2.88,
    ("eagle3", "kimi_k2", 7): 3.71,
    ("dspark", "kimi_k3", 3): 2.87,
}
"""Published tokens of a round, by method, the target's type, and depth."""


@pytest.mark.parametrize("case", TOKENS_A_ROUND)
def test_the_tokens_of_a_round_are_the_published_ones(case: tuple[str, str, int]) -> None:
    method, model_type, depth = case
    acceptance, fades, _ = acceptance_of(METHODS[method], model_type)
    setup = replace(plan().setup, acceptance=acceptance, fades=fades)
    assert setup.tokens(depth) == pytest.approx(TOKENS_A_ROUND[case], rel=0.1)


def test_the_gain_of_a_draft_is_near_what_is_documented() -> None:
    """Llama-3.1-8B with EAGLE-3 on one H100: 373 tokens/s in SGLang, 245 in vLLM (issue 20780).
    Llama-3.3-70B in fp8 on one H200: 3.55 times as fast with a 1B draft (NVIDIA's developer blog)."""
    head = plan(method="eagle3", users=1, context=1024).estimate
    assert 245 <= head.drafted_user <= 373 * 1.1
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
    assert 3 < plan("llama-3.3-70b", "1xH200", **asked).estimate.gain < 5


def test_drafts_bring_less_the_more_users_share_a_pass() -> None:
    setup = plan(method="eagle3", users=64, context=256).setup
    gains = [setup.gain(users, setup.depth) for users in (64, 128, 256, 512)]
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
    place = (parse_gpus("H100").kind, Layout(2, 1, 1))
    base = seconds(network, *place, 8, 4, 1000, 2.0)
    assert base <= seconds(network, *place, 64, 4, 1000, 2.0)
    assert base < seconds(network, *place, 8, 8, 1000, 2.0)
    assert base < seconds(network, *place, 8, 4, 9000, 2.0)
    assert seconds(network, *place, 8, 4, 9000, 1.0) < seconds(network, *place, 8, 4, 9000, 2.0)


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
