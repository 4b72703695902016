"""Arctic's LSTM speculator: its loader and its cell, against the equations written out here."""

from __future__ import annotations

import os
from math import erf
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.backends.linear_factory import LinearFactory
from engine.drafting import heads
from engine.drafting.heads.lstm import LstmHead
from engine.drafting.heads.mlp import State
from engine.errors import IncompatiblePair, ModelError
from engine.kernels.native.library import Library
from engine.models.hidden_states import NORMED
from tests.support.heads import EAGER, FakeShape, logits_behind, lstm, write_head

TARGET = FakeShape(hidden=48, vocabulary=90, layers=6, path=Path("ours"))
CPU = torch.device("cpu")
TOKENS = (7, 3, 88)


def load(folder: Path, products: LinearFactory) -> LstmHead:
    head = heads.load(heads.inspect(folder, TARGET), products)
    assert isinstance(head, LstmHead)
    return head


def gelu(x: Tensor) -> Tensor:
    return torch.tensor([v * 0.5 * (1 + erf(v / 2**0.5)) for v in x.tolist()], dtype=x.dtype)


def norm(x: Tensor) -> Tensor:
    return x / ((x * x).mean() + 1e-6) ** 0.5


def by_arctic(config: dict[str, Any], tensors: dict[str, Tensor], h: Tensor) -> Tensor:
    """Gate by gate, as ArcticTraining's ``sum_lstm`` defines them, in doubles."""
    w = {name: tensor.double() for name, tensor in tensors.items()}
    w_s = 0.5 ** (1 / (2 * config["n_predict"]))
    w_e = ((1 - w_s**2) * int(config["emb_dim"]) / 2) ** 0.5
    state = norm(h.double()) / 2**0.5 if config["scale_input"] else h.double()
    cell, rows = torch.zeros(int(config["inner_dim"]), dtype=torch.double), []
    for i, token in enumerate(TOKENS):

        def gate(name: str, at: int = min(i, 1), x: Tensor = state, t: int = token) -> Tensor:
            return w[f"{name}_proj.{at}.weight"] @ x + w_e / w_s * w[f"{name}_emb.0.weight"][t]

        candidate = norm(gate("cell")) * w["cell_ln.0.weight"] + w["cell_ln.0.bias"]
        cell = cell / (1 + torch.exp(-gate("forget")))
        cell = cell + gelu(candidate) / (1 + torch.exp(-gate("input")))
        shown = gelu(norm(cell) * w["state_ln.0.weight"] + w["state_ln.0.bias"])
        state = shown / (1 + torch.exp(-gate("output")))
        rows.append(w["head.0.weight"] @ state)
    return torch.stack(rows).float()


@pytest.fixture
def h() -> Tensor:
    return 3 * torch.randn(TARGET.hidden, generator=torch.Generator().manual_seed(5))


@pytest.mark.parametrize("pickle", ["pytorch_model.bin", ""], ids=["pickle", "safetensors"])
@pytest.mark.parametrize("tied", [True, False], ids=["one embedding", "one a gate"])
def test_logits_are_those_of_arctics_cell(
    tmp_path: Path, tied: bool, pickle: str, h: Tensor
) -> None:
    config, tensors = lstm(TARGET, tied=tied)
    head = load(write_head(tmp_path, config, tensors, pickle), LinearFactory("fp32", CPU))
    assert head.steps == 3
    assert torch.allclose(logits_behind(head, h, TOKENS), by_arctic(config, tensors, h), atol=1e-4)


def test_joined_gates_are_read_behind_a_prefix_too(tmp_path: Path, h: Tensor) -> None:
    """``projs`` as ArcticInference holds them: forget, input, output, cell."""
    config, tensors = lstm(TARGET)
    joined = {
        f"speculator.{name}": tensor
        for name, tensor in tensors.items()
        if "_proj" not in name and name not in ("input_emb.0.weight", "head.1.weight")
    }
    for number in (0, 1):
        parts = [tensors[f"{gate}_proj.{number}.weight"] for gate in ("forget", "input", "output")]
        parts.append(tensors[f"cell_proj.{number}.weight"])
        joined[f"speculator.projs.{number}.weight"] = torch.cat(parts)
    head = load(write_head(tmp_path, config, joined), LinearFactory("fp32", CPU))
    assert torch.allclose(logits_behind(head, h, TOKENS), by_arctic(config, tensors, h), atol=1e-4)


@pytest.mark.parametrize("tied", [True, False], ids=["one embedding", "one a gate"])
def test_rows_advance_together_as_they_do_alone(tmp_path: Path, tied: bool, h: Tensor) -> None:
    """Training takes in all positions at once."""
    head = load(write_head(tmp_path, *lstm(TARGET, tied=tied)), LinearFactory("fp32", CPU))
    both = torch.stack([h, h.flip(0)])

    def advanced(normed: Tensor, *tokens: Tensor) -> State:
        state = head.start(EAGER, normed)
        for step, token in enumerate(tokens):
            state = head.advance(EAGER, state, head.table(step)[token], step)
        return state

    together = advanced(both, torch.tensor([7, 2]), torch.tensor([3, 3]))
    for row, token in ((0, 7), (1, 2)):
        alone = advanced(both[row : row + 1], torch.tensor([token]), torch.tensor([3]))
        for ours, theirs in zip(together, alone, strict=True):
            assert torch.allclose(ours[row], theirs[0], atol=1e-5)


def test_quantised_speculators_are_near(tmp_path: Path, library: Library, h: Tensor) -> None:
    config, tensors = lstm(TARGET)
    folder = write_head(tmp_path, config, tensors)
    expected = by_arctic(config, tensors, h)
    kinds = [LinearFactory("bf16", CPU)]
    if "int8" in library.kinds:
        kinds.append(LinearFactory("int8", CPU, library))
    for products in kinds:
        found = logits_behind(load(folder, products), h, TOKENS)
        assert (found - expected).norm() < 0.06 * expected.norm(), products.kind


def test_a_plan_tells_what_is_read_not_what_is_stored_twice(tmp_path: Path) -> None:
    config, tensors = lstm(TARGET)
    plan = heads.inspect(write_head(tmp_path, config, tensors), TARGET)
    assert (plan.kind, plan.aux_layers, plan.name) == ("lstm", (NORMED,), tmp_path.name)
    table, projections = 90 * 16, 4 * 16 * (48 + 16)
    assert plan.parameters == 2 * table + projections + 4 * 16


def test_a_head_of_another_target_is_refused_with_both_sizes(tmp_path: Path) -> None:
    folder = write_head(tmp_path, *lstm(TARGET))
    with pytest.raises(IncompatiblePair, match=r"width 48, other has a width of 64"):
        heads.inspect(folder, FakeShape(64, 90, 6, path=Path("other")))
    with pytest.raises(IncompatiblePair, match=r"knows 90 tokens, other 91"):
        heads.inspect(folder, FakeShape(48, 91, 6, path=Path("other")))


def test_tensors_that_are_absent_or_misshapen_are_named(tmp_path: Path) -> None:
    config, tensors = lstm(TARGET, tied=False)
    few = {name: tensor for name, tensor in tensors.items() if name != "output_emb.0.weight"}
    with pytest.raises(ModelError, match=r"lacks the tensor output_emb\.0\.weight"):
        heads.inspect(write_head(tmp_path / "few", config, few), TARGET)
    odd = {**tensors, "cell_proj.1.weight": torch.zeros(16, 48)}
    with pytest.raises(ModelError, match=r"cell_proj\.1\.weight has the shape \(16, 48\)"):
        heads.inspect(write_head(tmp_path / "odd", config, odd), TARGET)
    with pytest.raises(ModelError, match="'tie_weights' is not true"):
        untied = {**config, "tie_weights": False}
        heads.inspect(write_head(tmp_path / "untied", untied, tensors), TARGET)


def test_truncated_files_and_numbers_that_are_none_are_refused(tmp_path: Path) -> None:
    config, tensors = lstm(TARGET)
    folder = write_head(tmp_path / "short", config, tensors, "pytorch_model.bin")
    os.truncate(folder / "pytorch_model.bin", 2000)
    with pytest.raises(ModelError, match=r"pytorch_model\.bin"):
        heads.inspect(folder, TARGET)
    tensors["cell_ln.0.bias"][3] = float("inf")
    with pytest.raises(ModelError, match=r"cell_ln\.0\.bias holds an infinite number"):
        load(write_head(tmp_path / "nan", config, tensors), LinearFactory("fp32", CPU))
