"""A decoder in two parts: the numbers of the whole, and the same bits whoever drafts.

Here torch computes the later layers on the CPU, as it does on a GPU for what the kernels do not;
``cuda/test_placement.py`` has the kernels.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from engine.backends.native.decoder import NativeDecoder
from engine.backends.split import (
    SplitDecoder,
    SplitState,
    first_layers,
    later_layers,
    why_not_split,
)
from engine.backends.torch.decoder import TorchDecoder
from engine.kernels.native.library import Library
from engine.loading.loader import load_planned
from engine.loading.planning.model_plan import plan_model
from engine.machine.devices import Device
from engine.models.checkpoints.checkpoint import inspect
from engine.models.families import described
from engine.models.tensor_shapes import Names
from tests.engine.backends.test_native import near, tokens, write
from tests.engine.backends.test_recurrent_mixers import CONTEXT, INFO, MIXERS, text
from tests.support.families import MODELS
from tests.support.random_tensors import RandomTensors, recurrent
from tests.support.sameness import check_parts, check_rollback, check_rows

CPU = Device(torch.device("cpu"))


APART = (
    "groups of 3, head_dim not hidden / heads", "llama3 rope", "mistral", "qwen3.5", "qwen3-moe", "lfm2",
    "smollm3", "gemma2", "gemma3", "gemma4", "phi3, longrope", "granite", "ministral3", "olmo2",
    "cohere2", "starcoder2",
)  # fmt: skip
"""Families whose layers differ from one another, or whose parts do more than a plain Llama's. All are
compared in either executor alone."""


@pytest.mark.parametrize(
    "name",
    [
        *APART,
        *(pytest.param(name, marks=pytest.mark.exhaustive) for name in MODELS if name not in APART),
    ],
)
def test_logits_are_those_of_transformers(name: str, tmp_path: Path, library: Library) -> None:
    """A prompt, one token and 5 together, of every family whose layers can be in two parts."""
    reference, checkpoint = write(tmp_path, name), inspect(tmp_path)
    architecture = described(checkpoint)
    assert architecture is not None
    if why_not_split(architecture):
        assert name.startswith("gemma4")
        return
    host = plan_model(checkpoint, CPU, "fp32")
    plan = plan_model(checkpoint, replace(CPU, native=False), "fp32")
    model = load_planned(replace(plan, host=host, host_layers=1))
    assert isinstance(model, SplitDecoder) and isinstance(model.rest, TorchDecoder)
    assert len(model.first.architecture.layers) == 1
    assert len(model.rest.layers) == checkpoint.layers - 1
    words, state = tokens(300), model.new_state(512)
    with torch.inference_mode():
        expected = reference(torch.tensor([words])).logits[0].float()
    found = [model.forward(words[:294], state, last=294)]
    found.append(model.forward([words[294]], state, last=1))
    found.append(model.forward(words[295:], state, last=5, final=False))
    assert near(torch.cat(found), expected)


@pytest.fixture(scope="module", params=MIXERS)
def model(request: pytest.FixtureRequest, library: Library) -> SplitDecoder:
    """A recurrent layer in each part."""
    architecture = recurrent(MIXERS[request.param])
    source = RandomTensors(architecture).__getitem__
    part = first_layers(architecture, 1)
    first = NativeDecoder(part, Names(), source, INFO, library, "fp32", torch.float32)
    rest, names, tensor = later_layers(architecture, Names(), source, 1)
    return SplitDecoder(first, TorchDecoder(rest, names, tensor, INFO))


def test_a_row_has_the_same_bits_beside_any_others(model: SplitDecoder) -> None:
    check_rows(model, text(60), 40)
    check_rollback(model, text(60), [text(15, seed) for seed in range(4)])
    check_parts(model, text(70), (1, 7, 16))


def test_both_parts_go_back_to_a_checkpoint_and_to_nothing_else(model: SplitDecoder) -> None:
    state, words = model.new_state(CONTEXT), text(60)
    model.forward(words[:20], state, last=0)
    state.save_checkpoint()
    model.forward(words[20:40], state, last=0)
    assert isinstance(state, SplitState) and not state.crops
    assert [state.reachable(length) for length in (40, 39, 20, 19)] == [40, 20, 20, 0]
    state.first.save_checkpoint()  # which one part alone has is no help
    model.forward(words[40:50], state, last=0)
    assert state.reachable(45) == 20
    state.rewind(20)
    assert (state.first.length, state.rest.length, state.length) == (20, 20, 20)
    found = model.forward(words[20:30], state, last=1)
    assert torch.equal(found, model.forward(words[:30], model.new_state(CONTEXT), last=1))
