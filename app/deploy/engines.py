"""The engines that a plan can be for, and what each of them drafts with."""

from __future__ import annotations

from types import MappingProxyType

from app.deploy.methods import METHODS, NONE

VLLM, SGLANG, TRTLLM, DYNAMO = "vllm", "sglang", "trtllm", "dynamo"

NAMES = MappingProxyType({VLLM: "vLLM", SGLANG: "SGLang", TRTLLM: "TensorRT-LLM", DYNAMO: "Dynamo"})
"""What people call them, in the order in which they are offered."""

ENGINES = tuple(NAMES)
BACKENDS = (VLLM, SGLANG, TRTLLM)
"""What computes for Dynamo."""

CAN = MappingProxyType(
    {
        VLLM: frozenset(METHODS),
        SGLANG: frozenset({NONE, "ngram", "draft_model", "eagle", "eagle3", "mtp", "dflash"}),
        TRTLLM: frozenset({NONE, "ngram", "suffix", "draft_model", "eagle3", "mtp", "dflash"}),
    }
)
"""The methods of each engine that computes; where that was read stands in ``support``."""

ARCTIC = frozenset({"arctic", "arctic_suffix"})
"""Arctic Inference's, which patches a vLLM of its own: Dynamo's worker does not have that."""


def drafts_by(engine: str, method: str) -> bool:
    """Whether a plan for ``engine`` can have ``method``; for Dynamo, with any that computes for it."""
    if engine == DYNAMO:
        return method not in ARCTIC and any(method in methods for methods in CAN.values())
    return method in CAN[engine]
