"""vLLM: ``vllm serve``.

Options checked against the wheel of release 0.31.0 (vllm/engine/arg_utils.py, and
vllm/config/speculative.py, whose keys ``--speculative-config`` takes) and the documentation
(docs/features/speculative_decoding). Its own parser and classes have read them
(tests/app/deploy/test_vllm_parses.py), and plans with n-grams, suffix trees, a draft model and EAGLE-3
were started (tests/app/test_real_servers.py).
"""

from __future__ import annotations

import json
from typing import Any

from app.deploy.estimate.assumptions import MEMORY_SHARE
from app.deploy.gpus import FP8, TURING
from app.deploy.render.kubernetes import manifest
from app.deploy.render.rendered import (
    Options,
    Rendered,
    Shell,
    given,
    host,
    image_of,
    inside_host,
    installing,
    needs_arctic,
    one_server,
)
from app.deploy.request import Plan

SHORTEST, LONGEST = 2, 5
"""N-grams looked up: the values of vLLM's own example."""


def render(plan: Plan) -> Rendered:
    """Return the server's command, plain, in vLLM's image, and for a cluster."""
    inside, environment = _in_container(plan, inside_host(plan)), environment_of(plan)
    files = manifest(plan, _in_container, environment)
    return one_server(plan, image_of(plan), _serve(plan, host(plan)), inside, environment, files)


def environment_of(plan: Plan) -> dict[str, str]:
    """Return the environment variables of the method."""
    if "num_speculative_tokens_per_batch_size" in (speculative_config(plan) or {}):
        return {"VLLM_USE_V2_MODEL_RUNNER": "0"}  # as in vLLM's examples of it with EAGLE
    return {}


def engine_options(plan: Plan) -> Options:
    """Return the engine's options, for vLLM's server and Dynamo's worker alike."""
    layout, request, config = plan.layout, plan.request, speculative_config(plan)
    return given(
        ("--tensor-parallel-size", "1" if layout.attention > 1 else str(layout.tensor)),
        layout.pipeline > 1 and ("--pipeline-parallel-size", str(layout.pipeline)),
        layout.expert > 1 and ("--enable-expert-parallel",),
        ("--max-model-len", str(request.context)),
        ("--max-num-seqs", str(plan.memory.users)),
        ("--gpu-memory-utilization", f"{MEMORY_SHARE:.2f}"),
        plan.target.own_tokenizer and ("--trust-remote-code",),
        request.gpus.kind.architecture == TURING and ("--dtype", "half"),
        plan.quantised_online and ("--quantization", plan.target.format),
        request.kv_cache_dtype == FP8 and ("--kv-cache-dtype", FP8),
        config is not None and ("--speculative-config", json.dumps(config)),
        config is not None and ("--per-request-spec-decode-metrics", "summary"),
    )


def node_options(plan: Plan) -> Options:
    """Return the options of each node of a copy on several nodes; the first one answers requests."""
    if plan.nodes == 1:
        return []
    here, head = plan.request.gpus.kind.node, Shell('"$HEAD_ADDRESS"')
    options: Options = [
        ("--nnodes", str(plan.nodes), "--node-rank", Shell('"$NODE_RANK"')),
        ("--master-addr", head),
    ]
    if plan.layout.attention > 1:
        options = [
            ("--data-parallel-size-local", str(here)),
            ("--data-parallel-start-rank", Shell(f'"$((NODE_RANK * {here}))"')),
            ("--data-parallel-address", head),
        ]
    return [*options, (Shell('$([ "$NODE_RANK" = 0 ] || echo --headless)'),)]


def speculative_config(plan: Plan) -> dict[str, Any] | None:
    """Return the object of ``--speculative-config``; None for plain decoding."""
    if not plan.drafts:
        return None
    method = plan.request.method
    config: dict[str, Any] = {"method": method}
    if plan.draft is not None:
        config["model"] = plan.draft
    config["num_speculative_tokens"] = plan.depth
    if method == "ngram":
        config |= {"prompt_lookup_min": SHORTEST, "prompt_lookup_max": LONGEST}
    if plan.scheduled and plan.data_parallel == 1:
        config["num_speculative_tokens_per_batch_size"] = [list(part) for part in plan.schedule]
    return config


def _serve(plan: Plan, where: Options) -> Options:
    copies = plan.data_parallel * plan.layout.attention
    several = given(copies > 1 and ("--data-parallel-size", str(copies)))
    start = ("vllm", "serve", plan.target.name)
    return [start, *engine_options(plan), *several, *node_options(plan), *where]


def _in_container(plan: Plan, where: Options) -> Options:
    """Return the container's command, which first installs what a method needs beside vLLM."""
    words = _serve(plan, where)
    return installing(words) if needs_arctic(plan) else words
