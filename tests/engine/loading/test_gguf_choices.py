"""What becomes of a GGUF file's blocks, and what people are told of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from engine.backends.linear_factory import LinearFactory
from engine.backends.native import build
from engine.backends.native.decoder import NativeDecoder
from engine.errors import InvalidRequest
from engine.loading.planning.choices import (
    Backend,
    choose_backend,
    choose_quantization,
    draft_quantization,
    quantization_note,
    quantizations,
)
from engine.loading.planning.sizes import PairSizes
from engine.machine.devices import Device
from engine.models.checkpoints.checkpoint import Checkpoint, inspect
from tests.support.checkpoints import write_random
from tests.support.gguf_files import all_in, write_gguf
from tests.support.loading import load_model

PLACE = Device(torch.device("cpu"))
INTERPRETED = replace(PLACE, native=False)
GPU = Device(torch.device("cuda"), kernels=True)


@pytest.fixture(scope="module", autouse=True)
def _built() -> None:
    build.build()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("choices") / "llama"
    write_random(path, hidden_size=64, head_dim=16, intermediate_size=96)
    return path


@pytest.fixture(scope="module")
def file(folder: Path) -> Path:
    return write_gguf(folder, folder.parent / "m.gguf", all_in("Q8_0"))


@pytest.fixture(scope="module")
def found(file: Path) -> Checkpoint:
    return inspect(file)


def test_blocks_are_multiplied_as_they_are_where_the_step_is_compiled(found: Checkpoint) -> None:
    assert choose_quantization(found, "auto", PLACE) == "stored"
    assert choose_quantization(found, "auto", INTERPRETED) == "int8"
    assert choose_quantization(found, "auto", GPU) == "stored"
    assert choose_backend(found, "stored", GPU) is Backend.CUDA
    assert choose_quantization(found, "int8", PLACE) == "int8"


def test_a_draft_in_blocks_is_not_rounded_again(found: Checkpoint, folder: Path) -> None:
    for target in ("fp32", "int8", "stored"):
        assert draft_quantization(found, target, PLACE) == "stored"
    assert draft_quantization(inspect(folder), "stored", PLACE) == "int8"


def test_only_blocks_can_stay_as_they_are(found: Checkpoint, folder: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"a GGUF file with quantised weights.*F32"):
        choose_quantization(inspect(folder), "stored", PLACE)
    with pytest.raises(InvalidRequest, match="compiled kernels"):
        choose_quantization(found, "stored", INTERPRETED)


def test_blocks_that_the_step_does_not_list_are_not_left_as_they_are(
    found: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any that it could not multiply once became int8 in the step, whoever had said so."""
    monkeypatch.setattr("engine.backends.native.support.NATIVE_FORMATS", ("q4_0",))
    assert choose_quantization(found, "auto", PLACE) == "int8"
    with pytest.raises(InvalidRequest, match="cannot compute with Q8_0 blocks"):
        choose_quantization(found, "stored", PLACE)


def test_blocks_that_a_gpu_cannot_multiply_are_rounded_there(found: Checkpoint) -> None:
    dtypes = {"Q8_0": "IQ4_NL"}
    tensors = {
        name: info._replace(dtype=dtypes.get(info.dtype, info.dtype))
        for name, info in found.tensors.items()
    }
    found = replace(found, tensors=tensors)
    assert choose_quantization(found, "auto", GPU) == "int8"
    with pytest.raises(InvalidRequest, match="its kernels cannot compute with IQ4_NL blocks"):
        choose_quantization(found, "stored", GPU)


def test_people_are_told_what_becomes_of_them(found: Checkpoint, folder: Path) -> None:
    assert "weights directly" in (quantization_note("stored", found, PLACE) or "")
    assert "rounded to int8" in (quantization_note("int8", found, PLACE) or "")
    assert "widened to bf16" in (quantization_note("bf16", found, GPU) or "")
    assert "file" not in (quantization_note("int8", inspect(folder), PLACE) or "")


def test_memory_is_reckoned_by_the_files_bits(folder: Path, tmp_path: Path) -> None:
    narrow = inspect(write_gguf(folder, tmp_path / "m.gguf", all_in("Q4_0")))
    sizes = PairSizes(narrow, None, (), LinearFactory.choose("fp32", PLACE), PLACE)
    (stored,), (int8,) = (sizes.models(kind, "auto") for kind in ("stored", "int8"))
    assert narrow.bytes <= stored.weight_bytes() < int8.weight_bytes()
    planes = replace(sizes, device=GPU).models("stored", "auto")[0].block_bytes
    assert planes == pytest.approx(narrow.bytes, rel=0.05)  # vectors are half as wide


def test_nobody_is_told_to_round_again_what_would_hardly_be_smaller(
    found: Checkpoint, folder: Path, tmp_path: Path
) -> None:
    """Four bits were to be rounded to other four bits where memory ran out."""
    narrow = inspect(write_gguf(folder, tmp_path / "m.gguf", all_in("Q4_0")))
    assert quantizations(narrow, PLACE) == ("bf16", "stored")
    # Its embedding, which keeps eight bits, is a quarter of it; in a larger model it is less.
    larger = replace(found, bytes=found.bytes * 5 // 4)
    assert quantizations(larger, PLACE) == ("bf16", "stored", "q4")
    assert quantizations(narrow, INTERPRETED) == ("bf16", "int8", "nf4")


def test_the_compiled_step_runs_the_file(file: Path, folder: Path) -> None:
    text = [token % 300 for token in range(7, 47)]
    model, plain = load_model(file), load_model(folder, quantization="fp32")
    assert isinstance(model, NativeDecoder) and model.info.quantization == "stored"
    ours = model.forward(text, model.new_state(64), last=40)
    theirs = plain.forward(text, plain.new_state(64), last=40)
    assert torch.cosine_similarity(ours, theirs).min() > 0.99
