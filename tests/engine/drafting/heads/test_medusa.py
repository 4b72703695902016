"""Medusa's loader and its heads, against the paper's equations written out here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.backends.linear_factory import LinearFactory
from engine.drafting import heads
from engine.drafting.heads.medusa import MedusaHead
from engine.errors import IncompatiblePair, ModelError
from engine.kernels.native.library import Library
from engine.models.checkpoints.checkpoint import inspect
from engine.models.hidden_states import NORMED
from tests.support.heads import PICKLE, FakeShape, logits_behind, medusa, write_head

TARGET = FakeShape(hidden=48, vocabulary=90, layers=6, path=Path("ours"))
CPU = torch.device("cpu")


def load(folder: Path, products: LinearFactory) -> MedusaHead:
    head = heads.load(heads.inspect(folder, TARGET), products)
    assert isinstance(head, MedusaHead)
    return head


def logits(head: MedusaHead, h: Tensor, depth: int = 3) -> Tensor:
    return logits_behind(head, h, (0,) * depth)


def by_the_paper(config: dict[str, Any], tensors: dict[str, Tensor], h: Tensor) -> Tensor:
    """p_k = softmax(W2_k (SiLU(W1_k h + b_k) + h)): section 2.1.1 of arXiv 2401.10774, before softmax."""
    rows = []
    for k in range(config["medusa_num_heads"]):
        x = h
        for layer in range(config["medusa_num_layers"]):
            y = tensors[f"{k}.{layer}.linear.weight"] @ x + tensors[f"{k}.{layer}.linear.bias"]
            x = y / (1 + torch.exp(-y)) + x
        rows.append(tensors[f"{k}.{config['medusa_num_layers']}.weight"] @ x)
    return torch.stack(rows)


@pytest.mark.parametrize("pickle", [PICKLE, ""], ids=["pickle", "safetensors"])
@pytest.mark.parametrize("layers", [1, 2])
def test_logits_are_those_of_the_papers_equations(tmp_path: Path, layers: int, pickle: str) -> None:
    config, tensors = medusa(TARGET, layers=layers)
    head = load(write_head(tmp_path, config, tensors, pickle), LinearFactory("fp32", CPU))
    h = torch.randn(TARGET.hidden, generator=torch.Generator().manual_seed(5))
    expected = by_the_paper(config, tensors, h)
    assert torch.allclose(logits(head, h), expected, atol=1e-5)
    assert torch.allclose(logits(head, h, 2), expected[:2], atol=1e-5)


def test_quantised_heads_are_near(tmp_path: Path, library: Library) -> None:
    config, tensors = medusa(TARGET)
    folder = write_head(tmp_path, config, tensors)
    h = torch.randn(TARGET.hidden, generator=torch.Generator().manual_seed(5))
    expected = by_the_paper(config, tensors, h)
    kinds = [LinearFactory("bf16", CPU)]
    if "int8" in library.kinds:
        kinds.append(LinearFactory("int8", CPU, library))
    for products in kinds:
        found = logits(load(folder, products), h)
        assert (found - expected).norm() < 0.05 * expected.norm(), products.kind


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_published_widths_are_read(tmp_path: Path, dtype: torch.dtype) -> None:
    config, tensors = medusa(TARGET)
    narrow = {name: tensor.to(dtype) for name, tensor in tensors.items()}
    head = load(write_head(tmp_path, config, narrow, PICKLE), LinearFactory("fp32", CPU))
    h = torch.ones(TARGET.hidden)
    wide = {name: tensor.float() for name, tensor in narrow.items()}
    assert torch.allclose(logits(head, h), by_the_paper(config, wide, h), atol=1e-4)


def test_a_plan_tells_what_the_head_reads_and_takes(tmp_path: Path) -> None:
    config, tensors = medusa(TARGET)
    plan = heads.inspect(write_head(tmp_path, config, tensors, PICKLE), TARGET)
    assert (plan.kind, plan.aux_layers, plan.name) == ("medusa", (NORMED,), tmp_path.name)
    assert plan.parameters == sum(tensor.numel() for tensor in tensors.values())
    assert plan.note is not None and "weights-only" in plan.note
    assert heads.inspect(write_head(tmp_path / "safe", config, tensors), TARGET).note is None


def test_a_head_of_another_target_is_refused_with_both_sizes(
    tmp_path: Path, pair: tuple[Path, Path]
) -> None:
    config, tensors = medusa(TARGET)
    folder = write_head(tmp_path, config, tensors)
    with pytest.raises(IncompatiblePair, match=r"width 48; target has width 32"):
        heads.inspect(folder, inspect(pair[0]))
    with pytest.raises(IncompatiblePair, match=r"knows 90 tokens, ours 91"):
        heads.inspect(folder, FakeShape(48, 91, 6, path=Path("ours")))


def test_tensors_that_are_absent_or_misshapen_are_named(tmp_path: Path) -> None:
    config, tensors = medusa(TARGET)
    few = {name: tensor for name, tensor in tensors.items() if name != "2.0.linear.bias"}
    with pytest.raises(ModelError, match=r"has no tensor 2\.0\.linear\.bias"):
        heads.inspect(write_head(tmp_path / "few", config, few), TARGET)
    odd = {**tensors, "1.0.linear.weight": torch.zeros(48, 47)}
    with pytest.raises(ModelError, match=r"1\.0\.linear\.weight has shape \(48, 47\)"):
        heads.inspect(write_head(tmp_path / "odd", config, odd), TARGET)
    flat = {**tensors, "0.1.weight": torch.zeros(48)}
    with pytest.raises(ModelError, match="two dimensions"):
        heads.inspect(write_head(tmp_path / "flat", config, flat), TARGET)
    with pytest.raises(ModelError, match="medusa_num_heads is 'four'"):
        wrong = {**config, "medusa_num_heads": "four"}
        heads.inspect(write_head(tmp_path / "wrong", wrong, tensors), TARGET)


def test_numbers_that_are_none_are_refused_when_they_are_read(tmp_path: Path) -> None:
    config, tensors = medusa(TARGET)
    tensors["1.1.weight"][3, 3] = float("nan")
    folder = write_head(tmp_path, config, tensors, PICKLE)
    with pytest.raises(ModelError, match=r"1\.1\.weight contains NaN"):
        load(folder, LinearFactory("fp32", CPU))
