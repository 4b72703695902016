"""A GGUF file runs as the checkpoint it was made of: the same logits, and what is told of it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch

from engine.kernels.formats.blocks import Blocks
from engine.kernels.native.library import Library
from engine.loading.planning.pairing import compare
from engine.models.checkpoints.checkpoint import fingerprint, inspect
from engine.models.checkpoints.gguf.header import (
    FILE_TYPES,
    TENSOR_TYPES,
    layout_of,
    read_gguf_header,
)
from engine.models.checkpoints.gguf.tensors import GgufTensors
from engine.models.checkpoints.safetensors_header import TensorEntry, read_header
from engine.models.checkpoints.stored_tensor import read_raw
from engine.models.checkpoints.tensors import open_tensors
from tests.support.checkpoints import write_pair, write_random
from tests.support.families import LLAMA3, MODELS, write_family
from tests.support.gguf_files import AS_THE_FILE_HAS_IT, all_in, write_gguf
from tests.support.loading import load_model

CPU = torch.device("cpu")
LAST_BITS = {
    "gemma4, experts",
    "phi3, longrope",
    "qwen3.5",
    "qwen3.5-moe",
    "qwen3-next",
    "hunyuan",
    "granite, hybrid",
    "granite, hybrid, experts",
}
"""The file holds how much its attention is sharpened, exp(A_log), or a stretched base, in float32."""
LEFT_OUT = {
    "biases": "llama.cpp's Llama has no bias on the output of attention",
    "dynamic rope": "is the default rope up to the model's context",
    "mistral": "llama.cpp's Llama has no window",
    "ministral": "llama.cpp has no such model",
    "qwen2, later layers slide": "llama.cpp's Qwen has no window",
    "qwen3, biases, a window": "llama.cpp's Qwen has no window",
    "llama3 rope": "the file holds what comes out of it: tested by itself",
}
WHOLE_BLOCKS: dict[str, Any] = {"hidden_size": 64, "head_dim": 16, "intermediate_size": 96}
"""Sizes that divide into blocks of 32."""
TEXT = torch.randint(300, (100,), generator=torch.Generator().manual_seed(3)).tolist()


def logits(path: Path, quantization: str = "fp32") -> torch.Tensor:
    model = load_model(path, quantization=quantization, native=False)
    return model.forward(TEXT, model.new_state(len(TEXT)), last=len(TEXT))


@pytest.mark.parametrize("name", sorted(MODELS.keys() - LEFT_OUT))
def test_every_family_has_the_logits_of_its_folder(name: str, tmp_path: Path) -> None:
    write_family(tmp_path / "folder", name, **AS_THE_FILE_HAS_IT.get(name, {}))
    file = write_gguf(tmp_path / "folder", tmp_path / "model.gguf")
    ours, theirs = logits(file), logits(tmp_path / "folder")
    if name in LAST_BITS:
        assert torch.allclose(ours, theirs, atol=1e-4)
    else:
        assert torch.equal(ours, theirs)


def test_the_factors_of_llama_3_come_from_their_tensor(tmp_path: Path) -> None:
    write_family(tmp_path / "folder", "llama3 rope")
    width, theta = 8, LLAMA3["rope_theta"]
    plain = [theta ** (-i / width) for i in range(0, width, 2)]
    model = load_model(tmp_path / "folder", quantization="fp32", native=False)
    stretched = model.architecture.layers[0].attention.rope.frequencies  # type: ignore[attr-defined]
    factors = np.array(plain) / np.array(stretched)

    def add(tensors: dict[str, np.ndarray]) -> None:
        tensors["rope_freqs.weight"] = factors.astype(np.float32)

    file = write_gguf(tmp_path / "folder", tmp_path / "m.gguf", edit=add)
    assert factors.max() > 2
    assert torch.allclose(logits(file), logits(tmp_path / "folder"), atol=1e-4)


def test_granite_with_experts_and_without_mamba_is_another_architecture(tmp_path: Path) -> None:
    attends = {"layer_types": ["full_attention"] * 3, "position_embedding_type": "rope"}
    write_family(tmp_path / "folder", "granite, hybrid, experts", **attends)
    file = write_gguf(tmp_path / "folder", tmp_path / "model.gguf")
    assert read_gguf_header(file).metadata["general.architecture"] == "granitemoe"
    assert torch.equal(logits(file), logits(tmp_path / "folder"))


@pytest.mark.parametrize("name", ["biases", "qwen2", "qwen3.5"])
def test_queries_keys_and_values_may_be_joined(name: str, tmp_path: Path) -> None:
    """As the converter writes them with --fuse-qkv."""
    write_family(tmp_path / "folder", name)

    def join(tensors: dict[str, np.ndarray]) -> None:
        for query in [each for each in tensors if ".attn_q." in each]:
            parts = [tensors.pop(query.replace("attn_q", f"attn_{part}")) for part in "qkv"]
            tensors[query.replace("attn_q", "attn_qkv")] = np.concatenate(parts)

    apart = write_gguf(tmp_path / "folder", tmp_path / "apart.gguf")
    joined = write_gguf(tmp_path / "folder", tmp_path / "joined.gguf", edit=join)
    assert torch.equal(logits(joined), logits(apart))


def test_the_text_part_of_a_glm_that_sees_has_halves(tmp_path: Path) -> None:
    write_family(tmp_path / "folder", "glm4")

    def in_halves(tensors: dict[str, np.ndarray]) -> None:
        for name in [each for each in tensors if ".attn_q." in each or ".attn_k." in each]:
            heads = tensors[name].reshape(-1, 8, *tensors[name].shape[1:])
            tensors[name] = heads[:, [0, 2, 1, 3, 4, 5, 6, 7]].reshape(tensors[name].shape)

    values = {"glm4.rope.dimension_sections": [1, 1, 0, 0]}
    text = write_gguf(tmp_path / "folder", tmp_path / "text.gguf")
    sees = write_gguf(tmp_path / "folder", tmp_path / "sees.gguf", values=values, edit=in_halves)
    assert torch.allclose(logits(sees), logits(text), atol=1e-5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Qwen whose rows divide into blocks of 32."""
    path = tmp_path_factory.mktemp("reading") / "qwen"
    write_random(path, "qwen2", **WHOLE_BLOCKS)
    return path


@pytest.mark.parametrize("kind", ["F16", "BF16"])
def test_halves_come_as_they_are(folder: Path, tmp_path: Path, kind: str) -> None:
    found = inspect(write_gguf(folder, tmp_path / "m.gguf", all_in(kind)))
    assert not found.block_formats
    name = "model.layers.1.mlp.up_proj.weight"
    plain = open_tensors(inspect(folder), torch.float32, CPU)(name)
    dtype = torch.float16 if kind == "F16" else torch.bfloat16
    assert torch.equal(GgufTensors(found, torch.float32, CPU).original(name), plain.to(dtype))


def test_blocks_are_the_files_bytes_in_the_order_of_the_folders_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each byte is read once: all of a reordered matrix was read for each part of it."""
    sizes = list[int]()

    def counted(file: Path, entry: TensorEntry) -> torch.Tensor:
        sizes.append(entry.nbytes)
        return read_raw(file, entry)

    monkeypatch.setattr("engine.models.checkpoints.gguf.tensors.read_raw", counted)
    write_random(tmp_path / "llama", **WHOLE_BLOCKS)
    file = write_gguf(tmp_path / "llama", tmp_path / "m.gguf", all_in("Q8_0"))
    plain, found = inspect(tmp_path / "llama"), inspect(file)
    assert found.block_formats == {"q8_0"}
    floats = open_tensors(plain, torch.float32, CPU)
    blocks = GgufTensors(found, torch.float32, CPU)
    for name in plain.tensors:
        weight = blocks.weight(name)
        if isinstance(weight, Blocks):
            wanted = gguf.quants.quantize(floats(name).numpy(), gguf.GGMLQuantizationType.Q8_0)
            sizes.clear()
            parts = [part.data[:] for part in weight.in_parts(WHOLE_BLOCKS["head_dim"])]
            assert np.array_equal(torch.cat(parts).numpy(), wanted), name
            assert sum(sizes) == weight.nbytes
        else:
            assert torch.equal(weight, floats(name)), name


@pytest.mark.parametrize("kind", ["F32", "Q8_0"])
@pytest.mark.parametrize(
    ("name", "matrix", "factors"),
    [("qwen2", "attn_q", [2]), ("qwen3-moe", "ffn_down_exps", [2, 4, 0.5, 1, 2, 1, 8, 2])],
)
def test_a_factor_beside_a_matrix_multiplies_it_and_not_its_bias(
    name: str, matrix: str, factors: list[float], kind: str, tmp_path: Path
) -> None:
    """As llama.cpp stores NVFP4, whose scales are too coarse for a whole model."""
    write_family(tmp_path / "folder", name, **WHOLE_BLOCKS, **AS_THE_FILE_HAS_IT.get(name, {}))

    def divide(tensors: dict[str, np.ndarray]) -> None:
        stem, by = f"blk.1.{matrix}", np.array(factors, np.float32)
        weight = tensors[f"{stem}.weight"]
        tensors[f"{stem}.weight"] = weight / by.reshape(-1, *(1,) * (weight.ndim - 1))
        tensors[f"{stem}.scale"], tensors[f"{stem}.input_scale"] = by, by

    plain = write_gguf(tmp_path / "folder", tmp_path / "plain.gguf", all_in(kind))
    divided = write_gguf(tmp_path / "folder", tmp_path / "divided.gguf", all_in(kind), edit=divide)
    assert torch.equal(logits(divided), logits(plain))


@pytest.mark.parametrize(("name", "most"), [("qwen3-moe", 0.05), ("qwen3-next", 0.15)])
def test_experts_in_blocks_are_multiplied_as_stored(
    name: str, most: float, tmp_path: Path, library: Library
) -> None:
    """In the compiled step, which loads those of a layer at once. Recurrences pass roundings on."""
    sizes = {"hidden_size": 64, "head_dim": 32, **AS_THE_FILE_HAS_IT.get(name, {})}
    write_family(tmp_path / "folder", name, **sizes)

    def kind(name: str, weight: np.ndarray) -> str:
        return "Q8_0" if weight.ndim > 1 and not name.endswith("conv1d.weight") else "F32"

    file = write_gguf(tmp_path / "folder", tmp_path / "m.gguf", kind)
    model = load_model(file)
    assert model.info.quantization == "stored" and model.info.compiled
    found = model.forward(TEXT, model.new_state(512), last=len(TEXT))
    off = (found - logits(file)).norm(dim=1) / found.norm(dim=1)
    assert off.median() < most


def test_asked_for_int8_blocks_are_widened_and_rounded_again(folder: Path, tmp_path: Path) -> None:
    file = write_gguf(folder, tmp_path / "m.gguf", all_in("Q8_0"))
    near = torch.cosine_similarity(logits(file, "int8"), logits(folder))
    assert near.min() > 0.99


def test_what_is_told_of_a_file(folder: Path, tmp_path: Path) -> None:
    values = {"general.file_type": 7}
    file = write_gguf(folder, tmp_path / "small-q8.gguf", all_in("Q8_0"), values=values)
    plain, found = inspect(folder), inspect(file)
    same = ("architecture", "layers", "hidden", "heads", "kv_heads", "head_dim", "vocabulary", "context",
            "parameters", "eos_ids", "has_chat_template", "repeats_embedding")  # fmt: skip
    assert {key: getattr(found, key) for key in same} == {key: getattr(plain, key) for key in same}
    assert (found.name, found.dtype) == ("small-q8", "Q8_0")
    assert found.bytes == sum(tensor.nbytes for tensor in read_gguf_header(file).tensors.values())
    assert found.bytes < plain.bytes / 3


def test_a_file_and_a_folder_pair_up(tmp_path: Path) -> None:
    """Their tokenizers are compared by what they are, not by how they are stored."""
    write_pair(tmp_path / "target", tmp_path / "draft")
    file = write_gguf(tmp_path / "draft", tmp_path / "draft.gguf")
    target = inspect(tmp_path / "target")
    assert compare(target, inspect(file)).reason is None
    big = write_gguf(tmp_path / "target", tmp_path / "target.gguf")
    assert compare(inspect(big), inspect(file)).reason is None
    assert compare(inspect(big), inspect(tmp_path / "draft")).reason is None


def test_fingerprints_go_by_content(folder: Path, tmp_path: Path) -> None:
    one = write_gguf(folder, tmp_path / "one.gguf")
    (tmp_path / "moved.gguf").write_bytes(one.read_bytes())
    other = write_gguf(folder, tmp_path / "other.gguf", values={"general.name": "another"})
    assert fingerprint(one) == fingerprint(tmp_path / "moved.gguf") != fingerprint(other)


def test_fine_tunes_have_fingerprints_of_their_own(folder: Path, tmp_path: Path) -> None:
    """Two of the same sizes shared what was learned, remembered and measured."""
    tuned = shutil.copytree(folder, tmp_path / "tuned")
    assert fingerprint(tuned) == fingerprint(folder)
    file = write_gguf(folder, tmp_path / "one.gguf")
    weights = tuned / "model.safetensors"
    places = {
        tuned: (weights, read_header(weights)["model.embed_tokens.weight"]),
        file: (file, read_gguf_header(file).tensors["token_embd.weight"]),
    }
    for model, (stored, tensor) in places.items():
        before, content = fingerprint(model), bytearray(stored.read_bytes())
        content[tensor.start : tensor.start + tensor.nbytes] = bytes(tensor.nbytes)
        stored.write_bytes(content)
        assert fingerprint(model) != before


def test_files_that_were_split_are_one_model(folder: Path, tmp_path: Path) -> None:
    write_gguf(folder, tmp_path / "m.gguf", tensors_in_a_file=10)
    parts = sorted(tmp_path.glob("m-*.gguf"))
    assert len(parts) > 2
    whole = inspect(write_gguf(folder, tmp_path / "whole.gguf"))
    assert torch.equal(logits(parts[0]), logits(whole.path))
    found = inspect(parts[1])  # any of them will do
    assert (found.path, found.name, found.bytes) == (parts[0], "m", whole.bytes)


def test_names_of_types_are_ggmls() -> None:
    names = {kind.value: kind.name for kind in gguf.GGMLQuantizationType}
    known = {
        number: name for number, name in TENSOR_TYPES.items() if name != "Q2_0"
    }  # as of gguf 0.19
    assert {number: names[number] for number in known} == known
    for number, name in known.items():
        layout = layout_of(name)
        sizes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(number)]
        assert (layout.inputs, layout.size) == sizes
    kinds = {kind.value: kind.name for kind in gguf.LlamaFileType}
    for number, name in FILE_TYPES.items():
        if name != "Q2_0":
            assert kinds[number].removeprefix("MOSTLY_").removeprefix("ALL_") == name
