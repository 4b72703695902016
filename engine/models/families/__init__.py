"""The families that the own decoder runs, by the architecture's name in config.json.

A reader takes a checkpoint and the context that it is loaded for, and returns an ``Architecture``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from engine.errors import MALFORMED, ModelError
from engine.models.architecture import Architecture
from engine.models.checkpoints.checkpoint import Checkpoint, describe_config
from engine.models.families.gemma import gemma2, gemma3, gemma4
from engine.models.families.gpt_oss import gpt_oss
from engine.models.families.granite import granite, granite_hybrid, minicpm
from engine.models.families.lfm2 import lfm2, lfm2_moe
from engine.models.families.llama import (
    cohere2,
    ernie4_5,
    glm4,
    glm4_moe,
    hunyuan,
    llama,
    phi3,
    seed_oss,
    smollm3,
    starcoder2,
)
from engine.models.families.mistral import ministral, ministral3, mistral, mistral3, mixtral
from engine.models.families.olmo import exaone4, olmo2, olmo3, olmoe
from engine.models.families.qwen import qwen2, qwen3, qwen3_5, qwen3_5_moe, qwen3_moe, qwen3_next

_CAUSAL = "ForCausalLM"
Reader = Callable[[Checkpoint, int], Architecture]

FAMILIES: Mapping[str, Reader] = {
    "LlamaForCausalLM": llama,
    "MistralForCausalLM": mistral,
    "Lfm2ForCausalLM": lfm2,
    "Qwen2ForCausalLM": qwen2,
    "MiMoForCausalLM": qwen2,
    "Qwen3ForCausalLM": qwen3,
    "Qwen3_5ForCausalLM": qwen3_5,
    "Qwen3_5ForConditionalGeneration": qwen3_5,  # its text part
    "Qwen3MoeForCausalLM": qwen3_moe,
    "Qwen3NextForCausalLM": qwen3_next,
    "Qwen3_5MoeForCausalLM": qwen3_5_moe,
    "Qwen3_5MoeForConditionalGeneration": qwen3_5_moe,
    "MixtralForCausalLM": mixtral,
    "OlmoeForCausalLM": olmoe,
    "GptOssForCausalLM": gpt_oss,
    "Lfm2MoeForCausalLM": lfm2_moe,
    "Glm4MoeForCausalLM": glm4_moe,
    "SmolLM3ForCausalLM": smollm3,
    "Gemma2ForCausalLM": gemma2,
    "Gemma3ForCausalLM": gemma3,
    "Gemma3ForConditionalGeneration": gemma3,  # its text part
    "Gemma4ForCausalLM": gemma4,
    "Gemma4ForConditionalGeneration": gemma4,
    "Gemma4UnifiedForCausalLM": gemma4,
    "Gemma4UnifiedForConditionalGeneration": gemma4,
    "Phi3ForCausalLM": phi3,
    "GraniteForCausalLM": granite,
    "GraniteMoeHybridForCausalLM": granite_hybrid,
    "MiniCPMForCausalLM": minicpm,
    "MinistralForCausalLM": ministral,
    "Ministral3ForCausalLM": ministral3,
    "Mistral3ForConditionalGeneration": mistral3,  # its text part
    "Olmo2ForCausalLM": olmo2,
    "Olmo3ForCausalLM": olmo3,
    "Exaone4ForCausalLM": exaone4,
    "HunYuanDenseV1ForCausalLM": hunyuan,
    "SeedOssForCausalLM": seed_oss,
    "Ernie4_5ForCausalLM": ernie4_5,
    "Ernie4_5_ForCausalLM": ernie4_5,  # before transformers had it
    "Glm4ForCausalLM": glm4,
    "Cohere2ForCausalLM": cohere2,
    "Starcoder2ForCausalLM": starcoder2,
}


_DESCRIBED: dict[str, Architecture | None] = {}


def described(checkpoint: Checkpoint) -> Architecture | None:
    """Return the model's description; None for one that no family describes, or that is wrong."""
    if checkpoint.architecture not in FAMILIES:
        return None
    try:
        return FAMILIES[checkpoint.architecture](checkpoint, checkpoint.context)
    except (ModelError, *MALFORMED):  # loading says it
        return None


def described_by(config: Mapping[str, Any]) -> Architecture | None:
    """Return the description by a configuration alone, see ``checkpoint_by``. Each is made once: the
    catalog's are asked for whenever it is read."""
    known = repr(config)
    if known not in _DESCRIBED:
        checkpoint = checkpoint_by(config)
        _DESCRIBED[known] = None if checkpoint is None else described(checkpoint)
    return _DESCRIBED[known]


def checkpoint_by(config: Mapping[str, Any]) -> Checkpoint | None:
    """Return a checkpoint without tensors by a configuration alone, of its text part. The class may be
    left out: then it is that of ``model_type``."""
    kind = str(config.get("model_type")).removesuffix("_text").replace("_", "")
    names = (name for name in FAMILIES if name.endswith(_CAUSAL))
    named = {name.removesuffix(_CAUSAL).replace("_", "").lower(): name for name in names}
    try:
        return describe_config(Path(kind), {"architectures": [named.get(kind, "")], **config})
    except ModelError:
        return None
