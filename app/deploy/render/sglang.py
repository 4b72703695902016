"""SGLang: ``python3 -m sglang.launch_server``.

Options checked against release 0.5.23, whose own parser has read them (tests/app/deploy/
test_sglang_parses.py), and sgl-project/sglang at 16974b80
(docs_new/docs/advanced_features/speculative_decoding.mdx). The overlap scheduler that speculation runs in
takes one branch only, so drafts are chains: topk 1, and num-draft-tokens, which counts the last token
too, is one more than the depth.
"""

from __future__ import annotations

import math

from app.deploy.formats import BF16, FP8, NVFP4
from app.deploy.plan import Plan
from app.deploy.render.rendered import (
    ANYWHERE,
    LOOPBACK,
    PORT,
    Options,
    Rendered,
    Shell,
    one_server,
)

CHECKED = "SGLang 0.5.23"
IMAGE = "lmsysorg/sglang:v0.5.23"
RENDEZVOUS = 50000

ALGORITHMS = {
    "ngram": "NGRAM",
    "draft_model": "STANDALONE",
    "eagle": "EAGLE",
    "eagle3": "EAGLE3",
    "mtp": "NEXTN",
    "dflash": "DFLASH",
}
"""``--speculative-algorithm`` of each method."""


def render(plan: Plan) -> Rendered:
    """Return the server's command, plain and in SGLang's image."""
    return one_server(plan, CHECKED, IMAGE, _serve(plan, LOOPBACK), _serve(plan, ANYWHERE))


def engine_options(plan: Plan) -> Options:
    """Return the engine's options, for SGLang's server and Dynamo's worker alike."""
    layout, request = plan.layout, plan.request
    options: Options = [("--tp-size", str(layout.tensor))]
    if layout.pipeline > 1:
        options.append(("--pp-size", str(layout.pipeline)))
    options += [
        ("--context-length", str(request.context)),
        ("--max-running-requests", str(plan.sequences)),
        ("--mem-fraction-static", f"{_static_share(plan):.2f}"),
    ]
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
    method = plan.request.method
    if method not in ALGORITHMS:
        return []
    options: Options = [("--speculative-algorithm", ALGORITHMS[method])]
    if plan.draft is not None:
        options.append(("--speculative-draft-model-path", plan.draft))
        if plan.target.format != BF16 and _in_16_bits(plan):
            options.append(("--speculative-draft-model-quantization", "unquant"))
    if method == "ngram":
        options.append(("--speculative-ngram-max-bfs-breadth", "1"))
    elif method != "dflash":
        options += [("--speculative-num-steps", str(plan.depth)), ("--speculative-eagle-topk", "1")]
    return [*options, ("--speculative-num-draft-tokens", str(plan.depth + 1))]


def _in_16_bits(plan: Plan) -> bool:
    """Return True for heads; a draft model may have the target's format."""
    return plan.draft_model is None or plan.draft_model.format == BF16


def _serve(plan: Plan, host: str) -> Options:
    copies = plan.copies_per_start
    options: Options = [
        ("python3", "-m", "sglang.launch_server"),
        ("--model-path", plan.target.name),
        *engine_options(plan),
    ]
    if copies > 1:
        options.append(("--dp-size", str(copies)))
    return [*options, *node_options(plan), ("--host", host, "--port", str(PORT))]
