"""SGLang: ``python3 -m sglang.launch_server``.

Options checked against the wheel of release 0.5.21, whose own parser has read them (tests/app/deploy/
test_sglang_parses.py), and sgl-project/sglang at 16974b80
(docs_new/docs/advanced_features/speculative_decoding.mdx). The overlap scheduler that speculation runs in
takes one branch only, so drafts are chains: topk 1, and num-draft-tokens, which counts the last token
too, is one more than the depth.
"""

from __future__ import annotations

import math

from app.deploy.formats import BF16, FP8, NVFP4
from app.deploy.methods import ENGINE_TABLE, SGLANG
from app.deploy.plan import Plan
from app.deploy.render.kubernetes import manifest
from app.deploy.render.rendered import (
    Options,
    Rendered,
    Shell,
    host,
    image_of,
    inside_host,
    one_server,
)

RENDEZVOUS = 50000


def render(plan: Plan) -> Rendered:
    """Return the server's command, plain, in SGLang's image, and for a cluster."""
    files = manifest(plan, _serve, {})
    return one_server(
        plan, image_of(plan), _serve(plan, host(plan)), _serve(plan, inside_host(plan)), files=files
    )


def engine_options(plan: Plan) -> Options:
    """Return the engine's options, for SGLang's server and Dynamo's worker alike."""
    layout, request = plan.layout, plan.request
    options: Options = [("--tp-size", str(layout.tensor))]
    if layout.pipeline > 1:
        options.append(("--pp-size", str(layout.pipeline)))
    if layout.expert > 1:
        options.append(("--ep-size", str(layout.expert)))
    if layout.attention > 1:
        options.append(("--enable-dp-attention", "--dp-size", str(layout.attention)))
    options += [
        ("--context-length", str(request.context)),
        ("--max-running-requests", str(plan.sequences)),
        ("--mem-fraction-static", f"{_static_share(plan):.2f}"),
    ]
    if plan.target.own_tokenizer:
        options.append(("--trust-remote-code",))
    if plan.quantised_online:
        options.append(("--quantization", plan.target.format))
    elif plan.target.format == NVFP4:
        options.append(("--quantization", "modelopt_fp4"))
    if request.kv_cache_dtype == FP8:
        options.append(("--kv-cache-dtype", "fp8_e4m3"))
    return [*options, *_speculation(plan)]


def node_options(plan: Plan) -> Options:
    """Return the options of each node of a copy on several nodes."""
    if plan.nodes == 1:
        return []
    return [
        ("--nnodes", str(plan.nodes), "--node-rank", Shell('"$NODE_RANK"')),
        ("--dist-init-addr", Shell(f'"$HEAD_ADDRESS:{RENDEZVOUS}"')),
    ]


def _static_share(plan: Plan) -> float:
    """Return the share of weights and KV pool: the available memory without workspace, rounded down."""
    share = (plan.memory.available - plan.memory.work) / plan.memory.total
    return math.floor(share * 100) / 100


def _speculation(plan: Plan) -> Options:
    if not plan.drafts:
        return []
    method = plan.request.method
    options: Options = [("--speculative-algorithm", ENGINE_TABLE[SGLANG].methods[method])]
    if plan.draft is not None:
        options.append(("--speculative-draft-model-path", plan.draft))
        if plan.target.format != BF16 and _in_16_bits(plan):
            options.append(("--speculative-draft-model-quantization", "unquant"))
    if method == "ngram":
        options.append(("--speculative-ngram-max-bfs-breadth", "1"))
    elif method not in ("dflash", "dspark"):
        options += [("--speculative-num-steps", str(plan.depth)), ("--speculative-eagle-topk", "1")]
    return [*options, ("--speculative-num-draft-tokens", str(plan.depth + 1))]


def _in_16_bits(plan: Plan) -> bool:
    """Return True for heads; a draft model may have the target's format."""
    return plan.draft_model is None or plan.draft_model.format == BF16


def _serve(plan: Plan, where: Options) -> Options:
    copies = plan.copies_per_start
    options: Options = [
        ("python3", "-m", "sglang.launch_server"),
        ("--model-path", plan.target.name),
        *engine_options(plan),
        ("--enable-metrics",),
    ]
    if copies > 1 and plan.layout.attention == 1:
        options.append(("--dp-size", str(copies)))
    return [*options, *node_options(plan), *where]
