"""The config.json of published models: each is computed as transformers computes it, or is refused.

`tests/data/published_configs.yaml` says which: ``decoder`` (our own), ``transformers`` (the adapter) or
``refused``, then with a part of the reason. Models are tried with few layers, small sizes and random
weights; the settings between them are the published ones.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

from engine.backends.native import build
from engine.backends.torch.decoder import TorchDecoder
from engine.backends.transformers_adapter import TransformersModel
from engine.errors import ModelError
from engine.models.checkpoints.config_file import HYBRIDS, check_computable
from tests.support.checkpoints import VOCABULARY, write_tokenizer
from tests.support.loading import load_model
from tests.support.places import ROOT

FILE = ROOT / "tests" / "data" / "published_configs.yaml"
MODELS: dict[str, dict[str, Any]] = yaml.safe_load(FILE.read_text(encoding="utf-8"))["models"]
EXECUTORS = {"decoder": TorchDecoder, "transformers": TransformersModel}
SMALL = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "intermediate_size_mlp": 96,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
    "shared_intermediate_size": 96,
    "block_ff_dim": 96,
    "block_multiple_of": 16,
    "head_dim": 32,
    "global_head_dim": 64,
    "rotary_dim": 16,
    "num_experts": 4,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "experts_per_token": 2,
    "top_k_experts": 2,
    "hidden_size_per_layer_input": 16,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "mamba_n_heads": 8,
    "mamba_d_head": 16,
    "mamba_d_state": 16,
    "vocab_size": VOCABULARY,
    "vocab_size_per_layer_input": VOCABULARY,
}
"""Sizes of the models that are tried, where a configuration has them."""
SHARED = (
    ("num_attention_heads", "num_key_value_heads"),
    ("linear_num_value_heads", "linear_num_key_heads"),
)
"""Heads, and those that several of them share: two of these are tried, shared by as many."""

TEXT_NAMES = {"llama4": ("", "language_model.")}
"""How tensors of the text part begin alone and in a published model, if not as most do."""


@pytest.fixture(scope="module", autouse=True)
def without_compiled_step() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "ready", lambda *_: None)
        yield


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(folder)
    return folder


def text_of(config: dict[str, Any]) -> dict[str, Any]:
    text: dict[str, Any] = config.get("text_config", config)
    return text


def reduced(config: dict[str, Any]) -> dict[str, Any]:
    """``config`` with few layers and small sizes; lists of layers are spelled out."""
    text = dict(text_of(config))
    every = text["num_hidden_layers"]
    if "layer_types" in text:  # runs, which repeat
        runs = [name for each in text["layer_types"] for name in [each[1]] * each[0]]
        text["layer_types"] = list(islice(cycle(runs), every))
    names = text.get("layer_types", [])
    layers = max([2, *(names.index(name) + 1 for name in names)])
    text["num_hidden_layers"] = layers
    for key, value in text.items():
        if isinstance(value, list) and len(value) == every:
            text[key] = value[:layers]
    heads = text.get("num_attention_heads")
    for many, few in SHARED:
        if few in text:
            text[many], text[few] = 2 * text[many] // text[few], 2
    if text.get("num_global_key_value_heads"):
        few = text["num_global_key_value_heads"] * text["num_attention_heads"] // heads
        text["num_global_key_value_heads"] = max(1, few)
    text |= {key: size for key, size in SMALL.items() if text.get(key)}
    return {**config, "text_config": text} if "text_config" in config else text


def write_model(folder: Path, config: dict[str, Any], kind: str | None) -> Any:
    """Write a random model with ``config`` beside its tokenizer; return that of transformers.

    ``kind``: the model type in transformers that computes the same, if it has none of this name.
    """
    from transformers import AutoConfig, AutoModelForCausalLM

    text = {**text_of(config), "initializer_range": 0.1}
    named = text.pop("model_type")
    settings = AutoConfig.for_model(kind or named, **text)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model: Any = AutoModelForCausalLM.from_config(settings, dtype=torch.float32).eval()
    model.save_pretrained(folder)
    if "text_config" in config:  # published beside parts that see and hear
        file = folder / "model.safetensors"
        before, after = TEXT_NAMES.get(config["model_type"], ("model.", "model.language_model."))
        named = {after + name.removeprefix(before): each for name, each in load_file(file).items()}
        save_file(named, file, metadata={"format": "pt"})
    return model


@pytest.mark.parametrize("name", MODELS)
def test_a_published_model_is_computed_or_refused_by_name(
    name: str, tmp_path: Path, tokenizer: Path
) -> None:
    entry = MODELS[name]
    config = reduced(entry["config"])
    shutil.copytree(tokenizer, tmp_path, dirs_exist_ok=True)
    refused = entry["runs"] == "refused"
    if refused:
        table = torch.zeros(VOCABULARY, text_of(config)["hidden_size"])
        save_file({"model.embed_tokens.weight": table}, tmp_path / "model.safetensors")
    else:
        reference = write_model(tmp_path, config, entry.get("computed_by"))
    (tmp_path / "config.json").write_text(json.dumps(config))
    if refused:
        with pytest.raises(ModelError, match=entry["reason"]):
            load_model(tmp_path, quantization="fp32")
        return
    model = load_model(tmp_path, quantization="fp32", context=64)
    assert isinstance(model, EXECUTORS[entry["runs"]])
    tokens = torch.randint(VOCABULARY, (48,), generator=torch.Generator().manual_seed(3))
    with torch.inference_mode():
        expected = reference(tokens[None]).logits[0].float()
    found = model.forward(tokens.tolist(), model.new_state(64), last=48)
    assert (found - expected).abs().max() < 1e-3 * (expected.max() - expected.min())


def test_every_family_of_transformers_with_a_state_is_described_or_refused_before_it_is_listed() -> (
    None
):
    import transformers
    from transformers import AutoConfig
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as NAMES

    stateful = [
        file.parent.name
        for file in Path(transformers.__file__).parent.glob("models/*/modeling_*.py")
        if "_is_stateful = True" in file.read_text(encoding="utf-8")
    ]
    assert len(stateful) > 20
    for kind in set(stateful) & NAMES.keys() - HYBRIDS:
        with pytest.raises(ModelError, match=f"^{kind}.* has .* which is not supported"):
            check_computable(Path("config.json"), text_of(AutoConfig.for_model(kind).to_dict()))
