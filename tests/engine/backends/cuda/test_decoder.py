"""The decoder on a device: the torch decoder's logits, and the same bits for 1 to 16 rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("triton")

from engine.backends.cuda import decoder as module
from engine.models.hidden_states import NORMED, AuxLayer
from tests.engine.backends.cuda.small import SIZES, load, load_reference, tokens
from tests.engine.kernels.cuda.cases import check_cache
from tests.engine.kernels.cuda.where import INTERPRETED
from tests.support.checkpoints import write_random
from tests.support.families import YARN, write_family

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("device")]

FORMATS = ("bf16", "int8", "nf4")
FIRST = ("bf16", *(pytest.param(each, marks=pytest.mark.exhaustive) for each in FORMATS[1:]))
"""All formats; where only the linear layers differ, the kernels' own tests suffice."""
SOME = (
    "gemma2",  # a GELU, norms on either side, both soft caps, a window
    "gemma3",  # norms on queries and keys, a rope for near and one for far layers
    "qwen2",  # biases
    "smollm3",  # a layer without positions
    "phi3, half turned",  # joined tensors, a part of each head turns
    "granite",  # scales of what is added and of logits
    "exaone4",  # norms after parts only
    "ministral3",  # a temperature of positions
)
"""Features that a plain Llama does not have."""
APART = {"bf16": 0.02, "int8": 0.04, "nf4": 0.4}
"""Relative error of the logits that rounding of activations and small weights explains."""


def distance(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found.cpu() - expected).norm() / expected.norm())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("llama")
    write_random(made, **SIZES, uneven=0.1)
    return made


@pytest.mark.parametrize("dtype", FORMATS)
def test_logits_are_those_of_the_torch_decoder(folder: Path, dtype: str) -> None:
    """Compute a prompt, then some rows after it; graphs run the same kernels."""
    text = tokens(9)
    model, reference = load(folder, dtype), load_reference(folder)
    ours, theirs = model.new_state(64), reference.new_state(64)
    for part in (text[:5], text[5:6], text[6:]):
        found = model.forward(part, ours, last=len(part))
        assert distance(found, reference.forward(part, theirs, last=len(part))) < APART[dtype]
    assert ours.length == int(ours.static.length) == 9
    check_cache(ours.static)


@pytest.mark.parametrize("name", SOME)
def test_every_feature_of_a_family_is_there(name: str, tmp_path: Path) -> None:
    changes: dict[str, Any] = {"num_hidden_layers": 1}
    if name in ("smollm3", "gemma3", "exaone4"):
        changes = {}
    if name == "ministral3":
        rope = {**YARN, "original_max_position_embeddings": 4, "llama_4_scaling_beta": 0.5}
        changes["rope_parameters"] = rope
    write_family(tmp_path, name, **changes)
    text = tokens(30)[:6] if INTERPRETED else tokens(60)
    model, reference = load(tmp_path), load_reference(tmp_path)
    found = model.forward(text, model.new_state(64), last=len(text))
    expected = reference.forward(text, reference.new_state(64), last=len(text))
    assert distance(found, expected) < APART["bf16"]


@pytest.mark.parametrize("dtype", FIRST)
def test_a_row_has_the_same_bits_beside_any_others(folder: Path, dtype: str) -> None:
    model, text = load(folder, dtype), tokens(20)
    start, counts, single = 4, range(2, 16), range(16)
    if INTERPRETED:
        start, counts, single = 3, (2, 7), (0, 1, 6, 15)
    cache = model.new_state(64)
    model.forward(text[:start], cache, last=0)
    behind = text[start : start + 16]
    together = model.forward(behind, cache, last=16)
    for row in reversed(single):  # behind what was there beside it
        cache.rewind(start + row)
        alone = model.forward(behind[row : row + 1], cache, last=1)
        assert torch.equal(alone[0], together[row]), row
    for rows in counts:
        cache.rewind(start)
        assert torch.equal(model.forward(behind[:rows], cache, last=rows), together[:rows]), rows


def test_what_was_rejected_leaves_no_trace(folder: Path) -> None:
    model, text = load(folder), tokens(8)
    used, fresh = model.new_state(64), model.new_state(64)
    model.forward([*text[:3], 7, 8, 9, 10], used, last=0)
    used.rewind(3)
    model.forward(text[:3], fresh, last=0)
    assert torch.equal(
        model.forward(text[3:], used, last=5), model.forward(text[3:], fresh, last=5)
    )


@pytest.mark.parametrize("dtype", FIRST)
def test_a_long_prompt_goes_through_cublas_in_parts(
    folder: Path, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two parts of many rows, with attention in smaller ones; later logits are nearly the same."""
    text = tokens(14)
    streamed = load(folder, dtype)
    expected = streamed.forward(text, streamed.new_state(64), last=4).cpu()
    monkeypatch.setattr(module.CudaDecoder, "prefill_rows", 6)
    monkeypatch.setattr(module, "STREAMED_ROWS", 4)
    monkeypatch.setattr("engine.kernels.cuda.linear.bulk.STREAMED_ROWS", 4)
    model = load(folder, dtype)
    cache = model.new_state(64)
    model.forward(text[:10], cache, last=0)
    assert distance(model.forward(text[10:], cache, last=4), expected) < 0.06


def test_heads_read_the_hidden_states_of_the_torch_decoder(folder: Path) -> None:
    """The output head on the normed states gives exactly the logits of the step."""
    aux_layers, text = (AuxLayer(0), AuxLayer(1), NORMED), tokens(6)
    model, reference = load(folder), load_reference(folder)
    ours, theirs = model.new_state(64, aux_layers), reference.new_state(64, aux_layers)
    for part in (text[:4], text[4:]):
        logits = model.forward(part, ours, last=len(part))
        reference.forward(part, theirs, last=0)
    found, expected = ours.aux, theirs.aux
    assert found is not None and expected is not None
    for aux_layer in aux_layers:
        assert distance(found.at(aux_layer)[:6], expected.at(aux_layer)[:6]) < APART["bf16"]
        assert not found.at(aux_layer)[6:].any()
    assert torch.equal(model.logits(found.at(NORMED)[4:6].float()), logits)
    assert distance(model.embed(text), reference.embed(text)) < APART["bf16"]
