"""Combinations that engines exclude, and notes on plans.

Checked in November 2026 against the wheels of vLLM 0.31.0 (vllm/config/speculative.py and its model
registry, whose classes tests/app/deploy/test_vllm_parses.py constructs), SGLang 0.5.21
(srt/arg_groups/speculative_hook.py) and ai-dynamo 1.6.1; vLLM's docs/features/speculative_decoding of
that autumn; SGLang's pull request 30775; TensorRT-LLM's docs/source/features/speculative-decoding.md at
04c8822c and feature-combination-matrix.md at 01edceae.
"""

from __future__ import annotations

from typing import Literal

from app.deploy.gpus import AUTO, FORMATS, TURING, has_units, runs
from app.deploy.methods import CAN, DYNAMO, METHODS, NAMES, NONE, REFUSED, TRTLLM, VLLM, Needs
from app.deploy.model import STAND_IN, entry_of, methods_of, published_heads
from app.deploy.request import Plan, PlanRequest
from app.deploy.tables import table
from engine.errors import InvalidRequest
from engine.values.units import counted

POOR_GAIN = 0.7
"""Speed-up as a share of the tokens of a round, below which a note on experts is due."""

HIGH_ACCEPTANCE, LOW_ACCEPTANCE = 0.7, 0.4
"""Over the first draft more, under the second less or nothing: rules of the engines' guides."""


def check(request: PlanRequest) -> None:
    """Raise InvalidRequest, with a remedy, if engine, method, target, format and GPU cannot be
    combined."""
    _check_format(request)
    engine = request.computes
    if request.method not in CAN[engine]:
        others = [NAMES[name] for name, methods in CAN.items() if request.method in methods]
        raise InvalidRequest(
            "method",
            f"{NAMES[engine]} does not support the method {request.method}. It "
            f"supports {', '.join(name for name in METHODS if name in CAN[engine])}; "
            f"{' and '.join(others)} {'supports' if len(others) == 1 else 'support'} "
            f"{request.method}.",
        )
    if request.method == "mtp":
        _check_modules(request)


def _check_format(request: PlanRequest) -> None:
    engine, gpu = request.computes, request.gpus.kind
    weights = request.target.format if request.quantization == AUTO else request.quantization
    if request.engine == DYNAMO and gpu.is_amd:
        raise InvalidRequest(
            "engine",
            f"Dynamo has no image for AMD's GPUs, such as {gpu.name}. Take vLLM or SGLang.",
        )
    if runs(engine, weights, gpu):
        return
    here = [each for each in FORMATS if runs(engine, each, gpu)]
    if not here:
        raise InvalidRequest(
            "engine",
            f"{NAMES[engine]} does not run on {gpu.name} ({gpu.architecture}). Take "
            f"{' or '.join(NAMES[each] for each in CAN if runs(each, weights, gpu)) or 'another GPU'}.",
        )
    others = [NAMES[each] for each in CAN if runs(each, weights, gpu)]
    instead = f"; {' and '.join(others)} run {weights} there" if others else ""
    raise InvalidRequest(
        "quantization",
        f"{NAMES[engine]} does not run {weights} on {gpu.name} ({gpu.architecture}). It runs "
        f"{', '.join(here)}{instead}.",
    )


def _check_modules(request: PlanRequest) -> None:
    target, engine = request.target, request.computes
    if assistant_of(request):
        if engine == TRTLLM:
            raise InvalidRequest(
                "method", "TensorRT-LLM has no Gemma 4 assistants. Take vLLM or SGLang."
            )
        return
    if not target.modules:
        raise InvalidRequest(
            "method",
            f"{target.id} has no MTP layer (num_nextn_predict_layers in its config.json). Choose "
            "another method.",
        )
    if engine == TRTLLM and not target.latent:
        raise InvalidRequest(
            "method",
            f"TensorRT-LLM has MTP for models with latent attention, such as DeepSeek's, not for "
            f"{target.id}. Take vLLM or SGLang.",
        )


def assistant_of(request: PlanRequest) -> str | None:
    """Return the model that holds the target's MTP layers: Gemma 4 has them beside it."""
    if request.draft is not None:
        return request.draft
    entry = entry_of(request.target)
    return entry.drafters.get("assistant") if entry else None


def check_head(request: PlanRequest, name: str) -> None:
    """Raise InvalidRequest for a head that the engine does not read, or of another method or target, as
    far as its name and the table of published ones tell."""
    lower, engine = name.casefold(), request.computes
    of_other = next((kind for start, kind in OTHER_HEADS.items() if lower.startswith(start)), None)
    if of_other is not None:
        raise InvalidRequest("draft", f"{name} is a head of {of_other}. {REFUSED[of_other]}")
    if not reads(engine, name):
        raise InvalidRequest(
            "draft",
            f"{name} is in the format of the library speculators, which vLLM reads. {NAMES[engine]} has "
            "no reader of it that we know of. Take vLLM, another head or another method.",
        )
    heads = published_heads().get(lower, ())
    if not heads:
        return
    if request.method not in {method for method, _ in heads}:
        raise InvalidRequest(
            "draft", f"{name} is a head for the method {heads[0][0]}. Choose that."
        )
    targets = [target for _, target in heads]
    if entry_of(request.target) and request.target.id not in targets:
        raise InvalidRequest(
            "draft",
            f"{name} was trained for {targets[0]}, not for {request.target.id}. Leave it out.",
        )


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
    return (
        *plan.request.told,
        *_about_gpus(plan),
        *_about_layout(plan),
        *_about_service(plan),
        *_about_speed(plan),
        *_about_depth(plan),
        *_of_engine(plan),
        *_about_names(plan),
    )


def _said(*notes: str | Literal[False]) -> list[str]:
    """Return the notes without those whose condition is false."""
    return [note for note in notes if note]


def _about_gpus(plan: Plan) -> list[str]:
    gpu, layout, form = plan.request.gpus.kind, plan.layout, plan.target.format
    slow = layout.tensor > 1 and not gpu.nvlink
    halved = gpu.architecture == TURING and form != "fp8"
    return _said(
        plan.idle > 0
        and f"{plan.idle} of {plan.request.gpus.count} GPUs "
        f"{'stays' if plan.idle == 1 else 'stay'} free.",
        slow
        and f"{gpu.name} has no NVLink: in every layer GPUs wait for each other over "
        f"{'the network' if layout.tensor > gpu.node else 'PCIe'}.",
        not slow
        and layout.tensor > gpu.node
        and f"Every layer is split over {plan.nodes} nodes, because stages cannot be "
        "combined with drafts. This needs a network of about 400 Gb/s per GPU.",
        halved and f"{gpu.name} has no bf16: weights are loaded as float16.",
        not halved
        and not has_units(gpu, form)
        and f"{gpu.name} cannot compute in {form}: weights are converted to 16 bits, which "
        "saves memory and bandwidth, not compute.",
        plan.request.price is not None
        and not plan.has_ground
        and "The price is not used: without speeds no cost is known.",
    )


def _about_layout(plan: Plan) -> list[str]:
    layout = plan.layout
    if layout.attention > 1:
        return [
            f"Attention is data-parallel: each of {layout.attention} GPUs holds the KV cache of its own "
            "users, and whole experts."
        ]
    return _said(
        layout.expert > 1
        and f"Experts are spread over {layout.expert} GPUs without splitting any: a part would not be a "
        f"multiple of {plan.target.block} weights, which engines require.",
        layout.expert == 1
        and plan.target.latent > 0
        and layout.tensor > 1
        and "Every GPU holds the whole cache of latent attention; with more users the plan divides users "
        "among GPUs instead.",
    )


def _about_service(plan: Plan) -> list[str]:
    return _said(
        plan.request.by_rate
        and f"The files admit {counted(plan.sequences, 'request')} at once per replica, with a mean of "
        f"{plan.layout.users(plan.request.users):,}, so that those of a burst seldom wait. Requests "
        f"of more than {plan.request.context:,} tokens are refused: plan with a longer context for them."
    )


def _about_speed(plan: Plan) -> list[str]:
    if not plan.drafts or not plan.has_ground:
        return []
    estimate, tokens = plan.estimate, counted(plan.depth, "drafted token")
    adapted, best = "the files let vLLM adapt it to the load", estimate.best_depth
    stops = estimate.stops_at
    return _said(
        best == 0
        and f"At this load drafting is estimated to be slower ({estimate.gain:.2f} times): "
        f"{adapted if plan.adapts else 'plan without it, or with more replicas'}.",
        best not in (0, plan.depth)
        and f"The estimate is for {tokens} per round. At this load {best} would be faster: "
        f"{adapted if plan.adapts else 'choose that depth'}.",
        stops == 1
        and f"By this estimate {tokens} per round do not help here for any number of users.",
        stops not in (None, 1)
        and f"By this estimate {tokens} per round help up to {(stops or 0) - 1:,} users per replica.",
        plan.target.experts > 0
        and estimate.gain < estimate.tokens_a_round * POOR_GAIN
        and "For few users, verifying several tokens reads more experts than one token "
        "does, so a mixture of experts gains less from drafting than a dense model.",
    )


def _about_depth(plan: Plan) -> list[str]:
    return _said(
        plan.drafts
        and "Measure with your own texts; the test call below prints the counts. If more than "
        f"{HIGH_ACCEPTANCE:.0%} of all drafted tokens are accepted, draft more. If fewer than "
        f"{LOW_ACCEPTANCE:.0%} are, draft fewer or none.",
        plan.drafts
        and "The acceptance rate of a plan is another number: how likely a token is "
        "accepted after accepted ones. A plan made with --from http://SERVER takes it from "
        "that server's counts.",
        plan.drafts
        and plan.request.task == "creative"
        and "For creative writing at temperatures above 1, and for replies of a few "
        "tokens, drafts seldom pay: compare with no drafts.",
    )


def _of_engine(plan: Plan) -> list[str]:
    engine = plan.request.computes
    return [
        *_NOTES[engine].get(plan.request.method, ()),
        *(_NOTES[TRTLLM]["drafts"] if engine == TRTLLM and plan.drafts else ()),
        *_said(
            plan.request.engine == TRTLLM
            and plan.nodes > 1
            and "Over several nodes trtllm-serve is started once, by mpirun or Slurm, "
            "which reach them all.",
            engine == VLLM
            and plan.scheduled
            and not plan.adapts
            and "vLLM ignores num_speculative_tokens_per_batch_size with data parallelism, "
            "so the plan leaves it out.",
        ),
    ]


def _about_names(plan: Plan) -> list[str]:
    engine, method, draft = plan.request.computes, plan.request.method, plan.draft
    names = [name for name in (plan.target.name, draft) if name]
    gated = [name for name in names if name.startswith(GATED)]
    head = draft is not None and plan.method.needs is Needs.HEAD
    entry = entry_of(plan.target)
    others = [
        name
        for name in (entry.speculators if entry and head else ())
        if reads(engine, name) and method in methods_of(name) and name != draft
    ]
    return [
        *_said(
            bool(gated)
            and f"Gated: {' and '.join(gated)}. Ask for access on its page, then set HF_TOKEN.",
            plan.target.own_tokenizer
            and f"The tokenizer of {plan.target.name} is a program among its files. The "
            "plan lets the engine run it (trust remote code): read it first.",
            bool(others)
            and f"Other heads published for it, to name as the draft: {', '.join(others)}.",
            head
            and (draft or "").casefold() not in published_heads()
            and f"{draft} is not in the table of published heads: that it is one of {method} for "
            f"{plan.target.id} was not checked.",
            draft is not None
            and draft.startswith("z-lab/Qwen3-")
            and f"{draft} was published for replies without thinking.",
        ),
        *(
            f"Replace {name} with the model's folder in transformers layout, or plan for "
            "that: GPU engines do not load GGUF files. The sizes are those of its 16-bit weights."
            for name in names
            if name.startswith(STAND_IN)
        ),
    ]


GATED = ("meta-llama/",)
"""Publishers whose models need an access request."""


_NOTES = table("notes")
