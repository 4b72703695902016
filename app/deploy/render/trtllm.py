"""TensorRT-LLM: ``trtllm-serve`` and its ``extra-llm-api-config.yml``.

Options checked against NVIDIA/TensorRT-LLM at 00209af1 (tensorrt_llm/commands/serve.py) and 04c8822c
(docs/source/features/speculative-decoding.md), the fields of the YAML against its API reference 1.4.0rc1
(Eagle3DecodingConfig and the others). DraftTarget without overlap scheduler, EAGLE-3 and DraftTarget
without reuse of cached prompts, and no autotuner on DGX Spark are NVIDIA's own examples
(dgx-spark-playbooks at 2022e2b2, nvidia/speculative-decoding). The server has no copies of its own: each
is a server, at the next port.
"""

from __future__ import annotations

import math
from typing import Any

from app.deploy.estimate.assumptions import BATCHED_TOKENS, MEMORY_SHARE
from app.deploy.gpus import FP8
from app.deploy.methods import ENGINE_TABLE, TRTLLM
from app.deploy.render.rendered import (
    ANYWHERE,
    HERE,
    LOOPBACK,
    PORT,
    TIKTOKEN,
    Options,
    Rendered,
    Shell,
    around,
    as_yaml,
    behind_balancer,
    command,
    docker,
    each_copy,
    given,
    image_of,
    listens,
    needs_tiktoken,
    says,
    script,
    together,
)
from app.deploy.request import Plan

CONFIG = "extra-llm-api-config.yml"


WITHOUT_OVERLAP = ("ngram", "draft_model")
"""Methods whose examples in the documentation turn the overlap scheduler off."""


WITHOUT_REUSE = ("draft_model", "eagle3")
"""Methods whose examples turn the reuse of cached prompts off."""


def render(plan: Plan) -> Rendered:
    """Return the server's command with its YAML, plain and in NVIDIA's image."""
    comments, copies, config = says(plan), plan.copies_per_start, Shell(f'"$here/{CONFIG}"')
    where = Shell('"$HOST"') if behind_balancer(plan) else LOOPBACK
    environment = {"TIKTOKEN_ENCODINGS_BASE": Shell(f'"$here/{TIKTOKEN}"')}
    known = environment if needs_tiktoken(plan) else {}
    if copies > 1:
        port = Shell(f"$(({PORT} + copy))")
        words = _serve(plan, config, where, port)
        parts = together(each_copy(plan, words, known))
        comments = [
            *comments,
            f"The {copies} replicas listen at ports {PORT} to {PORT + copies - 1}.",
        ]
    else:
        parts = [command(_serve(plan, config, where), known)]
    start = script(HERE, *listens(plan), *parts, says=comments)
    if copies > 1:
        comments = [
            *comments[:-1],
            f"One of the {copies} replicas; give each its own --gpus, name and port.",
        ]
    encodings = [f'"$here/{TIKTOKEN}:/plan/{TIKTOKEN}:ro"'] if known else []
    inside = docker(
        plan,
        image_of(plan),
        _serve(plan, f"/plan/{CONFIG}", where if plan.nodes > 1 else ANYWHERE),
        environment={"TIKTOKEN_ENCODINGS_BASE": f"/plan/{TIKTOKEN}"} if known else {},
        mounts=[f'"$here/{CONFIG}:/plan/{CONFIG}:ro"', *encodings],
    )
    container = script(HERE, *listens(plan), inside, says=comments)
    return Rendered(start, container, {CONFIG: as_yaml(extra_config(plan))}, around(plan))


def extra_config(plan: Plan) -> dict[str, Any]:
    """Return the YAML for what the command has no options for."""
    layout, method, speculation = plan.layout, plan.request.method, speculative_config(plan)
    graphs = {"enable_padding": True, "max_batch_size": plan.memory.users}
    return {
        **({"moe_expert_parallel_size": layout.expert} if layout.expert > 1 else {}),
        **({"enable_attention_dp": True} if layout.attention > 1 else {}),
        **({"enable_autotuner": False} if plan.request.gpus.kind.name == "GB10" else {}),
        **({"disable_overlap_scheduler": True} if method in WITHOUT_OVERLAP else {}),
        **({"speculative_config": speculation} if speculation else {}),
        "kv_cache_config": {
            "free_gpu_memory_fraction": free_share(plan),
            **({"enable_block_reuse": False} if method in WITHOUT_REUSE else {}),
            **({"dtype": FP8} if plan.request.kv_cache_dtype == FP8 else {}),
        },
        "cuda_graph_config": graphs,
    }


def speculative_config(plan: Plan) -> dict[str, Any] | None:
    """Return the YAML's ``speculative_config``; None for plain decoding."""
    if not plan.drafts:
        return None
    config: dict[str, Any] = {
        "decoding_type": ENGINE_TABLE[TRTLLM].methods[plan.request.method],
        "max_draft_len": plan.depth,
    }
    if plan.draft is not None:
        config["speculative_model"] = plan.draft
    if plan.request.method == "ngram":
        config |= {"max_matching_ngram_size": 4, "is_public_pool": True}
    most = plan.drafts_up_to
    if most is not None and 0 < most < plan.sequences:
        config["max_concurrency"] = most
    return config


def free_share(plan: Plan) -> float:
    """Return the cache's share of the memory that weights leave: without workspace."""
    memory = plan.memory
    held = memory.weights + memory.drafter
    share = (memory.available - held - memory.work) / (memory.total - held)
    return min(MEMORY_SHARE, math.floor(share * 100) / 100)


def engine_yaml(plan: Plan) -> dict[str, Any]:
    """Return all options as one YAML, for Dynamo's worker."""
    return {
        "backend": "pytorch",
        "tensor_parallel_size": plan.layout.tensor,
        "pipeline_parallel_size": plan.layout.pipeline,
        "max_batch_size": plan.memory.users,
        "max_num_tokens": BATCHED_TOKENS,
        "max_seq_len": plan.request.context,
        **({"trust_remote_code": True} if plan.target.own_tokenizer else {}),
        **extra_config(plan),
    }


def on_nodes(plan: Plan, start: tuple[str, ...]) -> tuple[str, ...]:
    """Return ``start``, for a copy on several nodes with a rank for each GPU, as in NVIDIA's two-node
    example."""
    if plan.nodes == 1:
        return start
    return ("mpirun", "-np", str(plan.layout.copy), "trtllm-llmapi-launch", *start)


def _serve(plan: Plan, config: str, host: str, port: str = str(PORT)) -> Options:
    return given(
        on_nodes(plan, ("trtllm-serve", plan.target.name)),
        ("--backend", "pytorch"),
        ("--tp_size", str(plan.layout.tensor)),
        plan.layout.pipeline > 1 and ("--pp_size", str(plan.layout.pipeline)),
        plan.target.own_tokenizer and ("--trust_remote_code",),
        ("--max_batch_size", str(plan.memory.users)),
        ("--max_num_tokens", str(BATCHED_TOKENS)),
        ("--max_seq_len", str(plan.request.context)),
        ("--extra_llm_api_options", config),
        ("--host", host, "--port", port),
    )
