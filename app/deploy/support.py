"""Combinations that engines exclude, and notes on plans.

Checked in November 2026 against the wheels of vLLM 0.31.0 (vllm/config/speculative.py and its model
registry, whose classes tests/app/deploy/test_vllm_parses.py constructs), SGLang 0.5.21
(srt/arg_groups/speculative_hook.py) and ai-dynamo 1.6.1; vLLM's docs/features/speculative_decoding of
that autumn; SGLang's pull request 30775; TensorRT-LLM's docs/source/features/speculative-decoding.md at
04c8822c and feature-combination-matrix.md at 01edceae.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from app.deploy.gpus import AUTO, FORMATS, TURING, has_units, runs
from app.deploy.methods import CAN, DYNAMO, METHODS, NAMES, NONE, REFUSED, TRTLLM, VLLM, Needs
from app.deploy.model import STAND_IN, entry_of, methods_of, published_heads
from app.deploy.request import Plan, PlanRequest
from app.deploy.tables import TEXTS, refusal
from engine.values.units import counted

POOR_GAIN = 0.7
"""Speed-up as a share of the tokens of a round, below which a note on experts is due."""


def check(request: PlanRequest) -> None:
    """Raise InvalidRequest, with a remedy, if engine, method, target, format and GPU cannot be
    combined."""
    engine, method = request.computes, request.method
    target, gpu = request.target, request.gpus.kind
    name = NAMES[engine]
    weights = target.format if request.quantization == AUTO else request.quantization
    if request.engine == DYNAMO and gpu.is_amd:
        raise refusal("engine", "amd-dynamo", gpu=gpu)
    if not runs(engine, weights, gpu):
        here = ", ".join(each for each in FORMATS if runs(engine, each, gpu))
        others = [NAMES[each] for each in CAN if runs(each, weights, gpu)]
        if not here:
            instead = " or ".join(others) or "another GPU"
            raise refusal("engine", "no-gpu", engine=name, gpu=gpu, others=instead)
        also = f"; {' and '.join(others)} run {weights} there" if others else ""
        raise refusal(
            "quantization",
            "no-format",
            engine=name,
            weights=weights,
            gpu=gpu,
            here=here,
            instead=also,
        )
    if method not in CAN[engine]:
        known = ", ".join(each for each in METHODS if each in CAN[engine])
        others = [NAMES[each] for each, methods in CAN.items() if method in methods]
        told = f"{' and '.join(others)} {'supports' if len(others) == 1 else 'support'}"
        raise refusal("method", "no-method", engine=name, method=method, known=known, others=told)
    if method != "mtp":
        return
    if assistant_of(request):
        if engine == TRTLLM:
            raise refusal("method", "assistants")
    elif not target.modules:
        raise refusal("method", "no-mtp", target=target)
    elif engine == TRTLLM and not target.latent:
        raise refusal("method", "latent-mtp", target=target)


def assistant_of(request: PlanRequest) -> str | None:
    """Return the model that holds the target's MTP layers: Gemma 4 has them beside it."""
    if request.draft is not None:
        return request.draft
    entry = entry_of(request.target)
    return entry.drafters.get("assistant") if entry else None


def check_head(request: PlanRequest, name: str) -> None:
    """Raise InvalidRequest for a head that the engine does not read, or of another method or target, as
    far as its name and the table of published ones tell."""
    lower, target = name.casefold(), request.target
    for start, method in OTHER_HEADS.items():
        if lower.startswith(start):
            raise refusal("draft", "head-of-refused", name=name, method=method, why=REFUSED[method])
    if not reads(request.computes, name):
        raise refusal("draft", "speculators", name=name, engine=NAMES[request.computes])
    heads = published_heads().get(lower, ())
    if heads and request.method not in {method for method, _ in heads}:
        raise refusal("draft", "head-of-method", name=name, method=heads[0][0])
    if heads and entry_of(target) and target.id not in {id for _, id in heads}:
        raise refusal("draft", "head-of-target", name=name, other=heads[0][1], target=target)


def reads(engine: str, head: str) -> bool:
    """Return whether ``engine`` reads the head's format: "Eagle3Speculator" and "speculators_config" are
    in vLLM's wheel (transformers_utils/configs/speculators), and not in SGLang's."""
    return engine == VLLM or "-speculator." not in head.casefold()


OTHER_HEADS = {
    "ibm-ai-platform/": "mlp_speculator",
    "ibm-fms/": "mlp_speculator",
    "snowflake/arctic-": "arctic",
}
"""Publishers of heads by methods that no plan has."""


def pipelines(request: PlanRequest) -> bool:
    """Return whether pipeline stages are supported: in all engines without drafts, in none with them.

    vLLM's README of speculative decoding ("known feature incompatibility", and its issue 57755 for 0.28
    and 0.29), SGLang's pull request 30775 (behind SGLANG_ENABLE_PP_SPEC), TensorRT-LLM's matrix.
    """
    return request.method == NONE


def attends_apart(request: PlanRequest) -> bool:
    """Return whether GPUs may attend for their own sequences each: latent attention has one head of keys,
    so that tensor parallelism divides nothing of its cache.

    SGLang combines it with MTP and excludes the other drafters (srt/arg_groups/speculative_hook.py).
    Dynamo's vLLM workers are planned without: each of their ranks would be a worker.
    """
    workers = request.engine == DYNAMO and request.computes == VLLM
    return bool(request.target.latent) and request.method in (NONE, "mtp") and not workers


def notes(plan: Plan) -> tuple[str, ...]:
    """Return what to know before starting the plan, in sentences."""
    engine, method = TEXTS["engines"][plan.request.computes], plan.request.method
    parts = (_about_layout(plan), _about_drafts(plan), _about_engine(plan), _about_names(plan))
    layout, drafts, of_engine, names = ([_said(plan, *each) for each in part] for part in parts)
    known = [*engine.get(method, ()), *(engine.get("drafts", ()) if plan.drafts else ())]
    return (*plan.request.told, *layout, *drafts, *known, *of_engine, *names)


Note = tuple[str, dict[str, Any]]
"""The name of a note, and values that it has beside the plan's."""


def _said(plan: Plan, name: str, values: dict[str, Any]) -> str:
    text: str = TEXTS["notes"][name]
    return text.format(plan=plan, gpu=plan.request.gpus.kind, **values)


def _about_layout(plan: Plan) -> Iterator[Note]:
    request, layout = plan.request, plan.layout
    gpu, weights = request.gpus.kind, plan.target.format
    if plan.idle > 0:
        yield "idle", {"stay": "stays" if plan.idle == 1 else "stay"}
    if layout.tensor > 1 and not gpu.nvlink:
        yield "no-nvlink", {"link": "the network" if layout.tensor > gpu.node else "PCIe"}
    elif layout.tensor > gpu.node:
        yield "split", {}
    if gpu.architecture == TURING and weights != "fp8":
        yield "float16", {}
    elif not has_units(gpu, weights):
        yield "no-units", {}
    if request.price is not None and not plan.has_ground:
        yield "price", {}
    if layout.attention > 1:
        yield "apart", {}
    elif layout.expert > 1:
        yield "whole-experts", {}
    elif plan.target.latent and layout.tensor > 1:
        yield "latent", {}
    if request.by_rate:
        requests = counted(plan.sequences, "request")
        yield "bursts", {"requests": requests, "mean": layout.users(request.users)}


def _about_drafts(plan: Plan) -> Iterator[Note]:
    if not plan.drafts:
        return
    estimate, tokens = plan.estimate, {"tokens": counted(plan.depth, "drafted token")}
    adapts = "the files let vLLM adapt it to the load" if plan.adapts else ""
    if plan.has_ground:
        if estimate.best_depth == 0:
            yield "slower", {"instead": adapts or "plan without it, or with more replicas"}
        elif estimate.best_depth != plan.depth and (adapts or plan.request.depth):  # none of a task
            yield "other-depth", {"instead": adapts or "choose that depth", **tokens}
        if estimate.stops_at is not None:
            yield "never" if estimate.stops_at == 1 else "up-to", tokens
        if plan.target.experts and estimate.gain < estimate.tokens_a_round * POOR_GAIN:
            yield "mixture", {}
    yield "measure", {}
    yield "rate", {}
    if plan.request.task == "creative":
        yield "creative", {}


def _about_engine(plan: Plan) -> Iterator[Note]:
    if plan.request.engine == TRTLLM and plan.nodes > 1:
        yield "mpi", {}
    if plan.request.computes == VLLM and plan.scheduled and not plan.adapts:
        yield "no-schedule", {}


def _about_names(plan: Plan) -> Iterator[Note]:
    engine, method, draft = plan.request.computes, plan.request.method, plan.draft
    names = [name for name in (plan.target.name, draft) if name]
    if gated := " and ".join(name for name in names if name.startswith(GATED)):
        yield "gated", {"names": gated}
    if plan.target.own_tokenizer:
        yield "own-tokenizer", {}
    if draft is not None and plan.method.needs is Needs.HEAD:
        entry = entry_of(plan.target)
        others = [
            name
            for name in (entry.speculators if entry else ())
            if reads(engine, name) and method in methods_of(name) and name != draft
        ]
        if others:
            yield "other-heads", {"others": ", ".join(others)}
        if draft.casefold() not in published_heads():
            yield "unchecked", {"method": method}
    if draft is not None and draft.startswith("z-lab/Qwen3-"):
        yield "no-thinking", {}
    for name in names:
        if name.startswith(STAND_IN):
            yield "gguf", {"name": name}


GATED = ("meta-llama/",)
"""Publishers whose models need an access request."""
