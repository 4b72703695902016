"""What vLLM, SGLang and TensorRT-LLM are started with, as servers and as Dynamo's workers.

Checked against the wheels of vLLM 0.31.0 (vllm/engine/arg_utils.py; vllm/config/speculative.py has the
keys of ``--speculative-config``) and SGLang 0.5.21, whose parsers have read these options
(tests/app/deploy/test_vllm_parses.py, test_sglang_parses.py), and of ai-dynamo 1.6.1 (dynamo/vllm,
sglang, trtllm);
sgl-project/sglang at 16974b80 (docs_new/docs/advanced_features/speculative_decoding.mdx);
NVIDIA/TensorRT-LLM at 00209af1 (tensorrt_llm/commands/serve.py) and 04c8822c
(docs/source/features/speculative-decoding.md), and its API reference 1.4.0rc1. What DraftTarget, EAGLE-3
and DGX Spark turn off in TensorRT-LLM is from NVIDIA's own examples (dgx-spark-playbooks at 2022e2b2,
nvidia/speculative-decoding).
"""

from __future__ import annotations

import json
import math
from typing import Any

from app.deploy.estimate.assumptions import BATCHED_TOKENS, MEMORY_SHARE
from app.deploy.gpus import BF16, FP8, NVFP4, TURING
from app.deploy.methods import ENGINE_TABLE, SGLANG, TRTLLM, VLLM
from app.deploy.render.rendered import Options, Shell, given
from app.deploy.request import Plan

SHORTEST, LONGEST = 2, 5
"""N-grams that vLLM looks up: the values of its own example."""

RENDEZVOUS = 50000
"""Port at which SGLang's nodes find each other."""

WITHOUT_OVERLAP, WITHOUT_REUSE = ("ngram", "draft_model"), ("draft_model", "eagle3")
"""Methods whose examples turn TensorRT-LLM's overlap scheduler, or its reuse of cached prompts, off."""


def options_of(plan: Plan) -> Options:
    """Return the options of the engine that computes, for its server and Dynamo's worker alike."""
    return _OPTIONS[plan.request.computes](plan)


def server(plan: Plan, where: Options, copies: int) -> Options:
    """Return the server's command with options of ``where`` it listens, for ``copies`` of the model in
    one server (TensorRT-LLM's has one)."""
    name, apart = plan.target.name, plan.layout.attention
    starts: dict[str, tuple[Options, Options]] = {
        VLLM: (
            [("vllm", "serve", name)],
            given(copies * apart > 1 and ("--data-parallel-size", str(copies * apart))),
        ),
        SGLANG: (
            [("python3", "-m", "sglang.launch_server"), ("--model-path", name)],
            given(("--enable-metrics",), copies > 1 and apart == 1 and ("--dp-size", str(copies))),
        ),
        TRTLLM: ([_on_nodes(plan, "trtllm-serve", name), ("--backend", "pytorch")], []),
    }
    start, own = starts[plan.request.computes]
    return [*start, *options_of(plan), *own, *node_options(plan), *where]


def worker(plan: Plan, file: str, port: str, nodes: Options | None = None) -> Options:
    """Return the command of Dynamo's worker, with the options of ``nodes``, which publishes the events of
    its cache at ``port``; ``file`` has TensorRT-LLM's options."""
    name, engine = plan.target.name, plan.request.computes
    served = ("--served-model-name", name)
    if engine == TRTLLM:
        start = _on_nodes(plan, "python3", "-m", "dynamo.trtllm")
        own: Options = [("--extra-engine-args", file), ("--publish-kv-events",)]
        return [start, ("--model-path", name), served, *own]
    more = {"enable_kv_cache_events": True} if engine == VLLM else {}
    events = {"publisher": "zmq", "topic": "kv-events", "endpoint": "tcp://*:PORT", **more}
    model = [("--model", name)] if engine == VLLM else [("--model-path", name), served]
    return [
        ("python3", "-m", f"dynamo.{engine}"),
        *model,
        *options_of(plan),
        *(nodes or []),
        ("--kv-events-config", _with_port(json.dumps(events), port)),
    ]


def _with_port(config: str, port: str) -> str:
    """Return ``config`` with a port that the shell may expand."""
    if port.isdigit():
        return config.replace("PORT", port)
    before, after = config.split("PORT")
    return Shell(f"'{before}'\"{port}\"'{after}'")


def environment_of(plan: Plan) -> dict[str, str]:
    """Return the environment variables of the method."""
    if plan.adapts:
        return {"VLLM_USE_V2_MODEL_RUNNER": "0"}  # as in vLLM's examples of it with EAGLE
    return {}


def node_options(plan: Plan) -> Options:
    """Return the options of each node of a copy on several nodes; the first one answers requests. MPI
    starts TensorRT-LLM's."""
    if not plan.started_by_rank:
        return []
    here, head = plan.request.gpus.kind.node, Shell('"$HEAD_ADDRESS"')
    ranks = ("--nnodes", str(plan.nodes), "--node-rank", Shell('"$NODE_RANK"'))
    if plan.request.computes == SGLANG:
        return [ranks, ("--dist-init-addr", Shell(f'"$HEAD_ADDRESS:{RENDEZVOUS}"'))]
    options: Options = [ranks, ("--master-addr", head)]
    if plan.layout.attention > 1:
        options = [
            ("--data-parallel-size-local", str(here)),
            ("--data-parallel-start-rank", Shell(f'"$((NODE_RANK * {here}))"')),
            ("--data-parallel-address", head),
        ]
    return [*options, (Shell('$([ "$NODE_RANK" = 0 ] || echo --headless)'),)]


def _on_nodes(plan: Plan, *start: str) -> tuple[str, ...]:
    """Return TensorRT-LLM's ``start``; on several nodes with a rank for each GPU, as in NVIDIA's
    two-node example."""
    mpi = ("mpirun", "-np", str(plan.layout.copy), "trtllm-llmapi-launch")
    return (*mpi, *start) if plan.nodes > 1 else start


def _vllm(plan: Plan) -> Options:
    layout, request, config = plan.layout, plan.request, vllm_speculation(plan)
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
        plan.drafts and ("--speculative-config", json.dumps(config)),
        plan.drafts and ("--per-request-spec-decode-metrics", "summary"),
    )


def vllm_speculation(plan: Plan) -> dict[str, Any]:
    """Return the object of ``--speculative-config``."""
    ngrams = {"prompt_lookup_min": SHORTEST, "prompt_lookup_max": LONGEST}
    return {
        "method": plan.request.method,
        **({"model": plan.draft} if plan.draft is not None else {}),
        "num_speculative_tokens": plan.depth,
        **(ngrams if plan.request.method == "ngram" else {}),
        **({"num_speculative_tokens_per_batch_size": [*map(list, plan.schedule)]}
           if plan.adapts else {}),
    }  # fmt: skip


def _sglang(plan: Plan) -> Options:
    """The overlap scheduler that speculation runs in takes one branch only, so drafts are chains: topk 1,
    and num-draft-tokens, which counts the last token too, is one more than the depth."""
    layout, request, online = plan.layout, plan.request, plan.quantised_online
    method, model, draft = request.method, plan.draft_model, plan.draft
    # Weights and KV pool: the available memory without workspace, rounded down.
    share = (plan.memory.available - plan.memory.work) / plan.memory.total
    # A draft model may have the target's format; heads have 16 bits.
    other = plan.target.format != BF16 and (model is None or model.format == BF16)
    steps = plan.drafts and method not in ("ngram", "dflash", "dspark")
    return given(
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
        plan.drafts and ("--speculative-algorithm", ENGINE_TABLE[SGLANG].methods[method]),
        draft is not None and ("--speculative-draft-model-path", draft),
        draft is not None and other and ("--speculative-draft-model-quantization", "unquant"),
        method == "ngram" and ("--speculative-ngram-max-bfs-breadth", "1"),
        steps and ("--speculative-num-steps", str(plan.depth)),
        steps and ("--speculative-eagle-topk", "1"),
        plan.drafts and ("--speculative-num-draft-tokens", str(plan.depth + 1)),
    )


def _trtllm(plan: Plan) -> Options:
    return given(
        ("--tp_size", str(plan.layout.tensor)),
        plan.layout.pipeline > 1 and ("--pp_size", str(plan.layout.pipeline)),
        plan.target.own_tokenizer and ("--trust_remote_code",),
        ("--max_batch_size", str(plan.memory.users)),
        ("--max_num_tokens", str(BATCHED_TOKENS)),
        ("--max_seq_len", str(plan.request.context)),
    )


_OPTIONS = {VLLM: _vllm, SGLANG: _sglang, TRTLLM: _trtllm}


def trtllm_config(plan: Plan) -> dict[str, Any]:
    """Return TensorRT-LLM's YAML for what its command has no options for."""
    layout, method, memory = plan.layout, plan.request.method, plan.memory
    held = memory.weights + memory.drafter
    # The cache's share of the memory that weights leave: without workspace.
    share = (memory.available - held - memory.work) / (memory.total - held)
    most = plan.drafts_up_to
    speculation = {
        "decoding_type": ENGINE_TABLE[TRTLLM].methods[method],
        "max_draft_len": plan.depth,
        **({"speculative_model": plan.draft} if plan.draft is not None else {}),
        **({"max_matching_ngram_size": 4, "is_public_pool": True} if method == "ngram" else {}),
        **({"max_concurrency": most} if most and most < plan.sequences else {}),
    }
    return {
        **({"moe_expert_parallel_size": layout.expert} if layout.expert > 1 else {}),
        **({"enable_attention_dp": True} if layout.attention > 1 else {}),
        **({"enable_autotuner": False} if plan.request.gpus.kind.name == "GB10" else {}),
        **({"disable_overlap_scheduler": True} if method in WITHOUT_OVERLAP else {}),
        **({"speculative_config": speculation} if plan.drafts else {}),
        "kv_cache_config": {
            "free_gpu_memory_fraction": min(MEMORY_SHARE, math.floor(share * 100) / 100),
            **({"enable_block_reuse": False} if method in WITHOUT_REUSE else {}),
            **({"dtype": FP8} if plan.request.kv_cache_dtype == FP8 else {}),
        },
        "cuda_graph_config": {"enable_padding": True, "max_batch_size": memory.users},
    }


def trtllm_worker_config(plan: Plan) -> dict[str, Any]:
    """Return all options of TensorRT-LLM as one YAML, for Dynamo's worker."""
    return {
        "backend": "pytorch",
        "tensor_parallel_size": plan.layout.tensor,
        "pipeline_parallel_size": plan.layout.pipeline,
        "max_batch_size": plan.memory.users,
        "max_num_tokens": BATCHED_TOKENS,
        "max_seq_len": plan.request.context,
        **({"trust_remote_code": True} if plan.target.own_tokenizer else {}),
        **trtllm_config(plan),
    }
