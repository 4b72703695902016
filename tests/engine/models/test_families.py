"""Families: what their configurations leave out or spell otherwise, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.backends.torch.decoder import TorchDecoder
from engine.errors import ModelError
from engine.models.checkpoints.checkpoint import inspect
from engine.models.families import FAMILIES
from tests.support.checkpoints import LLAMA, write_random, write_tokenizer
from tests.support.families import MODELS, write_family
from tests.support.gguf_files import write_gguf
from tests.support.loading import load_model

SIZES: dict[str, Any] = {"initializer_range": 0.1, "uneven": 0.1}
Edit = Callable[[dict[str, Any]], None]


def edit(folder: Path, change: Edit) -> None:
    """Changes config.json."""
    file = folder / "config.json"
    config = json.loads(file.read_text())
    change(config)
    file.write_text(json.dumps(config))


def gemma3_before_5(config: dict[str, Any]) -> None:
    """As google/gemma-3-1b-it, with the scaling of the larger ones."""
    for key in ("rope_parameters", "layer_types", "tie_word_embeddings"):
        config.pop(key, None)
    config |= {
        "rope_theta": 1e6,
        "rope_local_base_freq": 5e3,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0},
        "sliding_window_pattern": 2,
    }


def gemma2_before_5(config: dict[str, Any]) -> None:
    for key in ("rope_parameters", "layer_types", "tie_word_embeddings"):
        config.pop(key, None)
    config |= {"rope_theta": 5e3, "hidden_act": "gelu_pytorch_tanh"}


def qwen2_before_5(config: dict[str, Any]) -> None:
    del config["rope_parameters"], config["layer_types"]
    config |= {"rope_theta": 1e6, "use_sliding_window": True, "sliding_window": 24}


def smollm3_without_lists(config: dict[str, Any]) -> None:
    for key in ("rope_parameters", "layer_types", "no_rope_layers"):
        del config[key]
    config |= {"rope_theta": 5e6, "no_rope_layer_interval": 2}


def phi3_before_5(config: dict[str, Any]) -> None:
    del config["rope_parameters"]
    factors = {"short_factor": [1.0, 1.1, 1.2, 1.3], "long_factor": [2.0, 3.0, 4.0, 8.0]}
    config |= {"rope_theta": 1e4, "rope_scaling": {"type": "longrope", **factors}}
    config["original_max_position_embeddings"] = 16


def gemma4_as_published(config: dict[str, Any]) -> None:
    """As google/gemma-4-31B-it, whose sizes of global layers are not listed by layer."""
    del config["per_layer_config"], config["layer_types"], config["rope_parameters"]
    config |= {"global_head_dim": 32, "num_global_key_value_heads": 1}


def olmo3_before_5(config: dict[str, Any]) -> None:
    """As allenai/Olmo-3-7B-Instruct."""
    del config["rope_parameters"], config["layer_types"]
    scaling = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 32}
    config |= {"rope_theta": 5e5, "rope_scaling": {**scaling, "attention_factor": 1.2}}


def cohere2_before_5(config: dict[str, Any]) -> None:
    """As CohereLabs/c4ai-command-r7b-12-2024."""
    for key in ("rope_parameters", "layer_types", "tie_word_embeddings"):
        del config[key]
    config |= {"rope_theta": 5e4, "rope_scaling": None, "sliding_window_pattern": 2}


def glm4_before_5(config: dict[str, Any]) -> None:
    """As zai-org/GLM-4-9B-0414."""
    del config["rope_parameters"]
    config |= {"rope_theta": 1e4, "partial_rotary_factor": 0.5}


def lfm2_before_5(config: dict[str, Any]) -> None:
    """As LiquidAI/LFM2-1.2B, but with an output head of its own."""
    for key in ("rope_parameters", "layer_types", "tie_word_embeddings"):
        del config[key]
    config |= {"rope_theta": 5e5, "full_attn_idxs": [1], "tie_embedding": False}
    config["block_ff_dim"] = config.pop("intermediate_size")


EARLIER: dict[str, tuple[str, dict[str, Any], Edit]] = {
    "gemma3": ("gemma3_text", {"sliding_window": 24}, gemma3_before_5),
    "lfm2": (
        "lfm2",
        {
            "num_hidden_layers": 3,
            "layer_types": ["conv", "full_attention", "conv"],
            "block_multiple_of": 16,
            "tie_word_embeddings": False,
        },
        lfm2_before_5,
    ),
    "gemma4": (
        "gemma4_text",
        {
            "sliding_window": 24,
            "num_hidden_layers": 7,
            "global_head_dim": 32,
            "attention_k_eq_v": True,
            "num_global_key_value_heads": 1,
            "hidden_size_per_layer_input": 0,
            "use_bidirectional_attention": "vision",
        },
        gemma4_as_published,
    ),
    "gemma2": ("gemma2", {"sliding_window": 24}, gemma2_before_5),
    "qwen2": ("qwen2", {"max_window_layers": 1}, qwen2_before_5),
    "smollm3": ("smollm3", {"num_hidden_layers": 4, "pad_token_id": 0}, smollm3_without_lists),
    "phi3": ("phi3", {"pad_token_id": 0}, phi3_before_5),
    "olmo3": ("olmo3", {"sliding_window": 24, "num_hidden_layers": 4}, olmo3_before_5),
    "cohere2": ("cohere2", {"sliding_window": 24}, cohere2_before_5),
    "glm4": ("glm4", {"pad_token_id": 0}, glm4_before_5),
}


def logits(model: Any, text: list[int]) -> torch.Tensor:
    """Transformers' (length, vocabulary)."""
    with torch.inference_mode():
        result: torch.Tensor = model(torch.tensor([text])).logits[0].float()
    return result


def tokens(count: int) -> list[int]:
    return torch.randint(300, (count,), generator=torch.Generator().manual_seed(3)).tolist()


def assert_same(folder: Path, reference: Any) -> None:
    model = load_model(folder, quantization="fp32")
    assert isinstance(model, TorchDecoder)
    text = tokens(120)
    ours = model.forward(text, model.new_state(128), last=120)
    assert float((ours - logits(reference, text)).abs().max()) < 1e-4


@pytest.mark.parametrize("name", EARLIER)
def test_earlier_configurations_mean_what_transformers_reads_in_them(
    name: str, tmp_path: Path
) -> None:
    from transformers import AutoModelForCausalLM

    kind, config, change = EARLIER[name]
    write_random(tmp_path, kind, **{**SIZES, **config})
    edit(tmp_path, change)
    reference: Any = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    assert_same(tmp_path, reference)
    tied = reference.get_output_embeddings().weight is reference.get_input_embeddings().weight
    assert inspect(tmp_path).repeats_embedding == tied


def gemma3_with_eyes(folder: Path) -> Any:
    """A small Gemma3ForConditionalGeneration in ``folder``."""
    from transformers import Gemma3Config, Gemma3ForConditionalGeneration, SiglipVisionConfig

    vision: Any = SiglipVisionConfig
    build: Any = Gemma3Config
    eyes = vision(
        hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        image_size=28, patch_size=14,
    )  # fmt: skip
    text = {**LLAMA, "initializer_range": 0.1, "sliding_window": 24, "num_hidden_layers": 7}
    config = build(text_config=text, vision_config=eyes.to_dict(), mm_tokens_per_image=4)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model: Any = Gemma3ForConditionalGeneration(config).eval()
    write_tokenizer(folder)
    model.save_pretrained(folder)
    return model


def test_the_text_of_a_gemma_with_eyes(tmp_path: Path) -> None:
    reference = gemma3_with_eyes(tmp_path)
    assert inspect(tmp_path).architecture == "Gemma3ForConditionalGeneration"
    assert_same(tmp_path, reference)


def test_the_text_of_a_gemma4_with_eyes(tmp_path: Path) -> None:
    """Its file also holds keys and values of layers that read those of others."""
    from safetensors.torch import load_file, save_file
    from transformers import Gemma4Config, Gemma4ForConditionalGeneration

    build: Any = Gemma4Config
    eyes = {
        "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "head_dim": 8,
        "num_attention_heads": 2, "num_key_value_heads": 2, "position_embedding_size": 16,
    }  # fmt: skip
    text = {**LLAMA, **MODELS["gemma4"][1], "initializer_range": 0.1}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model: Any = Gemma4ForConditionalGeneration(build(text_config=text, vision_config=eyes))
    write_tokenizer(tmp_path)
    model.eval().save_pretrained(tmp_path)
    file, unread = (
        tmp_path / "model.safetensors",
        "model.language_model.layers.3.self_attn.k_proj.weight",
    )
    save_file({**load_file(file), unread: torch.ones(16, 32)}, file, metadata={"format": "pt"})
    assert_same(tmp_path, model)


def test_what_gemma_leaves_out_of_its_configuration(tmp_path: Path) -> None:
    """google/gemma-3-4b-it states neither its heads nor its context."""
    gemma3_with_eyes(tmp_path)

    def leave_out(config: dict[str, Any]) -> None:
        for key in ("num_attention_heads", "num_key_value_heads", "head_dim", "sliding_window"):
            del config["text_config"][key]
        for key in ("max_position_embeddings", "vocab_size", "layer_types", "rope_parameters"):
            del config["text_config"][key]

    edit(tmp_path, leave_out)
    found = inspect(tmp_path)
    assert (found.heads, found.kv_heads, found.head_dim, found.context) == (8, 4, 256, 131_072)
    architecture = FAMILIES[found.architecture](found, found.context)
    assert [layer.attention.window for layer in architecture.layers] == [4096] * 5 + [None, 4096]
    near, far = (architecture.layers[at].attention.rope for at in (0, 5))
    assert near is not None and far is not None
    assert near.frequencies[64] == pytest.approx(1e4**-0.5)
    assert far.frequencies[64] == pytest.approx(1e6**-0.5)


def test_minicpm_is_a_granite_by_other_names(tmp_path: Path) -> None:
    """Transformers has no class of it: it is code beside the weights."""
    scales = {
        "embedding_multiplier": 12.0,
        "attention_multiplier": 8**-0.5,
        "residual_multiplier": 1.4 / 2**0.5,
        "logits_scaling": 2.0,
    }
    reference = write_random(tmp_path, "granite", **SIZES, **scales)

    def rename(config: dict[str, Any]) -> None:
        for key in scales:
            del config[key]
        config |= {"scale_emb": 12, "scale_depth": 1.4, "dim_model_base": 16}
        config |= {"architectures": ["MiniCPMForCausalLM"], "model_type": "minicpm"}

    edit(tmp_path, rename)
    assert_same(tmp_path, reference)
    assert_same(write_gguf(tmp_path, tmp_path / "m.gguf"), reference)
    edit(tmp_path, lambda config: config.update(sparse_config={"window_size": 64}))
    with pytest.raises(ModelError, match="sparse_config"):
        load_model(tmp_path, quantization="fp32")


def test_the_text_of_a_ministral_with_eyes(tmp_path: Path) -> None:
    from transformers import Mistral3Config, Mistral3ForConditionalGeneration, PixtralVisionConfig

    vision: Any = PixtralVisionConfig
    build: Any = Mistral3Config
    eyes = vision(
        hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        image_size=28, patch_size=14, head_dim=8,
    )  # fmt: skip
    rope = {
        "rope_type": "yarn",
        "rope_theta": 1e4,
        "factor": 4.0,
        "original_max_position_embeddings": 32,
        "llama_4_scaling_beta": 0.3,
    }
    text = {**LLAMA, "initializer_range": 0.1, "pad_token_id": 0, "rope_parameters": rope}
    config = build(text_config={**text, "model_type": "ministral3"}, vision_config=eyes.to_dict())
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model: Any = Mistral3ForConditionalGeneration(config).eval()
    write_tokenizer(tmp_path)
    model.save_pretrained(tmp_path)
    assert_same(tmp_path, model)


def test_longrope_for_a_short_context_is_that_of_short_texts(tmp_path: Path) -> None:
    kind, config, change = EARLIER["phi3"]
    write_random(tmp_path, kind, **{**SIZES, **config})
    edit(tmp_path, change)
    from transformers import AutoModelForCausalLM

    reference: Any = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    text = tokens(16)
    model = load_model(tmp_path, quantization="fp32", context=16)
    ours = model.forward(text, model.new_state(16), last=16)
    assert float((ours - logits(reference, text)).abs().max()) < 1e-4


@pytest.mark.parametrize("name", ["su", "yarn"])
def test_the_first_names_of_longrope_are_understood(name: str, tmp_path: Path) -> None:
    kind, config, change = EARLIER["phi3"]
    write_random(tmp_path, kind, **config)
    edit(tmp_path, change)
    now = FAMILIES["Phi3ForCausalLM"](inspect(tmp_path), 512)
    edit(tmp_path, lambda config: config["rope_scaling"].update(type=name))
    assert FAMILIES["Phi3ForCausalLM"](inspect(tmp_path), 512) == now


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "an unknown rope": ("llama", {"rope_scaling": {"type": "spiral"}}, "rope_type 'spiral'"),
    "an unknown activation": ("llama", {"hidden_act": "mish"}, "cannot run .*activation=mish"),
    "a Gemma for embeddings": (
        "gemma3_text",
        {"use_bidirectional_attention": True},
        "use_bidirectional_attention.*cannot write",
    ),
    "layers of an unknown type": (
        "qwen3",
        {"layer_types": ["full_attention", "chunked_attention"]},
        "layer_types .*including chunked_attention",
    ),
    "too few layer types": ("gemma2", {"layer_types": ["full_attention"]}, "1 entries"),
    "weights of another architecture": (
        "qwen2",
        {"architectures": ["LlamaForCausalLM"]},
        r"has 6 tensors unknown to LlamaForCausalLM, such as .*k_proj.bias",
    ),
    "a bias that is not there": ("llama", {"attention_bias": True}, "no tensor or setting .*bias"),
    "experts in every 0th layer": (
        "qwen3",
        {
            "architectures": ["Qwen3MoeForCausalLM"],
            "decoder_sparse_step": 0,
            "num_experts": 4,
            "num_experts_per_tok": 2,
        },
        r"config\.json cannot be used: it has an invalid value\. Use",
    ),
    "another width": ("mistral", {"intermediate_size": 40}, "has shape .* requires"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_run_right_is_refused_with_its_reason(name: str, tmp_path: Path) -> None:
    kind, change, reason = REFUSED[name]
    write_random(tmp_path, kind)
    edit(tmp_path, lambda config: config.pop("rope_parameters") and config.update(change))
    with pytest.raises(ModelError, match=reason):
        load_model(tmp_path, quantization="fp32")


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("qwen3-moe", {"num_experts": 10**12}, "1,000,000,000,000 experts in a layer are more"),
        ("qwen3-moe", {"num_experts_per_tok": None}, "use 0 of 8 experts"),
        ("qwen3-moe", {"num_experts_per_tok": -1}, "use -1 of 8 experts"),
        ("qwen3-moe", {"num_experts_per_tok": 9}, "use 9 of 8 experts"),
        ("qwen3", {"num_key_value_heads": 8}, "4 query heads cannot share 8 key-value heads"),
        (
            "qwen3",
            {"num_attention_heads": 6, "num_key_value_heads": 4},
            "6 query heads cannot share 4",
        ),
        ("qwen3.5", {"linear_num_key_heads": 3}, "16 value heads cannot share 3 key heads"),
        ("lfm2", {"conv_L_cache": 17}, "a convolution over 17 positions is not supported"),
        (
            "granite, hybrid, experts",
            {"mamba_n_groups": 3},
            "16 Mamba-2 heads cannot share 3 groups",
        ),
    ],
)
def test_sizes_that_no_layer_has(
    name: str, change: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    """They filled the memory, ended the process in the compiled step, or it wrote behind its rows."""
    write_family(tmp_path, name)
    edit(tmp_path, lambda config: config.update(change))
    with pytest.raises(ModelError, match=reason):
        load_model(tmp_path, quantization="fp32")


def test_the_drafting_layer_of_glm_is_passed_over(tmp_path: Path) -> None:
    """GLM-4.5 has it behind the others, with an embedding of its own; transformers does not read it."""
    from safetensors.torch import load_file, save_file

    reference = write_family(tmp_path, "glm4-moe")
    file = tmp_path / "model.safetensors"
    tensors = load_file(file)
    drafting = {
        name.replace("layers.1.", "layers.2."): tensor.clone()
        for name, tensor in tensors.items()
        if "layers.1." in name
    }
    drafting["model.layers.2.embed_tokens.weight"] = tensors["model.embed_tokens.weight"].clone()
    save_file({**tensors, **drafting}, file, metadata={"format": "pt"})
    edit(tmp_path, lambda config: config.update(num_nextn_predict_layers=1))
    assert_same(tmp_path, reference)


def test_frequencies_stored_by_early_llamas_are_passed_over(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    reference = write_random(tmp_path, **SIZES)
    file = tmp_path / "model.safetensors"
    stored = {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(4)}
    save_file({**load_file(file), **stored}, file, metadata={"format": "pt"})
    assert_same(tmp_path, reference)
