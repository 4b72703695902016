"""Whatever is wrong with a GGUF file is told in words, before anything large is made of it."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.api import LoadRequest
from engine.errors import ModelError
from engine.kernels.formats.block_formats import LAYOUTS
from engine.kernels.formats.blocks import Blocks
from engine.kernels.native.library import Kind, Library, Matrix
from engine.local.engine import LocalEngine
from engine.models.checkpoints.checkpoint import inspect
from engine.models.checkpoints.gguf.header import read_gguf_header
from engine.models.checkpoints.gguf.tensors import GgufTensors
from tests.support.checkpoints import write_random
from tests.support.families import write_family
from tests.support.gguf_files import Tensors, all_in, write_gguf
from tests.support.loading import load_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bad") / "qwen"
    write_random(path, "qwen2", hidden_size=64, head_dim=16, intermediate_size=96)
    return path


@pytest.fixture(scope="module")
def whole(folder: Path) -> Path:
    return write_gguf(folder, folder.parent / "good.gguf")


@pytest.fixture(scope="module")
def good(whole: Path) -> bytes:
    return whole.read_bytes()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "bad.gguf"


def refusal(file: Path) -> str:
    with pytest.raises(ModelError) as caught:
        inspect(file)
    return str(caught.value)


def test_no_file(file: Path) -> None:
    assert "There is no file" in refusal(file)


@pytest.mark.parametrize("share", [0.0, 0.0001, 0.001, 0.01, 0.1, 0.9, 0.9999])
def test_a_file_that_was_cut_short(file: Path, good: bytes, share: float) -> None:
    file.write_bytes(good[: 4 + int(share * len(good))])
    assert "cut short" in refusal(file)


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "is empty"),
        (b"<html>Not found</html>", "not a GGUF file"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        (b"GGUF" + struct.pack("<I", 1) + bytes(64), "version 1"),
        (b"GGUF" + struct.pack(">I", 3) + bytes(64), "big-endian"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**63, 0) + bytes(64), "announces 9,223,372"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**62) + bytes(64), "announces 4,611,686"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**63) + bytes(64), "announces 9,223,372"),
        (b"GGUF" + struct.pack("<IQQQ1sII", 3, 0, 1, 1, b"k", 99, 0) + bytes(9), "unknown type 99"),
        (b"GGUF" + struct.pack("<IQQQ1sIIQ", 3, 0, 1, 1, b"k", 9, 8, 2**60), "texts of a list"),
        (b"GGUF" + struct.pack("<IQQQ1sIIQ", 3, 0, 1, 1, b"k", 9, 6, 2**60), "numbers of a list"),
        (b"GGUF" + struct.pack("<IQQQ1sIIQ", 3, 0, 1, 1, b"k", 9, 9, 1), "a list has"),
        (b"GGUF" + struct.pack("<IQQQ1sIQ1s", 3, 0, 1, 1, b"k", 8, 1, b"\xff") + bytes(9), "UTF-8"),
    ],
)  # fmt: skip
def test_what_is_no_header_and_what_promises_too_much(
    file: Path, content: bytes, word: str
) -> None:
    file.write_bytes(content)
    assert word in refusal(file)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(at=st.floats(0, 1), byte=st.integers(0, 255), count=st.sampled_from([1, 8]))
def test_a_damaged_header_is_refused_or_read(
    file: Path, whole: Path, at: float, byte: int, count: int
) -> None:
    """Nothing but ModelError comes out."""
    good = whole.read_bytes()
    end = good.index(b"blk.1.ffn_down.weight") + 60
    start = 4 + int(at * (end - 5))
    file.write_bytes(good[:start] + bytes([byte] * count) + good[start + count :])
    try:
        inspect(file)
    except ModelError as error:
        assert str(file) in str(error)


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"general.architecture": "mamba"}, "'mamba'"),
        ({"general.architecture": "clip"}, "mmproj"),
        ({"general.architecture": None}, "None"),
        ({"qwen2.block_count": None}, "has no qwen2.block_count"),
        ({"qwen2.block_count": 10**9}, "block_count is 1000000000; it must be at most 10,000"),
        ({"qwen2.nextn_predict_layers": 10**9}, "layers is 1000000000; it must be less than"),
        ({"qwen2.embedding_length": "wide"}, "qwen2.embedding_length is 'wide'"),
        ({"qwen2.attention.head_count": 0}, "qwen2.attention.head_count is 0"),
        ({"qwen2.attention.layer_norm_rms_epsilon": float("nan")}, "a number above 0"),
        ({"qwen2.attention.value_length": 8}, "value_length is 8"),
        ({"qwen2.expert_count": 8}, "8 experts"),
        ({"qwen2.rope.scaling.type": "su"}, "rope.scaling.type is 'su'"),
        ({"tokenizer.ggml.model": None}, "no usable tokenizer"),
        ({"tokenizer.ggml.model": "rwkv"}, "'rwkv'"),
        ({"tokenizer.ggml.tokens": None}, "no tokens"),
        ({"tokenizer.ggml.tokens": ["a", "b"], "tokenizer.ggml.token_type": [1, 1]}, "lists 2 tokens"),
        ({"general.alignment": 3}, "general.alignment is 3"),
        ({"split.count": 2, "split.no": "x"}, "is part 'x' of 2 by its content"),
    ],
)  # fmt: skip
def test_values_that_cannot_be_run(
    folder: Path, file: Path, values: dict[str, Any], word: str
) -> None:
    assert word in refusal(write_gguf(folder, file, values=values))


@pytest.mark.parametrize(
    ("family", "changes", "values", "word"),
    [
        ("gemma4", {}, {"gemma4.attention.shared_kv_layers": "x"}, "shared_kv_layers is 'x'"),
        (
            "granite, hybrid, experts",
            {"layer_types": ["full_attention"] * 3, "position_embedding_type": "rope"},
            {"granitemoe.expert_count": None},
            "has no granitemoe.expert_count",
        ),
    ],
)
def test_values_of_one_family_that_cannot_be_run(
    tmp_path: Path,
    file: Path,
    family: str,
    changes: dict[str, Any],
    values: dict[str, Any],
    word: str,
) -> None:
    write_family(tmp_path / "folder", family, **changes)
    assert word in refusal(write_gguf(tmp_path / "folder", file, values=values))


def wider(tensors: Tensors) -> None:
    tensors["blk.1.ffn_up.weight"] = np.zeros((96, 65), dtype=np.float32)


def without(name: str) -> Callable[[Tensors], object]:
    return lambda tensors: tensors.pop(name)


def with_one_more(tensors: Tensors) -> None:
    tensors["blk.0.ffn_gate_exps.weight"] = np.zeros((4, 64, 64), dtype=np.float32)


def not_a_number(tensors: Tensors) -> None:
    tensors["blk.0.attn_norm.weight"][3] = np.nan


@pytest.mark.parametrize(
    ("edit", "word"),
    [
        (wider, "mlp.up_proj.weight has shape (96, 65)"),
        (without("blk.1.ffn_up.weight"), "mlp.up_proj.weight"),
        (without("token_embd.weight"), "token_embd.weight is missing"),
        (with_one_more, "blk.0.ffn_gate_exps.weight"),
        (not_a_number, "contains NaN"),
    ],
)
def test_tensors_that_make_no_such_model(
    folder: Path, file: Path, edit: Callable[[Tensors], object], word: str
) -> None:
    write_gguf(folder, file, edit=edit)
    with pytest.raises(ModelError) as caught:
        load_model(file, quantization="fp32", native=False)
    assert word in str(caught.value) and "config.json" not in str(caught.value)


def test_a_type_of_tensor_that_is_not_read_is_named(file: Path, good: bytes) -> None:
    name = b"blk.1.ffn_up.weight"
    at = good.index(name) + len(name) + 4 + 2 * 8
    file.write_bytes(good[:at] + struct.pack("<I", 9) + good[at + 4 :])
    assert "'blk.1.ffn_up.weight' is stored as Q8_1" in refusal(file)


def test_scales_that_are_no_numbers(folder: Path, file: Path) -> None:
    write_gguf(folder, file, all_in("Q8_0"))
    start = read_gguf_header(file).tensors["blk.0.ffn_down.weight"].start
    content = bytearray(file.read_bytes())
    content[start : start + 2] = np.float16(np.nan).tobytes()
    file.write_bytes(content)
    with pytest.raises(ModelError, match=r"layers.0.mlp.down_proj.weight contains NaN"):
        down_projection(file)


def test_blocks_of_a_file_that_changes_while_they_are_read(folder: Path, file: Path) -> None:
    write_gguf(folder, file, all_in("Q8_0"))
    blocks = tensors(file).weight("model.layers.0.mlp.down_proj.weight")
    assert isinstance(blocks, Blocks)
    assert len(blocks.rows(slice(0, 16)).data[:]) == 16
    os.utime(file, (0, 0))
    with pytest.raises(ModelError, match="changed while it was loading"):
        blocks.rows(slice(16, 32))


def test_what_is_wrong_with_blocks_is_told_where_they_are_packed(
    folder: Path, file: Path, library: Library
) -> None:
    """The compiled step reads them from the file itself, and has no words."""
    name = "model.layers.0.mlp.down_proj.weight"
    write_gguf(folder, file, all_in("Q8_0"))
    entry = read_gguf_header(file).tensors["blk.0.ffn_down.weight"]
    Matrix(library, Kind.FP32, tensors(file).weight(name))
    content = bytearray(file.read_bytes())
    last = entry.start + entry.nbytes - LAYOUTS["q8_0"].size
    content[last : last + 2] = np.float16(np.inf).tobytes()
    file.write_bytes(content)
    blocks = tensors(file).weight(name)
    with pytest.raises(ModelError, match=r"layers.0.mlp.down_proj.weight contains"):
        Matrix(library, Kind.FP32, blocks)
    os.truncate(file, entry.start + entry.nbytes // 2)
    with pytest.raises(ModelError, match="changed while it was loading"):
        Matrix(library, Kind.FP32, blocks)
    file.unlink()
    with pytest.raises(ModelError, match="cannot be read"):
        Matrix(library, Kind.FP32, blocks)


def down_projection(file: Path) -> Tensor:
    """As it is stored, read whole."""
    found = tensors(file).weight("model.layers.0.mlp.down_proj.weight")
    assert isinstance(found, Blocks)
    return found.data[:]


def tensors(file: Path) -> GgufTensors:
    return GgufTensors(inspect(file), torch.float32, torch.device("cpu"))


def test_a_file_that_changes_while_it_is_loaded(file: Path, good: bytes) -> None:
    file.write_bytes(good)
    source = tensors(file)
    os.truncate(file, len(good) // 2)
    with pytest.raises(ModelError, match="changed while it was loading"):
        source("model.norm.weight")
    file.unlink()
    with pytest.raises(ModelError, match="cannot be read"):
        source("model.norm.weight")


def test_parts_that_are_missing_or_renamed(folder: Path, tmp_path: Path) -> None:
    write_gguf(folder, tmp_path / "m.gguf", tensors_in_a_file=10)
    first, second, *_ = sorted(tmp_path.glob("m-*.gguf"))
    content = second.read_bytes()
    second.unlink()
    assert f"{second.name} are missing beside it" in refusal(first)
    second.write_bytes(first.read_bytes())
    assert "is part 1 of" in refusal(first)
    alone = tmp_path / "alone.gguf"
    alone.write_bytes(content)
    assert "Restore the published names" in refusal(alone)


def test_the_loaded_pair_stays(whole: Path, file: Path) -> None:
    engine = LocalEngine()
    try:
        loaded = engine.load(LoadRequest(target=str(whole), quantization="fp32", native=False))
        file.write_bytes(whole.read_bytes()[:-100])
        with pytest.raises(ModelError, match="cut short"):
            engine.load(LoadRequest(target=str(file)))
        assert engine.loaded is loaded
    finally:
        engine.close()
