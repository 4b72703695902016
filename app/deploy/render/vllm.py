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
from app.deploy.formats import FP8
from app.deploy.gpus import TURING
from app.deploy.plan import Plan
from app.deploy.render.kubernetes import manifest
from app.deploy.render.rendered import (
    Options,
    Rendered,
    Shell,
    host,
    image_of,
    inside_host,
    installing,
    needs_arctic,
    one_server,
)

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
    layout, request = plan.layout, plan.request
    apart = layout.attention > 1
    options: Options = [("--tensor-parallel-size", "1" if apart else str(layout.tensor))]
    if layout.pipeline > 1:
        options.append(("--pipeline-parallel-size", str(layout.pipeline)))
    if layout.expert > 1:
        options.append(("--enable-expert-parallel",))
    options += [
        ("--max-model-len", str(request.context)),
        ("--max-num-seqs", str(plan.memory.users)),
        ("--gpu-memory-utilization", f"{MEMORY_SHARE:.2f}"),
    ]
    if plan.target.own_tokenizer:
        options.append(("--trust-remote-code",))
    if request.gpus.kind.architecture == TURING:
        options.append(("--dtype", "half"))
    if plan.quantised_online:
        options.append(("--quantization", plan.target.format))
    if request.kv_cache_dtype == FP8:
        options.append(("--kv-cache-dtype", FP8))
    config = speculative_config(plan)
    if config is not None:
        options.append(("--speculative-config", json.dumps(config)))
        options.append(("--per-request-spec-decode-metrics", "summary"))
    return options


def node_options(plan: Plan) -> Options:
    """Return the options of each node of a copy on several nodes; the first one answers requests."""
    if plan.nodes == 1:
        return []
    headless = (Shell('$([ "$NODE_RANK" = 0 ] || echo --headless)'),)
    if plan.layout.attention > 1:
        here = plan.request.gpus.kind.node
        return [
            ("--data-parallel-size-local", str(here)),
            ("--data-parallel-start-rank", Shell(f'"$((NODE_RANK * {here}))"')),
            ("--data-parallel-address", Shell('"$HEAD_ADDRESS"')),
            headless,
        ]
    return [
        ("--nnodes", str(plan.nodes), "--node-rank", Shell('"$NODE_RANK"')),
        ("--master-addr", Shell('"$HEAD_ADDRESS"')),
        headless,
    ]


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
    options: Options = [("vllm", "serve", plan.target.name), *engine_options(plan)]
    if copies > 1:
        options.append(("--data-parallel-size", str(copies)))
    return [*options, *node_options(plan), *where]


def _in_container(plan: Plan, where: Options) -> Options:
    """Return the container's command, which first installs what a method needs beside vLLM."""
    words = _serve(plan, where)
    return installing(words) if needs_arctic(plan) else words
