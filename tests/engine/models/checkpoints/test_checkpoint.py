"""Model folders as they are described from their headers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from engine.models.checkpoints.checkpoint import inspect, weights_complete
from tests.support.folders import model_files, write_files, write_model
from tests.support.places import ROOT

INDEX = "model.safetensors.index.json"


def test_a_llama_is_described_from_its_headers(stories: Path) -> None:
    found = inspect(stories)
    assert found.architecture == "LlamaForCausalLM"
    assert (found.layers, found.hidden, found.kv_heads, found.head_dim) == (5, 64, 4, 8)
    assert (found.vocabulary, found.context, found.eos_ids) == (512, 512, (2,))
    assert found.parameters == 260_032
    assert found.bytes == 4 * 260_032
    assert found.tensors["model.embed_tokens.weight"].shape == (512, 64)
    assert not found.has_chat_template


def test_other_architectures_name_their_sizes_differently(gptneo: Path) -> None:
    found = inspect(gptneo)
    assert found.architecture == "GPTNeoForCausalLM"
    assert (found.layers, found.hidden, found.kv_heads, found.context) == (8, 128, 16, 256)
    assert found.vocabulary == 14_019
    assert found.has_chat_template


def test_shards_are_read_through_their_index(tmp_path: Path) -> None:
    single = inspect(write_model(tmp_path / "single"))
    sharded = inspect(write_model(tmp_path / "sharded", shards=3))
    assert sharded.parameters == single.parameters
    assert sharded.tensors.keys() == single.tensors.keys()
    assert len({info.file for info in sharded.tensors.values()}) == 3


def test_a_stored_copy_of_the_tied_embedding_does_not_count_as_parameters(tmp_path: Path) -> None:
    from tests.support.folders import safetensors_bytes

    folder = write_model(tmp_path, vocabulary=32, hidden=8)
    shapes = {"model.embed_tokens.weight": (32, 8), "lm_head.weight": (32, 8)}
    (folder / "model.safetensors").write_bytes(safetensors_bytes(shapes))
    found = inspect(folder)
    assert found.parameters == 32 * 8
    assert found.bytes == 2 * 4 * 32 * 8


def test_the_text_part_describes_a_multimodal_model(tmp_path: Path) -> None:
    folder = write_model(tmp_path)
    config = json.loads((folder / "config.json").read_text())
    outer = {"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3"}
    text = {key: value for key, value in config.items() if key not in outer}
    (folder / "config.json").write_text(json.dumps({**outer, "text_config": text}))
    found = inspect(folder)
    assert (found.layers, found.context) == (1, 256)


def test_generation_config_knows_all_the_ends(tmp_path: Path) -> None:
    folder = write_model(tmp_path, eos=1)
    (folder / "generation_config.json").write_text('{"eos_token_id": [3, 2]}')
    assert inspect(folder).eos_ids == (2, 3)


def test_a_checkpoint_cannot_be_changed(tmp_path: Path) -> None:
    found = inspect(write_model(tmp_path))
    with pytest.raises(TypeError):
        found.config["vocab_size"] = 1  # type: ignore[index]


def test_completeness_needs_configuration_tokenizer_and_weights(tmp_path: Path) -> None:
    files = model_files(shards=2)
    assert weights_complete(write_files(tmp_path / "all", files))
    for name in ("config.json", "tokenizer.json", INDEX, "model-00001-of-00002.safetensors"):
        rest = {file: content for file, content in files.items() if file != name}
        assert not weights_complete(write_files(tmp_path / name, rest))
    assert not weights_complete(tmp_path / "absent")


def test_inspecting_does_not_bring_torch() -> None:
    modules = (
        "models.checkpoints.checkpoint loading.catalog loading.planning.fit loading.hub".split()
    )
    code = f"import sys, {', '.join(f'engine.{name}' for name in modules)}\n"
    code += "print([m for m in ('torch', 'transformers') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "[]"
