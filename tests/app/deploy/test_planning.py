"""From a request to a plan: what fits, what is chosen, and what is said where nothing does."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.deploy.gpus import KINDS, Gpus, parse_gpus
from app.deploy.known import known_models
from app.deploy.methods import CAN, ENGINES, METHODS, Needs
from app.deploy.planning import fits, make_plan
from app.deploy.request import PlanRequest
from app.deploy.support import notes
from engine.errors import ForetokenError, InvalidRequest, OutOfMemory


def asked(target: str = "llama-3.1-8b", gpus: str = "1xH100", engine: str = "vllm", **more):
    return PlanRequest(engine, known_models()[target].facts, parse_gpus(gpus), **more)


REQUESTS = st.builds(
    asked,
    st.sampled_from(sorted(known_models())),
    st.builds("{}x{}".format, st.integers(1, 64), st.sampled_from(sorted(KINDS))),
    st.sampled_from(ENGINES),
    method=st.sampled_from(sorted(METHODS)),
    users=st.integers(1, 2000),
    context=st.integers(16, 40_960),
    kv_cache_dtype=st.sampled_from(["auto", "fp8"]),
    quantization=st.sampled_from(["auto", "fp8", "nvfp4", "awq"]),
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(REQUESTS)
def test_a_plan_holds_everybody_or_is_none(request: PlanRequest) -> None:
    """What is written down as fitting does, in the sum and in the parts."""
    try:
        plan = make_plan(request)
    except OutOfMemory:
        assert not fits(request)
        return
    except InvalidRequest:
        return
    memory, layout = plan.memory, plan.layout
    assert memory.needed <= memory.available < request.gpus.kind.memory
    assert layout.gpus <= request.gpus.count
    assert memory.users * layout.replicas >= request.users
    assert memory.most_users >= memory.users
    # All copies' parts together are no less than the weights themselves.
    assert memory.weights * layout.copy >= plan.setup.network.total_weights * 0.999
    assert plan.target.heads % layout.tensor == 0


@settings(max_examples=60, deadline=None, derandomize=True)
@given(REQUESTS)
def test_what_fits_still_does_with_less_to_hold_or_more_to_hold_it(request: PlanRequest) -> None:
    if not fits(request):
        return
    assert fits(replace(request, users=max(1, request.users // 2)))
    assert fits(replace(request, context=max(16, request.context // 2)))
    assert fits(replace(request, gpus=Gpus(request.gpus.kind, request.gpus.count * 2)))
    assert fits(replace(request, kv_cache_dtype="fp8"))


@pytest.mark.parametrize(
    "request_",
    [
        asked("llama-3.3-70b"),
        asked("deepseek-v3", "8xH100", method="mtp"),
        asked("llama-3.1-8b", "1xRTX4090", users=64, context=16_384),
        asked("llama-3.1-405b", "8xH100", users=4),
    ],
)
def test_what_does_not_fit_says_what_would_and_that_does(request_: PlanRequest) -> None:
    """Each remedy is tried as it is told."""
    with pytest.raises(OutOfMemory) as refused:
        make_plan(request_)
    told = str(refused.value)
    remedies = told.partition("What would fit: ")[2].rstrip(".").split("; ")
    assert remedies != [""]
    for remedy in remedies:
        assert fits(changed(request_, remedy)), remedy


def changed(request: PlanRequest, remedy: str) -> PlanRequest:
    """The request as ``remedy`` would have it."""
    if found := re.fullmatch(r"(\d+x\w+)", remedy):
        return replace(request, gpus=parse_gpus(found[1]))
    if found := re.fullmatch(r"--quantization (\w+)", remedy):
        return replace(request, quantization=found[1])
    if remedy == "--kv-cache-dtype fp8":
        return replace(request, kv_cache_dtype="fp8")
    if found := re.fullmatch(r"([\d,]+) users?", remedy):
        return replace(request, users=int(found[1].replace(",", "")))
    if found := re.fullmatch(r"a context of ([\d,]+) tokens", remedy):
        return replace(request, context=int(found[1].replace(",", "")))
    assert remedy == "no drafts"
    return replace(request, method="none", draft=None, draft_model=None)


def test_the_largest_models_lie_on_nodes_of_eight() -> None:
    dense = make_plan(asked("llama-3.1-405b", "8xH100", quantization="fp8", users=4, context=4096))
    assert (dense.layout.tensor, dense.nodes) == (8, 1)
    wide = make_plan(asked("llama-3.1-405b", "16xH100", users=4, context=4096))
    assert (wide.layout.copy, wide.nodes) == (16, 2)
    assert wide.layout.pipeline == 2  # no drafts, so stages may lie on nodes
    drafting = make_plan(
        asked("llama-3.1-405b", "16xH100", users=4, context=4096, method="draft_model")
    )
    assert (drafting.layout.tensor, drafting.layout.pipeline) == (16, 1)
    assert any("over 2 nodes" in note for note in notes(drafting))
    experts = make_plan(asked("deepseek-r1", "8xH200", method="mtp", users=16, context=4096))
    assert (experts.layout.tensor, experts.draft) == (8, None)


def test_many_users_of_a_small_model_get_copies_and_one_gets_all_gpus() -> None:
    one = make_plan(asked(gpus="8xH100", users=1))
    many = make_plan(asked(gpus="8xH100", users=1000, context=1024))
    assert one.layout.replicas == 1
    assert one.layout.tensor > 1
    assert many.layout.replicas >= 4


@pytest.mark.parametrize("engine", CAN)
@pytest.mark.parametrize("method", METHODS)
def test_every_engine_plans_its_methods_and_refuses_the_others(engine: str, method: str) -> None:
    target = "deepseek-v3" if method == "mtp" else "llama-3.1-8b"
    given = {"draft": "somebody/medusa"} if method == "medusa" else {}
    request = asked(target, "8xB200", engine, method=method, context=2048, **given)
    if method not in CAN[engine]:
        with pytest.raises(InvalidRequest, match="vLLM"):
            make_plan(request)
        return
    plan = make_plan(request)
    assert plan.depth == METHODS[method].depth
    needs_draft = METHODS[method].needs in (Needs.MODEL, Needs.HEAD)
    assert (plan.draft is not None) == needs_draft


@pytest.mark.parametrize(
    ("given_", "says"),
    [
        ({"method": "mtp"}, "num_nextn_predict_layers"),
        ({"method": "medusa"}, "--draft"),
        ({"method": "ngram", "draft": "x"}, "needs no draft"),
        ({"method": "draft_model", "draft": "own"}, "sizes of the draft"),
        ({"quantization": "mxfp4"}, "mxfp4"),
        ({"engine": "trtllm", "target": "qwen3-14b", "quantization": "fp8x"}, "one of"),
        ({"context": 200_000}, "131,072"),
        ({"users": 0}, "users"),
        ({"depth": 99}, "32"),
        ({"acceptance": 1.5}, "0 to 1"),
        ({"engine": "tgi"}, "one of"),
        ({"gpus": "8xP100"}, "H100"),
        ({"gpus": "8"}, "8xH100"),
    ],
)
def test_bad_input_is_told_with_what_to_do(given_: dict, says: str) -> None:
    with pytest.raises(ForetokenError, match=re.escape(says)):
        make_plan(asked(**given_))


def test_a_draft_of_another_vocabulary_is_refused() -> None:
    draft = known_models()["qwen3-0.6b"].facts
    with pytest.raises(InvalidRequest, match="vocabulary"):
        asked(method="draft_model", draft=draft.name, draft_model=draft)
