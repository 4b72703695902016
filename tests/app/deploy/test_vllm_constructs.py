"""vLLM's own classes construct what plans ask of them, and refuse what plans refuse.

Runs where FORETOKEN_VLLM names a virtual environment with vLLM.
"""

from __future__ import annotations

import pytest

from app.deploy.methods import ENGINE_TABLE, REFUSED, VLLM
from app.deploy.model import known_models
from tests.support.parsers import parsed_there

VARIABLE = "FORETOKEN_VLLM"
ARCHITECTURES = {
    "deepseek_v3": "DeepseekV3ForCausalLM",
    "deepseek_v32": "DeepseekV32ForCausalLM",
    "gemma4_text": "Gemma4ForConditionalGeneration",
    "glm4_moe": "Glm4MoeForCausalLM",
    "glm_moe_dsa": "GlmMoeDsaForCausalLM",
    "gpt_oss": "GptOssForCausalLM",
    "kimi_k2": "KimiK25ForConditionalGeneration",
    "llama": "LlamaForCausalLM",
    "llama4_text": "Llama4ForConditionalGeneration",
    "minimax_m2": "MiniMaxM2ForCausalLM",
    "ministral3": "Mistral3ForConditionalGeneration",
    "mixtral": "MixtralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "qwen3_5": "Qwen3_5ForConditionalGeneration",
    "qwen3_5_moe": "Qwen3_5MoeForConditionalGeneration",
    "qwen3_moe": "Qwen3MoeForCausalLM",
    "qwen3_next": "Qwen3NextForCausalLM",
}
"""By ``model_type`` of the catalog."""
BLOCK = 128
SIZE = {"hidden_size": 64, "intermediate_size": 128, "vocab_size": 128}
LLAMA = {
    **SIZE,
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "torch_dtype": "bfloat16",
}
SMALL = {**LLAMA, "num_hidden_layers": 1}
QWEN = {**LLAMA, "model_type": "qwen3", "head_dim": 16, "num_hidden_layers": 2}
MEDUSA = {**SIZE, "architectures": ["MedusaModel"], "model_type": "medusa", "num_heads": 3}
DEEPSEEK = {
    **LLAMA,
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "num_key_value_heads": 4,
    "moe_intermediate_size": 32,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "first_k_dense_replace": 1,
    "num_nextn_predict_layers": 1,
    "q_lora_rank": 32,
    "kv_lora_rank": 32,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 16,
    "n_group": 1,
    "topk_group": 1,
}
HEADS = {
    "draft_model": (LLAMA, SMALL),
    "eagle": (LLAMA, SMALL),
    "eagle3": (LLAMA, {**SMALL, "architectures": ["LlamaForCausalLMEagle3"]}),
    "medusa": (LLAMA, {**MEDUSA, "num_hidden_layers": 1}),
    "mtp": (DEEPSEEK, None),
    "dflash": (
        LLAMA,
        {
            **QWEN,
            "architectures": ["DFlashDraftModel"],
            "block_size": 8,
            "dflash_config": {"target_layer_ids": [1, 2], "mask_token_id": 3},
        },
    ),
    "dspark": (
        LLAMA,
        {
            **QWEN,
            "architectures": ["Qwen3DSparkModel"],
            "block_size": 7,
            "markov_rank": 8,
            "markov_head_type": "vanilla",
            "target_layer_ids": [1, 2],
            "mask_token_id": 3,
        },
    ),
    "ngram": (LLAMA, None),
    "suffix": (LLAMA, None),
    "mlp_speculator": (
        LLAMA,
        {
            "architectures": ["MLPSpeculatorPreTrainedModel"],
            "model_type": "mlp_speculator",
            "emb_dim": 64,
            "inner_dim": 64,
            "n_predict": 3,
            "vocab_size": 128,
        },
    ),
}
"""A target and a drafter by method, as their config.json say it."""

CONSTRUCT = """
import json, pathlib, sys, tempfile
import vllm.distributed
from vllm.config import ModelConfig, ParallelConfig, SpeculativeConfig
from vllm.model_executor.layers.quantization.utils import fp8_utils
from vllm.model_executor.models.registry import ModelRegistry

given = json.load(sys.stdin)

def folder(config):
    place = tempfile.mkdtemp()
    pathlib.Path(place, "config.json").write_text(json.dumps(config))
    return place

constructed = {}
for method, (target, drafter) in given["heads"].items():
    model = ModelConfig(model=folder(target), skip_tokenizer_init=True, max_model_len=256)
    found = {"model": folder(drafter)} if drafter else {}
    try:
        SpeculativeConfig(method=method, num_speculative_tokens=3, target_model_config=model,
                          target_parallel_config=ParallelConfig(), **found)
        constructed[method] = ""
    except Exception as error:
        constructed[method] = str(error)

blocks = {}
for width, tensor in given["blocks"]:
    vllm.distributed.get_tensor_model_parallel_world_size = lambda: tensor
    try:
        fp8_utils.validate_fp8_block_shape_moe(width, [128, 128])
        blocks[str(width)] = True
    except ValueError:
        blocks[str(width)] = False
print(json.dumps({"constructed": constructed, "blocks": blocks,
                  "registered": sorted(ModelRegistry.get_supported_archs())}))
"""


def test_every_known_model_has_an_architecture_here() -> None:
    assert {known.facts.model_type for known in known_models().values()} <= set(ARCHITECTURES)


def test_every_method_has_an_example_here() -> None:
    assert set(ENGINE_TABLE[VLLM].methods) - {"none"} <= set(HEADS)


@pytest.mark.peer
@pytest.mark.slow
def test_vllm_constructs_what_is_planned() -> None:
    given = {"heads": HEADS, "blocks": [(192, 8), (256, 8)]}
    found = parsed_there(VARIABLE, CONSTRUCT, given, VLLM_LOGGING_LEVEL="ERROR", HF_HUB_OFFLINE="1")
    assert set(ARCHITECTURES.values()) <= set(found["registered"])
    refused = found["constructed"].pop("mlp_speculator")
    assert "not supported" in refused and "mlp_speculator" in REFUSED
    assert set(found["constructed"].values()) == {""}, found["constructed"]
    assert found["blocks"] == {
        "192": False,
        "256": True,
    }  # as ``Layout`` checks block-scaled widths
