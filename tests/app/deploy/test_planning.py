"""From a request to a plan: what fits, what is chosen, and what is said where nothing does."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.deploy.gpus import KINDS, Gpus, parse_gpus
from app.deploy.methods import CAN, ENGINES, METHODS, Needs
from app.deploy.model import known_models
from app.deploy.planning import fits, make_plan
from app.deploy.request import PlanRequest, Targets
from app.deploy.support import notes
from engine.errors import ForetokenError, InvalidRequest, OutOfMemory
from engine.values import LEAST_CONTEXT


def asked(target: str = "llama-3.1-8b", gpus: str = "1xH100", engine: str = "vllm", **more):
    return PlanRequest(engine, known_models()[target].facts, parse_gpus(gpus), **more)


REQUESTS = st.builds(
    asked,
    st.sampled_from(sorted(known_models())),
    st.builds("{}x{}".format, st.integers(1, 64), st.sampled_from(sorted(KINDS))),
    st.sampled_from(ENGINES),
    method=st.sampled_from(sorted(METHODS)),
    users=st.integers(1, 2000),
    context=st.integers(LEAST_CONTEXT, 40_960),
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
    assert memory.users * memory.groups * layout.replicas >= request.users
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
    assert fits(replace(request, context=max(LEAST_CONTEXT, request.context // 2)))
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
    if found := re.fullmatch(r"weights in (\w+)", remedy):
        return replace(request, quantization=found[1])
    if remedy == "a KV cache in fp8":
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


def test_copies_take_whole_nodes() -> None:
    """A script for 12 GPUs started as many copies on the node of four as on the one of eight."""
    for target in ("qwen3-30b-a3b", "gpt-oss-120b"):
        plan = make_plan(asked(target, "12xH100", users=64, context=2048))
        assert plan.starts * plan.copies_per_start * plan.layout.copy <= 12


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
    given = {"draft": "somebody/head"} if method in ("medusa", "dspark") else {}
    request = asked(target, "8xB200", engine, method=method, context=2048, **given)
    if method not in CAN[engine]:
        with pytest.raises(InvalidRequest, match="vLLM"):
            make_plan(request)
        return
    plan = make_plan(request)
    assert bool(plan.depth) == plan.drafts and plan.depth <= METHODS[method].depth
    assert plan.adapts or plan.estimate.best_depth in (0, plan.depth)  # it advised another depth
    needs_draft = METHODS[method].needs in (Needs.MODEL, Needs.HEAD)
    assert (plan.draft is not None) == needs_draft


@pytest.mark.parametrize(
    ("given_", "says"),
    [
        ({"method": "mtp"}, "num_nextn_predict_layers"),
        ({"method": "medusa"}, "Name one as the draft"),
        ({"method": "mlp_speculator"}, "Take eagle3"),
        ({"method": "arctic"}, "eagle3 or suffix"),
        ({"engine": "trtllm", "target": "qwen3.5-27b", "method": "mtp"}, "Take vLLM or SGLang"),
        ({"engine": "trtllm", "target": "gemma-4-31b", "method": "mtp"}, "Take vLLM or SGLang"),
        ({"engine": "trtllm", "quantization": "nvfp4"}, "vLLM and SGLang run nvfp4 there"),
        ({"engine": "trtllm", "gpus": "1xMI300X"}, "TensorRT-LLM does not run on MI300X"),
        ({"engine": "sglang", "gpus": "1xT4"}, "does not run on T4"),
        ({"engine": "dynamo", "gpus": "8xMI300X"}, "no image for AMD"),
        ({"target": "kimi-k2.5", "gpus": "8xT4"}, "does not run int4 on T4"),
        ({"method": "ngram", "draft": "x"}, "draft has no use with the method ngram"),
        ({"depth": 7, "acceptance": 0.5}, "depth has no use without a drafting method"),
        ({"task": "code"}, "task has no use without a drafting method"),
        ({"method": "ngram", "task": "code"}, "does not follow the kind of replies"),
        ({"method": "draft_model", "draft": "own"}, "sizes of the draft"),
        ({"engine": "sglang", "target": "gpt-oss-20b", "method": "eagle3"}, "has no reader of it"),
        ({"method": "eagle3", "draft": "ibm-ai-platform/llama3-8b-accelerator"}, "mlp_speculator"),
        ({"method": "eagle3", "draft": "Snowflake/Arctic-LSTM-Speculator-X"}, "one older version"),
        ({"method": "eagle3", "draft": "z-lab/gpt-oss-20b-DFlash"}, "the method dflash"),
        ({"method": "eagle3", "draft": "AngelSlim/Qwen3-32B_eagle3"}, "trained for qwen3-32b"),
        ({"context": 1024, "targets": Targets(1000, 25)}, "do not fit into a context of 1,024"),
        ({"quantization": "mxfp4"}, "mxfp4"),
        ({"engine": "trtllm", "target": "qwen3-14b", "quantization": "fp8x"}, "one of"),
        ({"context": 200_000}, "131,072"),
        ({"users": 0}, "users"),
        ({"depth": 99}, "32"),
        ({"acceptance": 1.5}, "0 to 1"),
        ({"engine": "tgi"}, "one of"),
        ({"gpus": "8xP100"}, "H100"),
        ({"gpus": "8"}, "8xH100"),
        ({"gpus": f"{'9' * 5000}xH100"}, "is not a number of GPUs"),
    ],
)
def test_bad_input_is_told_with_what_to_do(given_: dict, says: str) -> None:
    with pytest.raises(ForetokenError, match=re.escape(says)):
        make_plan(asked(**given_))


@pytest.mark.parametrize(
    ("target", "gpus", "engine", "more", "expert"),
    [
        ("qwen3-235b-a22b", "8xH100", "sglang", {"quantization": "fp8"}, 8),  # 1536 / 8 = 192
        ("qwen3-235b-a22b", "8xH100", "vllm", {"quantization": "fp8"}, 8),
        ("qwen3-30b-a3b", "4xL4", "sglang", {"quantization": "fp8"}, 4),  # 768 / 4 = 192
        ("deepseek-r1", "8xH200", "sglang", {}, 1),  # 2048 / 8 = 256
        ("qwen3-235b-a22b", "8xH100", "vllm", {}, 1),  # in 16 bits there are no blocks
    ],
)
def test_experts_in_fp8_are_divided_by_whole_blocks_or_not_at_all(
    target: str, gpus: str, engine: str, more: dict, expert: int
) -> None:
    """SGLang's and vLLM's checks: fp8.py and fp8_utils.py of their wheels."""
    plan = make_plan(asked(target, gpus, engine, users=2, context=1024, **more))
    width, block = plan.target.expert_width, plan.target.block
    assert plan.layout.tensor > 1
    assert plan.layout.expert == (expert if plan.layout.tensor == expert else 1)
    if block and plan.layout.expert == 1:
        assert width % (block * plan.layout.tensor) == 0


def test_what_is_no_whole_block_is_not_planned() -> None:
    """DeepSeek's MLPs of 18,432 over 32 GPUs would be 4.5 blocks each: stages of fewer are planned."""
    plan = make_plan(asked("deepseek-r1", "32xL40S", "sglang"))
    assert plan.layout.copy == 32
    assert plan.layout.tensor < 32
    with pytest.raises(OutOfMemory, match="no drafts"):
        make_plan(asked("deepseek-r1", "32xL40S", "sglang", method="mtp"))


def test_many_users_of_latent_attention_are_divided_among_gpus() -> None:
    few = make_plan(asked("deepseek-r1", "8xH200", "sglang", users=4, context=4096))
    many = make_plan(asked("deepseek-r1", "8xH200", "sglang", users=512, context=4096))
    assert few.layout.attention == 1
    assert many.layout.attention == many.layout.expert == 8
    assert many.memory.users == 64
    assert any("data-parallel" in note for note in notes(many))
    drafted = make_plan(
        asked("deepseek-r1", "8xH200", "sglang", users=512, context=2048, method="mtp")
    )
    assert drafted.layout.attention in (1, 8)


def test_a_remedy_is_asked_of_the_same_matrix() -> None:
    """TensorRT-LLM does not run NVFP4 on Hopper, so that it is no remedy there."""
    for engine, told in (("trtllm", False), ("vllm", True)):
        with pytest.raises(OutOfMemory) as refused:
            make_plan(asked("deepseek-r1", "8xH100", engine))
        assert ("nvfp4" in str(refused.value)) == told


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_gemma_s_assistant_is_mtp_with_a_model(engine: str) -> None:
    plan = make_plan(asked("gemma-4-31b", "1xH200", engine, method="mtp", context=4096))
    assert plan.draft == "google/gemma-4-31B-it-assistant"
    assert plan.memory.drafter == 10**9


def test_a_draft_named_by_its_id_has_the_target_s_format() -> None:
    """DraftTarget in FP4 on one DGX Spark, as NVIDIA's playbook has it."""
    target = known_models()["llama-3.3-70b"].in_format("nvfp4")
    assert target is not None
    draft = known_models()["llama-3.1-8b"].facts
    request = PlanRequest(
        "trtllm",
        target,
        parse_gpus("1xGB10"),
        "draft_model",
        "llama-3.1-8b",
        draft,
        users=1,
    )
    plan = make_plan(request)
    assert plan.draft == "nvidia/Llama-3.1-8B-Instruct-FP4"
    assert plan.draft_model is not None
    assert plan.draft_model.format == "nvfp4"


def test_a_gated_draft_is_told_too() -> None:
    target = known_models()["llama-3.3-70b"].in_format("fp8")
    assert target is not None
    plan = make_plan(
        PlanRequest("vllm", target, parse_gpus("8xH100"), "draft_model", "llama-3.2-1b",
                    known_models()["llama-3.2-1b"].facts)
    )  # fmt: skip
    assert any(note.startswith("Gated: meta-llama/Llama-3.2-1B") for note in notes(plan))


@pytest.mark.parametrize(("task", "depth"), [("code", 5), ("creative", 2), (None, 3)])
def test_the_depth_follows_the_kind_of_task(task: str | None, depth: int) -> None:
    assert make_plan(asked(method="eagle3", task=task)).depth == depth
    assert make_plan(asked(method="eagle3", task=task, depth=4)).depth == 4


def test_a_draft_of_another_vocabulary_is_refused() -> None:
    draft = known_models()["qwen3-0.6b"].facts
    with pytest.raises(InvalidRequest, match="vocabulary"):
        asked(method="draft_model", draft=draft.name, draft_model=draft)


def test_heads_in_a_format_that_an_engine_does_not_read_are_not_named() -> None:
    """SGLang 0.5.21 knows no Eagle3Speculator; vLLM 0.31.0 does."""
    for engine, named in (("vllm", True), ("sglang", False)):
        told = notes(make_plan(asked("llama-3.1-8b", engine=engine, method="eagle3")))
        assert any("lmsys/SGLang-EAGLE3" in note for note in told)
        assert any("RedHatAI/" in note for note in told) == named


def test_a_head_that_nobody_checked_is_told() -> None:
    told = notes(make_plan(asked(method="eagle3", draft="somebody/head")))
    assert any("was not checked" in note for note in told)
    assert not any("not checked" in note for note in notes(make_plan(asked(method="eagle3"))))


def test_advice_on_drafting_does_not_contradict_itself() -> None:
    """It was "plan without it" beside "1 token at this load, which is faster"."""
    request = asked("llama-3.3-70b", "32xH100", "dynamo", method="eagle3", users=2000, context=2048)
    plan = make_plan(request)
    told = " ".join(notes(plan))
    assert 0 < plan.estimate.best_depth < plan.depth
    assert f"At this load {plan.estimate.best_depth} would be faster" in told
    assert "plan without" not in told
    assert f"3 drafted tokens per round help up to {plan.drafts_up_to:,} users" in told
    useless = " ".join(notes(make_plan(asked(method="eagle3", users=4, acceptance=0.0))))
    assert "plan without it" in useless
    assert "would be faster" not in useless


def test_next_token_layers_that_config_json_does_not_count_are_planned() -> None:
    """vLLM and SGLang go by the type of Qwen3-Next."""
    for engine in ("vllm", "sglang"):
        plan = make_plan(asked("qwen3-next-80b-a3b", "4xH100", engine, method="mtp"))
        assert plan.target.modules
