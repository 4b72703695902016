"""TensorRT-LLM: ``trtllm-serve`` and its ``extra-llm-api-config.yml``.

Options checked against NVIDIA/TensorRT-LLM at 00209af1 (tensorrt_llm/commands/serve.py) and 04c8822c
(docs/source/features/speculative-decoding.md), the fields of the YAML against its API reference 1.4.0rc1
(Eagle3DecodingConfig and the others). DraftTarget without overlap scheduler and reuse of cached prompts
is NVIDIA's own example (dgx-spark-playbooks at 2022e2b2, nvidia/speculative-decoding). The server has no
copies of its own: each is a server, at the next port.
"""

from __future__ import annotations

import math
from typing import Any

from app.deploy.estimate.assumptions import BATCHED_TOKENS, MEMORY_SHARE
from app.deploy.formats import FP8
from app.deploy.plan import Plan
from app.deploy.render.rendered import (
    ANYWHERE,
    LOOPBACK,
    PORT,
    Options,
    Rendered,
    Shell,
    as_yaml,
    command,
    docker,
    each_copy,
    says,
    script,
)

CHECKED = "TensorRT-LLM 1.3 and 1.4.0rc1"
IMAGE = "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12"
CONFIG = "extra-llm-api-config.yml"

DECODING_TYPES = {
    "ngram": "NGram",
    "suffix": "SA",
    "draft_model": "DraftTarget",
    "eagle3": "Eagle3",
    "mtp": "MTP",
    "dflash": "DFlash",
}
"""``speculative_config.decoding_type`` of each method."""

WITHOUT_OVERLAP = ("ngram", "draft_model")
"""Methods whose examples in the documentation turn the overlap scheduler off."""


def render(plan: Plan) -> Rendered:
    """Return the server's command with its YAML, plain and in NVIDIA's image."""
    comments = says(plan, CHECKED)
    copies = plan.copies_per_start
    if copies > 1:
        port = Shell(f"$(({PORT} + copy))")
        start = script(each_copy(plan, _serve(plan, CONFIG, LOOPBACK, port)), "wait", says=comments)
        comments = [*comments, f"One of the {copies} copies; give each its own --gpus and port."]
    else:
        start = script(command(_serve(plan, CONFIG, LOOPBACK)), says=comments)
    inside = docker(
        plan,
        IMAGE,
        _serve(plan, f"/plan/{CONFIG}", ANYWHERE),
        mounts=[f'"$PWD/{CONFIG}:/plan/{CONFIG}:ro"'],
    )
    return Rendered(start, script(inside, says=comments), {CONFIG: as_yaml(extra_config(plan))})


def extra_config(plan: Plan) -> dict[str, Any]:
    """Return the YAML for what the command has no options for."""
    config: dict[str, Any] = {}
    if plan.request.method in WITHOUT_OVERLAP:
        config["disable_overlap_scheduler"] = True
    speculation = speculative_config(plan)
    if speculation is not None:
        config["speculative_config"] = speculation
    cache: dict[str, Any] = {"free_gpu_memory_fraction": free_share(plan)}
    if plan.request.method == "draft_model":
        cache["enable_block_reuse"] = False
    if plan.request.kv_cache_dtype == FP8:
        cache["dtype"] = FP8
    config["kv_cache_config"] = cache
    config["cuda_graph_config"] = {"enable_padding": True, "max_batch_size": plan.sequences}
    return config


def speculative_config(plan: Plan) -> dict[str, Any] | None:
    """Return the YAML's ``speculative_config``; None for plain decoding."""
    if not plan.drafts:
        return None
    config: dict[str, Any] = {
        "decoding_type": DECODING_TYPES[plan.request.method],
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
        "max_batch_size": plan.sequences,
        "max_num_tokens": BATCHED_TOKENS,
        "max_seq_len": plan.request.context,
        **extra_config(plan),
    }


def on_nodes(plan: Plan, start: tuple[str, ...]) -> tuple[str, ...]:
    """Return ``start``, for a copy on several nodes with a rank for each GPU, as in NVIDIA's two-node
    example."""
    if plan.nodes == 1:
        return start
    return ("mpirun", "-np", str(plan.layout.copy), "trtllm-llmapi-launch", *start)


def _serve(plan: Plan, config: str, host: str, port: str = str(PORT)) -> Options:
    start = on_nodes(plan, ("trtllm-serve", plan.target.name))
    options: Options = [start, ("--backend", "pytorch"), ("--tp_size", str(plan.layout.tensor))]
    if plan.layout.pipeline > 1:
        options.append(("--pp_size", str(plan.layout.pipeline)))
    return [
        *options,
        ("--max_batch_size", str(plan.sequences)),
        ("--max_num_tokens", str(BATCHED_TOKENS)),
        ("--max_seq_len", str(plan.request.context)),
        ("--extra_llm_api_options", config),
        ("--host", host, "--port", port),
    ]
