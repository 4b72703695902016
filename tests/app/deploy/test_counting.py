"""Weights are counted from config.json, to the last one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.deploy.estimate.network import of_model
from app.deploy.formats import BF16, MXFP4, NVFP4
from app.deploy.known import find, known_models
from app.deploy.model import of_config, of_path
from engine.errors import ModelError
from engine.loading.catalog_file import read_catalog_file
from tests.support.places import ROOT

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
}
"""Weights in the published checkpoints, without DeepSeek's module for the next token but one."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_count_is_the_published_one(name: str) -> None:
    assert known_models()[name].facts.parameters == PUBLISHED[name]


def test_the_count_is_the_catalog_s() -> None:
    models = read_catalog_file(ROOT / "model_catalog.yaml").models
    compared = 0
    for entry in models:
        facts = find(entry.values.get("repository", "none"))
        if facts is not None and "parameters" in entry.values:
            assert facts.parameters == entry.values["parameters"], facts.id
            assert facts.head_dim == entry.values["head_dim"]
            compared += 1
    assert compared >= 9


@pytest.mark.parametrize(
    ("name", "billions"),
    [("gpt-oss-120b", 5.13), ("gpt-oss-20b", 3.61), ("deepseek-v3", 36.6), ("qwen3-30b-a3b", 3.0)],
)
def test_what_a_token_uses_is_what_model_cards_say(name: str, billions: float) -> None:
    assert known_models()[name].facts.active_parameters / 1e9 == pytest.approx(billions, rel=0.02)


def test_a_checkpoint_in_mxfp4_is_as_large_as_the_published_one() -> None:
    """60.8 GiB, as the model card of gpt-oss has it."""
    facts = known_models()["gpt-oss-120b"].facts
    assert facts.format == MXFP4
    assert of_model(facts).total_weights / 2**30 == pytest.approx(60.8, abs=0.2)


def test_latent_attention_caches_its_rank_and_not_its_heads() -> None:
    facts = known_models()["deepseek-v3"].facts
    assert of_model(facts).cache_numbers(1) == 61 * 576


def test_a_gated_delta_net_keeps_a_state_in_the_place_of_keys_and_values() -> None:
    """Of Qwen3.5 27B, 48 of 64 layers: 48 heads of 128 by 128 numbers each."""
    facts = known_models()["qwen3.5-27b"].facts
    state = 48 * 48 * 128 * 128
    assert of_model(facts).cache_numbers(1000) == 16 * 2 * 4 * 256 * 1000 + state
    assert facts.next_token_weights == 424_699_392


def test_a_window_bounds_what_half_of_the_layers_cache() -> None:
    facts = known_models()["gpt-oss-20b"].facts
    token = 2 * facts.kv_heads * facts.head_dim
    assert of_model(facts).cache_numbers(1000) == token * (12 * 1000 + 12 * 128)


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
    config = {
        "model_type": "qwen2",
        "hidden_size": 8,
        "intermediate_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "vocab_size": 32,
        "max_position_embeddings": 64,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    facts = of_path(tmp_path)
    attention = 8 * (8 + 4 + 4 + 8) + (8 + 4 + 4)
    assert facts.parameters == 2 * 32 * 8 + 2 * (attention + 16 + 3 * 8 * 16) + 8
    assert (facts.name, facts.format) == (str(tmp_path), BF16)
    del config["hidden_size"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match="hidden_size"):
        of_path(tmp_path)


def test_an_unknown_family_is_refused_with_its_name() -> None:
    sizes = dict.fromkeys(
        ("hidden_size", "num_hidden_layers", "vocab_size", "num_attention_heads"), 8
    )
    with pytest.raises(ModelError, match="type 'mamba' cannot be counted"):
        of_config("own", {"model_type": "mamba", **sizes})
