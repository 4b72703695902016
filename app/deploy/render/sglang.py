"""SGLang: ``python3 -m sglang.launch_server``.

Options checked against the wheel of release 0.5.21, whose own parser has read them (tests/app/deploy/
test_sglang_parses.py), and sgl-project/sglang at 16974b80
(docs_new/docs/advanced_features/speculative_decoding.mdx). The overlap scheduler that speculation runs in
takes one branch only, so drafts are chains: topk 1, and num-draft-tokens, which counts the last token
too, is one more than the depth.
"""

from __future__ import annotations

import math

from app.deploy.gpus import BF16, FP8, NVFP4
from app.deploy.methods import ENGINE_TABLE, SGLANG
from app.deploy.render.kubernetes import manifest
from app.deploy.render.rendered import (
    Options,
    Rendered,
    Shell,
    given,
    host,
    image_of,
    inside_host,
    one_server,
)
from app.deploy.request import Plan

RENDEZVOUS = 50000


def render(plan: Plan) -> Rendered:
    """Return the server's command, plain, in SGLang's image, and for a cluster."""
    files = manifest(plan, _serve, {})
    return one_server(
        plan, image_of(plan), _serve(plan, host(plan)), _serve(plan, inside_host(plan)), files=files
    )


def engine_options(plan: Plan) -> Options:
    """Return the engine's options, for SGLang's server and Dynamo's worker alike."""
    layout, request, online = plan.layout, plan.request, plan.quantised_online
    # Weights and KV pool: the available memory without workspace, rounded down.
    share = (plan.memory.available - plan.memory.work) / plan.memory.total
    options = given(
        ("--tp-size", str(layout.tensor)),
        layout.pipeline > 1 and ("--pp-size", str(layout.pipeline)),
        layout.expert > 1 and ("--ep-size", str(layout.expert)),
        layout.attention > 1 and ("--enable-dp-attention", "--dp-size", str(layout.attention)),
        ("--context-length", str(request.context)),
        ("--max-running-requests", str(plan.sequences)),
        ("--mem-fraction-static", f"{math.floor(share * 100) / 100:.2f}"),
        plan.target.own_tokenizer and ("--trust-remote-code",),
        online and ("--quantization", plan.target.format),
        not online and plan.target.format == NVFP4 and ("--quantization", "modelopt_fp4"),
        request.kv_cache_dtype == FP8 and ("--kv-cache-dtype", "fp8_e4m3"),
    )
    return [*options, *_speculation(plan)]


def node_options(plan: Plan) -> Options:
    """Return the options of each node of a copy on several nodes."""
    if plan.nodes == 1:
        return []
    return [
        ("--nnodes", str(plan.nodes), "--node-rank", Shell('"$NODE_RANK"')),
        ("--dist-init-addr", Shell(f'"$HEAD_ADDRESS:{RENDEZVOUS}"')),
    ]


def _speculation(plan: Plan) -> Options:
    if not plan.drafts:
        return []
    method, model = plan.request.method, plan.draft_model
    # A draft model may have the target's format; heads have 16 bits.
    other = plan.target.format != BF16 and (model is None or model.format == BF16)
    steps = method not in ("ngram", "dflash", "dspark")
    return given(
        ("--speculative-algorithm", ENGINE_TABLE[SGLANG].methods[method]),
        plan.draft is not None and ("--speculative-draft-model-path", plan.draft),
        plan.draft is not None and other and ("--speculative-draft-model-quantization", "unquant"),
        method == "ngram" and ("--speculative-ngram-max-bfs-breadth", "1"),
        steps and ("--speculative-num-steps", str(plan.depth)),
        steps and ("--speculative-eagle-topk", "1"),
        ("--speculative-num-draft-tokens", str(plan.depth + 1)),
    )


def _serve(plan: Plan, where: Options) -> Options:
    copies = plan.copies_per_start
    options = given(
        ("--enable-metrics",),
        copies > 1 and plan.layout.attention == 1 and ("--dp-size", str(copies)),
    )
    start: Options = [("python3", "-m", "sglang.launch_server"), ("--model-path", plan.target.name)]
    return [*start, *engine_options(plan), *options, *node_options(plan), *where]
