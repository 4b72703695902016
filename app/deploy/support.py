"""Combinations that the engines' documentation excludes, and notes on plans.

Checked in November 2026 against: vLLM's repository at 002e77c1 (vllm/config/speculative.py) and its
docs/features/speculative_decoding of that autumn; SGLang 0.5.23, its repository at 16974b80
(docs_new/docs/advanced_features/speculative_decoding.mdx) and pull request 30775; TensorRT-LLM's at
04c8822c (docs/source/features/speculative-decoding.md) and 01edceae (feature-combination-matrix.md);
Dynamo's documentation 1.6 and its examples/backends at 04521f47.
"""

from __future__ import annotations

from types import MappingProxyType

from app.deploy.formats import NVFP4, has_units
from app.deploy.methods import CAN, DYNAMO, METHODS, NAMES, NONE, SGLANG, TRTLLM, VLLM
from app.deploy.model import STAND_IN
from app.deploy.plan import Plan
from app.deploy.request import PlanRequest
from engine.errors import InvalidRequest

POOR_GAIN = 0.7
"""Speed-up as a share of the tokens of a round, below which a note on experts is due."""


def check(request: PlanRequest) -> None:
    """Raise InvalidRequest, with a remedy, if engine, method and target cannot be combined."""
    engine = request.computes
    if request.method not in CAN[engine]:
        others = [NAMES[name] for name, methods in CAN.items() if request.method in methods]
        raise InvalidRequest(
            "method",
            f"{NAMES[engine]} has no {request.of_method.title}. It has "
            f"{', '.join(name for name in METHODS if name in CAN[engine])}; {' and '.join(others)} "
            f"{'has' if len(others) == 1 else 'have'} {request.method}.",
        )
    if request.method == "mtp" and not request.target.next_token_weights:
        raise InvalidRequest(
            "method",
            f"{request.target.id} has no module for multi-token prediction "
            "(num_nextn_predict_layers in its config.json). Choose another method.",
        )


def pipelines(request: PlanRequest) -> bool:
    """Return whether pipeline stages are supported: in all engines without drafts, in none with them.

    vLLM's README of speculative decoding ("known feature incompatibility", and its issue 57755 for 0.28
    and 0.29), SGLang's pull request 30775 (behind SGLANG_ENABLE_PP_SPEC), TensorRT-LLM's matrix.
    """
    return request.method == NONE


def notes(plan: Plan) -> tuple[str, ...]:
    """Return what to know before starting the plan, in sentences."""
    return (*_about_gpus(plan), *_about_speed(plan), *_of_engine(plan), *_about_names(plan))


def _about_gpus(plan: Plan) -> list[str]:
    gpu, notes = plan.request.gpus.kind, []
    if plan.idle:
        notes.append(f"{plan.idle} of {plan.request.gpus.count} GPUs stay free for something else.")
    if plan.layout.tensor > 1 and not gpu.nvlink:
        notes.append(
            f"{gpu.name} has no NVLink: GPUs wait for each other over "
            f"{'the network' if plan.layout.tensor > gpu.node else 'PCIe'} in every layer."
        )
    elif plan.layout.tensor > gpu.node:
        notes.append(
            f"Every layer is split over {plan.nodes} nodes, as stages and drafts do not combine: this "
            "needs a network of some 400 Gb/s for each GPU."
        )
    if not has_units(gpu, plan.target.format):
        notes.append(
            f"{gpu.name} has no units for {plan.target.format}: weights are widened to 16 bits, which "
            "saves memory and reading, not computing."
        )
    return notes


def _about_speed(plan: Plan) -> list[str]:
    if not plan.drafts:
        return []
    notes, stops = [], plan.estimate.stops_at
    if plan.estimate.gain <= 1:
        notes.append(
            f"At this load the estimate is slower with drafts ({plan.estimate.gain:.2f} times): plan "
            "without them, or with a smaller depth or more copies."
        )
    if stops == 1:
        notes.append("By the estimate drafts never pay here, however few users there are.")
    elif stops is not None:
        notes.append(f"By the estimate drafts stop paying at {stops:,} users of one copy.")
    if plan.target.experts and plan.estimate.gain < plan.estimate.tokens_a_round * POOR_GAIN:
        notes.append(
            "Verifying several tokens of few users reads more experts than one token does: a mixture of "
            "experts gains less from drafts at small loads than a dense model."
        )
    return notes


def _of_engine(plan: Plan) -> list[str]:
    notes = list(_NOTES.get((plan.request.computes, plan.request.method), ()))
    if plan.request.computes == TRTLLM and plan.drafts:
        notes += _TRTLLM
    if plan.request.engine == TRTLLM and plan.nodes > 1:
        notes.append(
            "Over several nodes trtllm-serve is started once, by mpirun or Slurm, which reach them all."
        )
    if plan.target.latent and plan.layout.tensor > 1:
        notes.append(
            "Every GPU holds the whole cache of latent attention. For many users look at attention by "
            "users (--enable-dp-attention in SGLang, enable_attention_dp in TensorRT-LLM, data "
            "parallelism with experts in vLLM), which this plan does not reckon with."
        )
    if (
        plan.request.computes == TRTLLM
        and plan.target.format == NVFP4
        and not plan.request.gpus.kind.fp4
    ):
        notes.append("TensorRT-LLM multiplies NVFP4 on Blackwell GPUs only.")
    if plan.request.computes == VLLM and plan.scheduled:
        if plan.data_parallel > 1:
            notes.append(
                "vLLM switches num_speculative_tokens_per_batch_size off under data parallelism, so the "
                "plan leaves it out."
            )
        elif plan.estimate.best_depth != plan.depth:
            notes.append(
                f"What is expected is for {plan.depth} drafted tokens a round. The files let vLLM draft "
                f"as many as suit the load, {plan.estimate.best_depth} at this one, which is faster."
            )
    if plan.request.engine == DYNAMO and plan.drafts and plan.request.computes != VLLM:
        notes.append(
            "Dynamo documents speculative decoding for vLLM with EAGLE-3 only; with "
            f"{NAMES[plan.request.computes]} the worker hands its options through."
        )
    return notes


def _about_names(plan: Plan) -> list[str]:
    notes = []
    if plan.target.name.startswith("meta-llama/"):
        notes.append("Meta's models are gated: HF_TOKEN must be that of an account with access.")
    if plan.draft is not None and plan.draft.startswith("z-lab/Qwen3-"):
        notes.append(f"{plan.draft} was published for replies without thinking.")
    for name in (plan.target.name, plan.draft):
        if name is not None and name.startswith(STAND_IN):
            notes.append(
                f"Write the model's folder in transformers' layout in place of {name}, or plan for it: "
                "engines for GPUs load no GGUF files. Sizes are those of its 16-bit weights."
            )
    return notes


_TRTLLM = (
    "TensorRT-LLM combines drafts neither with pipeline parallelism, its C++ sampler nor logits post "
    "processors.",
)

_SGLANG_SYNCHRONOUS = (
    "SGLang turns its overlap scheduler and mixed chunked prefill off for this method, and it does not "
    "combine with --enable-dp-attention."
)

_NOTES: MappingProxyType[tuple[str, str], tuple[str, ...]] = MappingProxyType(
    {
        (VLLM, "suffix"): (
            "With vLLM's first model runner suffix decoding needs `pip install arctic-inference`; the "
            "second verifies every slot, which at many users costs more than it brings.",
        ),
        (VLLM, "draft_model"): (
            "vLLM needs draft and target to have one vocabulary, and splits the draft over as many GPUs "
            "as the target, or over one.",
        ),
        (VLLM, "mtp"): (
            "More than one token a round reuses the same module, and fewer are accepted.",
        ),
        (VLLM, "mlp_speculator"): (
            "vLLM runs MLP speculators on one GPU of the target's; its issue 34106 has "
            "llama3-70b-accelerator failing in some versions.",
        ),
        (SGLANG, "ngram"): ("SGLang drafts from n-grams on CUDA only.", _SGLANG_SYNCHRONOUS),
        (SGLANG, "dflash"): (_SGLANG_SYNCHRONOUS,),
        (SGLANG, "draft_model"): (
            "A draft model does not combine with --enable-dp-attention in SGLang.",
        ),
        (SGLANG, "eagle"): ("The overlap scheduler allows one branch only: topk is 1.",),
        (SGLANG, "eagle3"): ("The overlap scheduler allows one branch only: topk is 1.",),
        (TRTLLM, "suffix"): (
            "TensorRT-LLM's suffix automaton (SA) looks a request's own text up, not past replies.",
        ),
        (TRTLLM, "eagle3"): ("Checkpoints of EAGLE 1 and 2 do not work.",),
        (TRTLLM, "mtp"): ("TensorRT-LLM has MTP for DeepSeek's models only.",),
        (TRTLLM, "ngram"): (
            "The overlap scheduler is off, as TensorRT-LLM's documentation has it for n-grams.",
        ),
        (TRTLLM, "draft_model"): (
            "The overlap scheduler and the reuse of cached prompts are off, as NVIDIA's own example of "
            "DraftTarget has it.",
        ),
    }
)
