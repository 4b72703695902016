"""Weights are counted from config.json, to the last one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.deploy.estimate.network import mtp_layer, of_model
from app.deploy.gpus import AWQ, BF16, FP8, INT4, MXFP4, NVFP4
from app.deploy.model import find, known_models, of_config, of_path
from engine.errors import ModelError
from engine.loading.catalog_file import read_catalog_file
from tests.support.places import ROOT

TINY = {
    "model_type": "qwen2",
    "hidden_size": 8,
    "intermediate_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "vocab_size": 32,
    "max_position_embeddings": 64,
}

PUBLISHED = {
    "llama-3.1-405b": 405_853_388_800,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-235b-a22b": 235_093_634_560,
    "deepseek-v3": 671_026_419_200,
    "gpt-oss-20b": 20_914_757_184,
    "gpt-oss-120b": 116_829_156_672,
    "qwen3.5-4b": 4_205_751_296,
    "qwen3.5-35b-a3b": 34_660_610_688,
    "glm-4.5-air": 106_852_251_264,
    "qwen2.5-7b": 7_615_616_512,
    "qwen2.5-14b": 14_770_033_664,
    "qwen2.5-32b": 32_763_876_352,
    "qwen2.5-72b": 72_706_203_648,
}
"""Weights in the published checkpoints, without DeepSeek's module for the next token but one."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_count_is_the_published_one(name: str) -> None:
    assert known_models()[name].facts.parameters == PUBLISHED[name]


@pytest.mark.parametrize(
    ("name", "loads", "weights"),
    [
        ("Qwen/Qwen3.6-27B-FP8", "Qwen/Qwen3.6-27B-FP8", FP8),
        ("deepseek-ai/DeepSeek-R1-0528", "deepseek-ai/DeepSeek-R1-0528", FP8),
        ("moonshotai/Kimi-K2-Thinking", "moonshotai/Kimi-K2-Thinking", INT4),
        ("Qwen/Qwen2.5-72B-Instruct", "Qwen/Qwen2.5-72B-Instruct", BF16),
        ("Qwen3.6 27B", "Qwen/Qwen3.6-27B", BF16),  # as Foretoken's server calls it
    ],
)
def test_a_model_is_found_by_its_names(name: str, loads: str, weights: str) -> None:
    found = find(name)
    assert found is not None
    assert (found.name, found.format) == (loads, weights)


def test_the_count_is_the_catalog_s() -> None:
    models = read_catalog_file(ROOT / "model_catalog.yaml").models
    compared = 0
    for entry in models:
        facts = find(entry.values.get("repository", "none"))
        if facts is not None and "parameters" in entry.values:
            more = facts.parameters - entry.values["parameters"]
            if (
                facts.model_type == "gemma4_text"
            ):  # a scale a layer is no parameter; two kinds of heads
                assert abs(more) <= facts.layers or facts.experts
                continue
            assert more == 0, facts.id
            assert facts.architecture.attentions[-1].head_dim == entry.values["head_dim"]
            compared += 1
    assert compared >= 9


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("gpt-oss-120b", 5.13),
        ("gpt-oss-20b", 3.61),
        ("deepseek-v3", 36.6),
        ("qwen3-30b-a3b", 3.0),
        ("kimi-k2", 32),
        ("glm-5", 40.5),
    ],
)
def test_what_a_token_uses_is_what_model_cards_say(name: str, billions: float) -> None:
    assert known_models()[name].facts.active_parameters / 1e9 == pytest.approx(billions, rel=0.02)


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("llama-4-scout", 107.8),  # 109 with its eyes
        ("llama-4-maverick", 400.7),
        ("kimi-k2", 1026.4),
        ("glm-4.6", 352.8),  # 355 with its MTP layer
        ("glm-5", 743.9),
        ("minimax-m2.5", 228.7),
        ("deepseek-v3.2", 671.9),
        ("qwen3.5-397b-a17b", 396.3),
        ("gemma-4-31b", 30.7),
    ],
)
def test_models_without_a_description_are_counted_by_one_alike(name: str, billions: float) -> None:
    assert known_models()[name].facts.parameters / 1e9 == pytest.approx(billions, rel=0.001)


def test_a_checkpoint_in_mxfp4_is_as_large_as_the_published_one() -> None:
    """60.8 GiB, as the model card of gpt-oss has it."""
    facts = known_models()["gpt-oss-120b"].facts
    assert facts.format == MXFP4
    assert of_model(facts).total_weights / 2**30 == pytest.approx(60.8, abs=0.2)


def test_latent_attention_caches_its_rank_and_not_its_heads() -> None:
    facts = known_models()["deepseek-v3"].facts
    assert of_model(facts).cache.numbers(1) == 61 * 576


def test_a_gated_delta_net_keeps_a_state_in_the_place_of_keys_and_values() -> None:
    """Of Qwen3.5 27B, 48 of 64 layers: 48 heads of 128 by 128 numbers each."""
    facts = known_models()["qwen3.5-27b"].facts
    rows = 3 * (2 * 16 * 128 + 48 * 128 + 2 * 48)
    network = of_model(facts)
    assert network.cache.numbers(1000) == 16 * 2 * 4 * 256 * 1000
    assert network.cache.state == 48 * (4 * 48 * 128 * 128 + 2 * rows)
    assert network.cache.bytes(0, 1.0, 3) == 3 * network.cache.state
    assert mtp_layer(facts).counts.total == 424_699_392


def test_a_window_bounds_what_half_of_the_layers_cache() -> None:
    facts = known_models()["gpt-oss-20b"].facts
    token = 2 * facts.kv_heads * facts.architecture.attentions[-1].head_dim
    assert of_model(facts).cache.numbers(1000) == token * (12 * 1000 + 12 * 128)


def test_gemma_s_wide_heads_are_few_and_its_windows_short() -> None:
    """Of 60 layers, ten cache 4 heads of 512 for good, fifty 16 of 256 for 1,024 tokens."""
    facts = known_models()["gemma-4-31b"].facts
    numbers = of_model(facts).cache.numbers(8192)
    assert numbers == 10 * 2 * 4 * 512 * 8192 + 50 * 2 * 16 * 256 * 1024


def test_sparse_attention_caches_its_index_too() -> None:
    """DeepSeek V3.2 adds 128 numbers in FP8 and a scale to each layer's 576."""
    plain, sparse = (known_models()[name].facts for name in ("deepseek-v3", "deepseek-v3.2"))
    assert sparse.cache.cached - plain.cache.cached == 61 * (128 + 4) // 2


@pytest.mark.parametrize(
    ("name", "id"),
    [
        ("meta-llama/Meta-Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("meta-llama/Meta-Llama-3.1-70B-Instruct", "llama-3.1-70b"),
        ("google/gemma-4-31B-it", "gemma-4-31b"),
        ("Qwen/Qwen3.8-27B", "qwen3.8-27b"),
        ("zai-org/GLM-4.6-FP8", "glm-4.6"),
    ],
)
def test_a_model_is_found_by_each_of_its_names(name: str, id: str) -> None:
    found = find(name)
    assert found is not None
    assert found.id == id


def test_a_checkpoint_is_found_by_its_own_name() -> None:
    facts = find("NVIDIA/Llama-3.3-70B-Instruct-FP4")
    assert facts is not None
    assert (facts.id, facts.name, facts.format) == (
        "llama-3.3-70b",
        "nvidia/Llama-3.3-70B-Instruct-FP4",
        NVFP4,
    )
    assert find("nothing-like-it") is None


def test_a_folder_s_config_is_enough(tmp_path: Path) -> None:
    config = dict(TINY)
    (tmp_path / "config.json").write_text(json.dumps(config))
    facts = of_path(tmp_path)
    attention = 8 * (8 + 4 + 4 + 8) + (8 + 4 + 4)
    assert facts.parameters == 2 * 32 * 8 + 2 * (attention + 16 + 3 * 8 * 16) + 8
    assert (facts.name, facts.format) == (str(tmp_path), BF16)
    del config["hidden_size"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match="hidden_size"):
        of_path(tmp_path)


@pytest.mark.parametrize(
    ("scheme", "found"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, (FP8, 128)),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, (NVFP4, 0)),
        ({"quant_method": "compressed-tensors", "format": "pack-quantized"}, (INT4, 0)),
        ({"quant_method": "awq"}, (AWQ, 128)),
        (
            {
                "quant_method": "modelopt",
                "config_groups": {
                    "group_0": {"weights": {"type": "float", "num_bits": 8}},
                    "group_1": {"weights": {"type": "float", "num_bits": 4}},
                },
            },
            (NVFP4, 0),
        ),
    ],
)
def test_the_format_and_its_block_are_read_from_the_config(scheme: dict, found: tuple) -> None:
    facts = of_config("own", {**TINY, "quantization_config": scheme})
    assert (facts.format, facts.block) == found


def test_nvidia_s_own_file_names_the_format(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(TINY))
    (tmp_path / "hf_quant_config.json").write_text(
        json.dumps({"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4"}})
    )
    assert of_path(tmp_path).format == NVFP4


def test_an_unknown_family_is_refused_with_its_name() -> None:
    sizes = dict.fromkeys(
        ("hidden_size", "num_hidden_layers", "vocab_size", "num_attention_heads"), 8
    )
    with pytest.raises(ModelError, match="type 'mamba' are not supported"):
        of_config("own", {"model_type": "mamba", **sizes})


@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        ("num_hidden_layers", "thirty-two"),
        ("num_hidden_layers", 0),
        ("num_hidden_layers", 10**9),
        ("hidden_size", -4096),
        ("intermediate_size", True),
    ],
)
def test_a_wrong_size_is_told_by_its_name(key: str, wrong: object) -> None:
    """It was called a family that is not supported."""
    with pytest.raises(ModelError, match=rf"{key} is .* in config.json"):
        of_config("own", {**TINY, key: wrong})


def test_other_wrong_values_are_told() -> None:
    """They were tracebacks: TypeError, ZeroDivisionError."""
    llama4 = {"model_type": "llama4_text", "num_local_experts": 2, "intermediate_size_mlp": 8}
    for config in (
        {**TINY, "num_key_value_heads": None},
        {**TINY, **llama4, "interleave_moe_layer_step": 0},
    ):
        with pytest.raises(ModelError, match="configuration of own: it has an invalid value"):
            of_config("own", config)
