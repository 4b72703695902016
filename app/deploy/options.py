"""A plan's options as text and numbers, for the command line and the page; see ``PlanRequest``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


def _option(text: str, default: Any = None) -> Any:
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """The options, unchecked."""

    target: str
    gpus: str
    engine: str = _option("vllm, sglang, trtllm or dynamo.", "vllm")
    method: str = _option(
        "Drafting method: none, ngram, suffix, draft_model, eagle, eagle3, medusa, mtp, dflash or "
        "dspark.",
        "none",
    )
    draft: str | None = _option(
        "A draft model, or a head for the target. Default: a published one."
    )
    depth: int | None = _option("Drafted tokens per round. Default: the fastest for so many users.")
    users: int | None = _option("Concurrent users. Default: 8, or what --rps needs.")
    context: int | None = _option("Tokens of prompt and reply together. Default: 8192, or fewer.")
    quantization: str = _option(
        "auto (as published), bf16, fp8, awq, int4, nvfp4 or mxfp4.", "auto"
    )
    kv_cache_dtype: str = _option("auto (16 bits) or fp8.", "auto")
    acceptance: float | None = _option(
        "Chance that the next drafted token is accepted. Default: the method's."
    )
    backend: str | None = _option("Backend of dynamo: vllm, sglang or trtllm. Default: vllm.")
    task: str | None = _option("Kind of replies, for the depth: code, json, chat or creative.")
    isl: int | None = _option("Tokens of a prompt, for targets.")
    osl: int | None = _option("Tokens of a reply, for targets.")
    rps: float | None = _option("Target: requests per second.")
    ttft: float | None = _option("Target: milliseconds to the first token, mean.")
    itl: float | None = _option("Target: milliseconds between tokens, mean.")
    price: float | None = _option("Price of a GPU for an hour, for the cost of a million tokens.")
    server: str | None = None
