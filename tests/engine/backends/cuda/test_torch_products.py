"""Hybrids and mixtures from a file's blocks: in the kernels, or in torch with its products in them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton")

from engine.backends import gpu_trial
from engine.backends.cuda.decoder import CudaDecoder
from engine.backends.cuda.trial import verdicts
from engine.backends.torch.decoder import TorchDecoder
from engine.errors import KernelsFailed
from engine.kernels.cuda.linear.bulk import BulkLinear
from engine.loading.loader import load_planned
from engine.loading.planning.model_plan import ModelPlan, plan_model
from engine.machine import devices
from engine.models.checkpoints.checkpoint import inspect
from engine.models.families import described
from tests.engine.backends.cuda.small import load_reference, tokens
from tests.engine.backends.cuda.test_decoder import distance
from tests.engine.backends.cuda.test_recurrent import SMALL
from tests.support.families import write_family
from tests.support.gguf_files import write_gguf
from tests.support.sameness import go_back

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("device")]

FAMILIES = {"qwen3.5": CudaDecoder, "lfm2-moe": CudaDecoder, "olmoe": TorchDecoder}
"""Recurrences; experts with sigmoid scores. Torch has norms across heads."""


def stored_in(name: str, weight: object) -> str:
    """Blocks for what a product multiplies by, as llama.cpp chooses them."""
    shape = weight.shape  # type: ignore[attr-defined]
    floats = (
        len(shape) < 2
        or shape[-1] % 32
        or any(part in name for part in ("bias", "conv", "gate_inp", "ssm"))
    )
    return "F32" if floats else "MXFP4" if "exps" in name else "Q4_0" if "attn" in name else "Q8_0"


@pytest.fixture(
    params=[
        "olmoe",
        *(pytest.param(each, marks=pytest.mark.exhaustive) for each in ("qwen3.5", "lfm2-moe")),
    ]
)
def plan(request: pytest.FixtureRequest, tmp_path: Path) -> ModelPlan:
    small = {**SMALL, "olmoe": {"intermediate_size": 64}}.get(request.param, {})
    write_family(tmp_path / "folder", request.param, **small)
    file = write_gguf(tmp_path / "folder", tmp_path / "m.gguf", stored_in)
    plan = plan_model(inspect(file), devices.choose("auto"), context=128)
    return replace(plan, compute="bf16")  # as on a GPU


def load(plan: ModelPlan) -> TorchDecoder:
    model = load_planned(plan)
    assert isinstance(model, TorchDecoder)
    assert all(isinstance(each, BulkLinear) for each in model.gpu_products)
    return model


def test_its_blocks_are_multiplied_as_they_are_stored(
    plan: ModelPlan, request: pytest.FixtureRequest
) -> None:
    """Logits are those of the dequantised weights, and a row has its bits beside any others; what is
    rejected leaves no trace in a recurrence."""
    assert plan.quantization == "stored"
    model, reference = load_planned(plan), load_reference(plan.checkpoint.path, 128)
    assert type(model) is FAMILIES[request.node.callspec.params["plan"]]
    text = tokens(24)
    state = model.new_state(64)
    model.forward(text[:8], state, last=0)
    together = model.forward(text[8:], state, last=16, final=False)
    expected = reference.forward(text, reference.new_state(64), last=16)
    assert distance(together.float(), expected) < 0.15
    for count in (1, 7, 16):
        state.commit(())
        found = model.forward(text[8 : 8 + count], state, last=count, final=False)
        assert torch.equal(found, together[:count]), count
    state.commit(range(3))
    assert torch.equal(model.forward(text[11:12], state, last=1)[0], together[3])
    go_back(model, state, text, 8)
    assert torch.equal(model.forward(text[8:], state, last=16, final=False), together)


@pytest.mark.parametrize("plan", ["olmoe"], indirect=True)
def test_its_products_are_tried_and_torch_takes_over_what_fails(
    plan: ModelPlan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(verdicts, "_file", lambda: tmp_path / "trials.json")
    architecture, blocks = described(plan.checkpoint), plan.checkpoint.block_formats

    def trial(model: TorchDecoder) -> None:
        nothing = lambda *_: None  # noqa: E731
        gpu_trial.try_on_gpu(model, architecture, plan.cached, None, nothing, nothing, blocks)

    model = load(plan)
    trial(model)
    assert architecture is not None and not verdicts.why_not(architecture, "stored", blocks)
    verdicts.forget()

    right = BulkLinear.__call__

    def wrong(product: BulkLinear, x: torch.Tensor, residual: object = None) -> torch.Tensor:
        return right(product, x) * 1.1

    with monkeypatch.context() as patch:
        patch.setattr(BulkLinear, "__call__", wrong)
        with pytest.raises(KernelsFailed, match=r"Linear.*off by"):
            trial(load(plan))
    other = load(plan)
    assert not other.gpu_products
    text = tokens(6)
    found, expected = (
        each.forward(text, each.new_state(64), last=6).float() for each in (other, model)
    )
    assert distance(found, expected) < 0.1
