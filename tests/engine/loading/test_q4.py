"""Safetensors in four bits: where they can be, what they take, when they are chosen."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from engine.backends.linear_factory import LinearFactory
from engine.backends.native import support
from engine.backends.native.decoder import NativeDecoder
from engine.errors import InvalidRequest
from engine.kernels.formats.blocks import Blocks
from engine.loading.planning.choices import (
    choose_quantization,
    draft_quantization,
    quantization_note,
    quantizations,
)
from engine.loading.planning.fit import BLOCKS_WIDTH, fit
from engine.loading.planning.model_plan import plan_model
from engine.loading.planning.sizes import PairSizes
from engine.local.engine import LocalEngine
from engine.machine.devices import Device
from engine.models.checkpoints.checkpoint import Checkpoint, inspect
from engine.models.checkpoints.tensors import Tensors
from engine.models.four_bits import in_four_bits
from engine.models.tensor_shapes import Names
from tests.support.checkpoints import VOCABULARY, write_random
from tests.support.loading import load_model, request_for
from tests.support.sameness import check_rows

CPU = torch.device("cpu")
PLACE = Device(CPU)
INTERPRETED = replace(PLACE, native=False)
GPU = Device(torch.device("cuda"), kernels=True)
SIZES = {"hidden_size": 256, "intermediate_size": 288, "head_dim": 64}
"""Rows of both: whole blocks of 256, and of 32 alone."""


pytestmark = pytest.mark.usefixtures("library")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("q4") / "llama"
    write_random(path, initializer_range=0.06, **SIZES)
    return path


@pytest.fixture(scope="module")
def found(folder: Path) -> Checkpoint:
    return inspect(folder)


def test_it_computes_nearly_what_the_floats_do_each_row_as_alone(folder: Path) -> None:
    text = [index * 7 % VOCABULARY for index in range(60)]
    model, other, plain = (load_model(folder, quantization=kind) for kind in ("q4", "nf4", "fp32"))
    assert isinstance(model, NativeDecoder) and model.info.quantization == "q4"
    ours, theirs, exact = (
        each.forward(text, each.new_state(64), last=60) for each in (model, other, plain)
    )
    assert (ours - exact).norm() < (theirs - exact).norm() < exact.norm()
    check_rows(model, text, 40)


def test_the_embedding_keeps_eight_bits_and_rows_get_the_blocks_that_they_are(
    found: Checkpoint,
) -> None:
    tensor = in_four_bits(
        Tensors(found, torch.float32, CPU, in_file_dtype=True), Names.among(found.tensors)
    )
    held = {name: tensor(name) for name in found.tensors}

    def format(name: str) -> str:
        blocks = held[name]
        assert isinstance(blocks, Blocks)
        return blocks.format

    assert format("model.embed_tokens.weight") == "q8_0"
    assert format("model.layers.0.self_attn.q_proj.weight") == "q4_k"
    assert format("model.layers.1.mlp.down_proj.weight") == "q4_1"
    assert isinstance(held["model.norm.weight"], torch.Tensor)
    (size,) = sizes_of(found).models("q4", "auto")
    # Both by 4 bytes a number where it is in no blocks.
    taken = sum(each.nbytes for each in held.values())
    assert size.weight_bytes() == int(taken * BLOCKS_WIDTH)
    assert "Q4_1 AND Q4_K" in (quantization_note("q4", found, PLACE) or "").upper()


def sizes_of(found: Checkpoint) -> PairSizes:
    return PairSizes(found, None, (), LinearFactory.choose("fp32", PLACE), PLACE)


def test_it_is_offered_where_the_step_is_compiled(found: Checkpoint) -> None:
    assert choose_quantization(found, "q4", PLACE) == "q4"
    assert choose_quantization(found, "auto", PLACE) != "q4"
    assert quantizations(found, PLACE) == ("bf16", "int8", "q4")
    assert quantizations(found, INTERPRETED) == ("bf16", "int8", "nf4")
    assert draft_quantization(found, "q4", PLACE) == "q4"
    assert draft_quantization(found, "nf4", PLACE) == "int8"


def narrow(path: Path) -> Path:
    write_random(path, **{**SIZES, "intermediate_size": 272})
    return path


@pytest.mark.parametrize(
    ("device", "make", "said"),
    [
        (INTERPRETED, None, "the compiled kernels on a CPU.*Choose int8"),
        (GPU, None, "the compiled kernels on a CPU.*Choose int8"),
        (PLACE, narrow, "256 and 272.*in q4 of 32.*Choose int8"),
    ],
    ids=["interpreted", "gpu", "narrow"],
)
def test_it_is_refused_with_the_reason(
    device: Device, make: Callable[[Path], Path] | None, said: str, folder: Path, tmp_path: Path
) -> None:
    found = inspect(make(tmp_path / "narrow") if make else folder)
    with pytest.raises(InvalidRequest, match=f"quantization is 'q4', but .*{said}"):
        choose_quantization(found, "q4", device)
    assert draft_quantization(found, "q4", device) != "q4"


def test_a_model_of_transformers_is_refused(gptneo: Path) -> None:
    with pytest.raises(InvalidRequest, match="GPTNeoForCausalLM runs through transformers"):
        choose_quantization(inspect(gptneo), "q4", PLACE)


def test_where_the_compiled_step_fails_its_trial_q4_is_refused_with_the_reason(
    found: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(support, "passes", lambda _, weights: weights != "q4_1")
    with pytest.raises(InvalidRequest, match="results for q4_1 weights depend on the batch"):
        plan_model(found, PLACE, "q4")
    assert plan_model(found, PLACE, "int8").library is not None


@pytest.mark.parametrize("held", ["int8", "q4"])
def test_auto_takes_fewer_bits_where_more_do_not_fit_and_says_so(
    held: str,
    found: Checkpoint,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The most that fit; what is asked for by name is refused as before."""
    (size,) = sizes_of(found).models(held, "auto")
    free = fit(size, context=found.context, free=0, threads=1).needed
    monkeypatch.setattr("engine.machine.memory.free_bytes", lambda: free)
    with closing(LocalEngine()) as engine:
        loaded = engine.load(request_for(folder))
        assert loaded.quantization == held
        assert any(f"would not fit in memory, so {held} is used" in note for note in loaded.notes)
