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
from engine.models.families import gemma, gpt_oss, granite, lfm2, llama, mistral, olmo, qwen

_CAUSAL = "ForCausalLM"
Reader = Callable[[Checkpoint, int], Architecture]

FAMILIES: Mapping[str, Reader] = {
    "LlamaForCausalLM": llama.llama,
    "MistralForCausalLM": mistral.mistral,
    "Lfm2ForCausalLM": lfm2.lfm2,
    "Qwen2ForCausalLM": qwen.qwen2,
    "MiMoForCausalLM": qwen.qwen2,
    "Qwen3ForCausalLM": qwen.qwen3,
    "Qwen3_5ForCausalLM": qwen.qwen3_5,
    "Qwen3_5ForConditionalGeneration": qwen.qwen3_5,  # its text part
    "Qwen3MoeForCausalLM": qwen.qwen3_moe,
    "Qwen3NextForCausalLM": qwen.qwen3_next,
    "Qwen3_5MoeForCausalLM": qwen.qwen3_5_moe,
    "Qwen3_5MoeForConditionalGeneration": qwen.qwen3_5_moe,
    "MixtralForCausalLM": mistral.mixtral,
    "OlmoeForCausalLM": olmo.olmoe,
    "GptOssForCausalLM": gpt_oss.gpt_oss,
    "Lfm2MoeForCausalLM": lfm2.lfm2_moe,
    "Glm4MoeForCausalLM": llama.glm4_moe,
    "SmolLM3ForCausalLM": llama.smollm3,
    "Gemma2ForCausalLM": gemma.gemma2,
    "Gemma3ForCausalLM": gemma.gemma3,
    "Gemma3ForConditionalGeneration": gemma.gemma3,  # its text part
    "Gemma4ForCausalLM": gemma.gemma4,
    "Gemma4ForConditionalGeneration": gemma.gemma4,
    "Gemma4UnifiedForCausalLM": gemma.gemma4,
    "Gemma4UnifiedForConditionalGeneration": gemma.gemma4,
    "Phi3ForCausalLM": llama.phi3,
    "GraniteForCausalLM": granite.granite,
    "GraniteMoeHybridForCausalLM": granite.granite_hybrid,
    "MiniCPMForCausalLM": granite.minicpm,
    "MinistralForCausalLM": mistral.ministral,
    "Ministral3ForCausalLM": mistral.ministral3,
    "Mistral3ForConditionalGeneration": mistral.mistral3,  # its text part
    "Olmo2ForCausalLM": olmo.olmo2,
    "Olmo3ForCausalLM": olmo.olmo3,
    "Exaone4ForCausalLM": olmo.exaone4,
    "HunYuanDenseV1ForCausalLM": llama.hunyuan,
    "SeedOssForCausalLM": llama.seed_oss,
    "Ernie4_5ForCausalLM": llama.ernie4_5,
    "Ernie4_5_ForCausalLM": llama.ernie4_5,  # before transformers had it
    "Glm4ForCausalLM": llama.glm4,
    "Cohere2ForCausalLM": llama.cohere2,
    "Starcoder2ForCausalLM": llama.starcoder2,
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
