"""A GGUF file holds what the checkpoint holds: read back with the format's own reader."""

from __future__ import annotations

import functools
import json
import math
import shutil
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from tokenizers import Regex, Tokenizer, pre_tokenizers

from engine.errors import InvalidRequest, ModelError, NotInstalled
from engine.models.checkpoints.gguf.tokenizers.pre_tokenizer import QWEN2, splitting
from engine.models.checkpoints.gguf.write import TYPES, export
from tests.support.checkpoints import END, VOCABULARY, write_random
from tests.support.places import ROOT

PIP = ROOT / "assets" / "pip" / "target"


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Llama whose rows divide into the blocks of every type."""
    folder = tmp_path_factory.mktemp("export") / "llama"
    write_random(folder, hidden_size=64, intermediate_size=96, head_dim=16)
    return folder


def read(file: Path) -> tuple[dict[str, Any], dict[str, gguf.ReaderTensor]]:
    reader = gguf.GGUFReader(file)
    values = {name: field.contents() for name, field in reader.fields.items()}
    return values, {tensor.name: tensor for tensor in reader.tensors}


def numbers(tensor: gguf.ReaderTensor) -> np.ndarray:
    return gguf.quants.dequantize(tensor.data, tensor.tensor_type)


def as_llama_cpp_turns(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """What its converter does to queries and keys, in its own words."""
    shape = (heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:])
    return weight.reshape(shape).swapaxes(1, 2).reshape(weight.shape)


def test_every_tensor_is_there_under_llama_cpps_name(llama: Path, tmp_path: Path) -> None:
    export(llama, tmp_path / "m.gguf", "f32")
    _, tensors = read(tmp_path / "m.gguf")
    stored = load_file(llama / "model.safetensors")
    layer = "model.layers.1."
    pairs = {
        "token_embd.weight": stored["model.embed_tokens.weight"],
        "output_norm.weight": stored["model.norm.weight"],
        "blk.1.attn_norm.weight": stored[f"{layer}input_layernorm.weight"],
        "blk.1.attn_q.weight": as_llama_cpp_turns(stored[f"{layer}self_attn.q_proj.weight"], 4),
        "blk.1.attn_k.weight": as_llama_cpp_turns(stored[f"{layer}self_attn.k_proj.weight"], 2),
        "blk.1.attn_v.weight": stored[f"{layer}self_attn.v_proj.weight"],
        "blk.1.attn_output.weight": stored[f"{layer}self_attn.o_proj.weight"],
        "blk.1.ffn_norm.weight": stored[f"{layer}post_attention_layernorm.weight"],
        "blk.1.ffn_gate.weight": stored[f"{layer}mlp.gate_proj.weight"],
        "blk.1.ffn_up.weight": stored[f"{layer}mlp.up_proj.weight"],
        "blk.1.ffn_down.weight": stored[f"{layer}mlp.down_proj.weight"],
    }
    for name, expected in pairs.items():
        assert np.array_equal(numbers(tensors[name]), expected.numpy()), name
    # Tied: the head is the embedding, which llama.cpp takes where there is no "output.weight".
    assert len(tensors) == 2 + 9 * 2


@pytest.mark.parametrize("kind", TYPES)
def test_matrices_take_the_type_and_vectors_stay(llama: Path, tmp_path: Path, kind: str) -> None:
    done = export(llama, tmp_path / "m.gguf", kind)
    _, tensors = read(done.file)
    down, norm = tensors["blk.0.ffn_down.weight"], tensors["blk.0.ffn_norm.weight"]
    assert down.tensor_type.name == kind.upper()
    assert norm.tensor_type == gguf.GGMLQuantizationType.F32
    expected = load_file(llama / "model.safetensors")["model.layers.0.mlp.down_proj.weight"].numpy()
    error = np.abs(numbers(down) - expected).max() / np.abs(expected).max()
    assert error <= {"f32": 0, "f16": 1e-3, "bf16": 4e-3, "q8_0": 5e-3, "q4_0": 0.1}[kind]
    assert done.bytes == done.file.stat().st_size


def test_rows_that_do_not_divide_into_blocks_become_f16(tmp_path: Path) -> None:
    write_random(tmp_path / "odd", intermediate_size=40)
    export(tmp_path / "odd", tmp_path / "m.gguf", "q8_0")
    _, tensors = read(tmp_path / "m.gguf")
    assert tensors["blk.0.ffn_down.weight"].tensor_type == gguf.GGMLQuantizationType.F16
    assert tensors["blk.0.ffn_up.weight"].tensor_type == gguf.GGMLQuantizationType.Q8_0


def test_the_shape_and_the_special_tokens_are_told(llama: Path, tmp_path: Path) -> None:
    export(llama, tmp_path / "m.gguf")
    values, _ = read(tmp_path / "m.gguf")
    assert values["general.architecture"] == "llama"
    assert values["llama.block_count"] == 2
    assert values["llama.embedding_length"] == 64
    assert values["llama.feed_forward_length"] == 96
    assert values["llama.attention.head_count"] == 4
    assert values["llama.attention.head_count_kv"] == 2
    assert values["llama.rope.dimension_count"] == 16
    assert values["llama.rope.freq_base"] == 10000.0
    assert values["llama.vocab_size"] == VOCABULARY
    assert values["tokenizer.ggml.pre"] == "gpt-2"
    assert values["tokenizer.ggml.bos_token_id"] == 0
    assert values["tokenizer.ggml.eos_token_id"] == END
    assert values["tokenizer.ggml.add_bos_token"] is False


def test_pips_vocabulary_merges_and_template_are_its_own(tmp_path: Path) -> None:
    done = export(PIP, tmp_path / "pip.gguf", "bf16")
    values, tensors = read(done.file)
    content = json.loads((PIP / "tokenizer.json").read_text())
    ids = content["model"]["vocab"] | {t["content"]: t["id"] for t in content["added_tokens"]}
    assert {t: i for i, t in enumerate(values["tokenizer.ggml.tokens"])} == ids
    merges = [m if isinstance(m, str) else " ".join(m) for m in content["model"]["merges"]]
    assert values["tokenizer.ggml.merges"] == merges
    special = {token["id"] for token in content["added_tokens"] if token["special"]}
    kinds = values["tokenizer.ggml.token_type"]
    assert {i for i, kind in enumerate(kinds) if kind == gguf.TokenType.CONTROL} == special
    template = json.loads((PIP / "tokenizer_config.json").read_text())["chat_template"]
    assert values["tokenizer.chat_template"] == template
    assert [values[f"tokenizer.ggml.{key}_token_id"] for key in ("bos", "eos", "padding")] == [
        0,
        1,
        2,
    ]
    assert values["tokenizer.ggml.pre"] == "qwen2"
    assert any("qwen2" in note for note in done.notes)
    # Pip is stored in bf16, so nothing is lost.
    embedding = load_file(PIP / "model.safetensors")["model.embed_tokens.weight"].float().numpy()
    assert np.array_equal(numbers(tensors["token_embd.weight"]), embedding)


@given(st.text(st.characters(exclude_characters="'", codec="utf-8"), max_size=80))
@settings(max_examples=300, deadline=None)
def test_pips_text_becomes_the_same_tokens_by_the_rule_that_is_named(text: str) -> None:
    """What is promised of the nearest rule: alike but for an apostrophe before capitals."""
    own, named = _pip_and_named()
    assert own.encode(text).ids == named.encode(text).ids


@pytest.mark.parametrize(
    "text", ["don't 'quote' it's", "'the end'", "we'll, they've", "\n\n  'x'\r\n"]
)
def test_apostrophes_before_small_letters_are_alike_too(text: str) -> None:
    own, named = _pip_and_named()
    assert own.encode(text).ids == named.encode(text).ids


@functools.cache
def _pip_and_named() -> tuple[Tokenizer, Tokenizer]:
    """Pip's tokenizer, and the same vocabulary behind llama.cpp's rule qwen2."""
    file = str(PIP / "tokenizer.json")
    own, named = Tokenizer.from_file(file), Tokenizer.from_file(file)
    cut = pre_tokenizers.Split(Regex(QWEN2), "isolated")
    spell = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    named.pre_tokenizer = pre_tokenizers.Sequence([cut, spell])
    return own, named


def test_an_unknown_rule_is_called_the_default_and_told() -> None:
    steps = {"type": "Split", "pattern": {"Regex": "x"}, "behavior": "Isolated"}
    found = splitting({"pre_tokenizer": steps, "model": {}})
    assert found.name == "default"
    assert found.note is not None and "other tokens" in found.note


def test_llama_3s_long_positions_come_as_factors(tmp_path: Path) -> None:
    rope = {
        "rope_type": "llama3",
        "rope_theta": 10000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 128,
    }
    write_random(tmp_path / "long", rope_parameters=rope)
    export(tmp_path / "long", tmp_path / "m.gguf")
    _, tensors = read(tmp_path / "m.gguf")
    factors = numbers(tensors["rope_freqs.weight"])
    assert len(factors) == 4
    assert factors[0] == 1  # 1 radian a position turns often enough to be kept
    wave = 2 * math.pi * 10000 ** (2 / 8)  # the second pair lies between: 128 / wave = 2.04 turns
    smooth = (128 / wave - 1) / 3
    assert factors[1] == pytest.approx(1 / ((1 - smooth) / 8 + smooth), rel=1e-5)
    assert factors[3] == pytest.approx(8)


def test_another_architecture_is_refused_by_name(tmp_path: Path) -> None:
    write_random(tmp_path / "qwen", "qwen3")
    with pytest.raises(ModelError, match="Qwen3ForCausalLM"):
        export(tmp_path / "qwen", tmp_path / "m.gguf")
    assert not (tmp_path / "m.gguf").exists()


def test_what_the_format_cannot_say_is_refused(llama: Path, tmp_path: Path) -> None:
    for change, told in (
        ({"hidden_act": "gelu"}, "gelu"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 2.0}}, "yarn"),
    ):
        folder = tmp_path / told
        shutil.copytree(llama, folder)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | change))
        with pytest.raises(ModelError, match=told):
            export(folder, tmp_path / "m.gguf")


def test_an_unknown_type_is_told(llama: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="q8_0"):
        export(llama, tmp_path / "m.gguf", "q5")


def test_without_the_package_the_message_says_how_to_get_it(
    llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(NotInstalled, match="-m pip install gguf"):
        export(llama, tmp_path / "m.gguf")


def test_a_failed_export_leaves_nothing_behind(llama: Path, tmp_path: Path) -> None:
    folder = tmp_path / "broken"
    shutil.copytree(llama, folder)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4000])
    with pytest.raises(ModelError):
        export(folder, tmp_path / "m.gguf")
    assert not list(tmp_path.glob("m.gguf*"))
