"""The MLP speculator's loader and its steps, against the paper's equations written out here."""

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
from engine.drafting.heads.mlp import MlpHead, State
from engine.errors import IncompatiblePair, ModelError
from engine.kernels.native.library import Library
from engine.models.hidden_states import NORMED
from tests.support.heads import EAGER, FakeShape, logits_behind, mlp, write_head

TARGET = FakeShape(hidden=48, vocabulary=90, layers=6, path=Path("ours"))
CPU = torch.device("cpu")
TOKENS = (7, 3, 88)


def load(folder: Path, products: LinearFactory) -> MlpHead:
    head = heads.load(heads.inspect(folder, TARGET), products)
    assert isinstance(head, MlpHead)
    return head


def gelu(x: Tensor) -> Tensor:
    return torch.tensor([v * 0.5 * (1 + erf(v / 2**0.5)) for v in x.tolist()], dtype=x.dtype)


def norm(x: Tensor) -> Tensor:
    return x / ((x * x).mean() + 1e-6) ** 0.5


def by_the_paper(config: dict[str, Any], tensors: dict[str, Tensor], h: Tensor) -> Tensor:
    """Section 3.1 of arXiv 2404.19124 in doubles; ``inner_dim`` and ``n_predict`` weigh the token."""
    n, d, tied = config["n_predict"], config["inner_dim"], config["tie_weights"]
    w_s = 0.5 ** (1 / (2 * n))
    w_e = ((1 - w_s**2) * d / 2) ** 0.5
    wide = {name.removeprefix("speculator."): t.double() for name, t in tensors.items()}
    z, rows = h.double(), []
    if config["scale_input"]:
        z = norm(z) / 2**0.5
    for i, token in enumerate(TOKENS[:n]):
        own = 0 if tied else i
        proj = min(i, 1) if tied else i
        z = w_s * (wide[f"proj.{proj}.weight"] @ z) + w_e * wide[f"emb.{own}.weight"][token]
        z = gelu(norm(z) * wide[f"ln.{own}.weight"] + wide[f"ln.{own}.bias"])
        rows.append(wide[f"head.{own}.weight"] @ z)
    return torch.stack(rows).float()


@pytest.fixture
def h() -> Tensor:
    return 3 * torch.randn(TARGET.hidden, generator=torch.Generator().manual_seed(5))


@pytest.mark.parametrize("pickle", ["pytorch_model.bin", ""], ids=["pickle", "safetensors"])
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_logits_are_those_of_the_papers_equations(
    tmp_path: Path, tied: bool, pickle: str, h: Tensor
) -> None:
    config, tensors = mlp(TARGET, tied=tied)
    head = load(write_head(tmp_path, config, tensors, pickle), LinearFactory("fp32", CPU))
    assert head.steps == 3
    assert torch.allclose(
        logits_behind(head, h, TOKENS), by_the_paper(config, tensors, h), atol=1e-4
    )


@pytest.mark.parametrize("scaled", [True, False])
def test_the_input_is_scaled_only_where_the_configuration_says_so(
    tmp_path: Path, scaled: bool, h: Tensor
) -> None:
    config, tensors = mlp(TARGET)
    config["scale_input"] = scaled
    head = load(write_head(tmp_path, config, tensors), LinearFactory("fp32", CPU))
    assert torch.allclose(
        logits_behind(head, h, TOKENS), by_the_paper(config, tensors, h), atol=1e-4
    )
    scaled_up, plain = (logits_behind(head, times * h, TOKENS) for times in (9, 1))
    assert torch.allclose(scaled_up, plain, atol=1e-4) == scaled


def test_names_without_the_prefix_and_copies_of_tied_tensors_are_read(
    tmp_path: Path, h: Tensor
) -> None:
    """As a state dictionary saved by fms-extras has them."""
    config, tensors = mlp(TARGET)
    bare = {name.removeprefix("speculator."): tensor for name, tensor in tensors.items()}
    for step in (1, 2):
        bare |= {f"{part}.{step}.weight": bare[f"{part}.0.weight"] for part in ("emb", "head")}
        bare |= {f"ln.{step}.{part}": bare[f"ln.0.{part}"] for part in ("weight", "bias")}
    bare["proj.2.weight"] = bare["proj.1.weight"]
    folder = write_head(tmp_path, config, bare, "pytorch_model.bin")
    plan = heads.inspect(folder, TARGET)
    assert plan.parameters == sum(tensor.numel() for tensor in tensors.values())
    head = load(folder, LinearFactory("fp32", CPU))
    assert torch.allclose(
        logits_behind(head, h, TOKENS), by_the_paper(config, tensors, h), atol=1e-4
    )


def test_a_tied_speculator_of_one_step_needs_one_projection(tmp_path: Path, h: Tensor) -> None:
    config, tensors = mlp(TARGET, steps=1)
    assert "speculator.proj.1.weight" not in tensors
    head = load(write_head(tmp_path, config, tensors), LinearFactory("fp32", CPU))
    expected = by_the_paper(config, tensors, h)
    assert torch.allclose(logits_behind(head, h, TOKENS[:1]), expected, atol=1e-4)


def test_rows_advance_together_as_they_do_alone(tmp_path: Path, h: Tensor) -> None:
    """Training takes in all positions at once."""
    head = load(write_head(tmp_path, *mlp(TARGET)), LinearFactory("fp32", CPU))
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
    config, tensors = mlp(TARGET)
    folder = write_head(tmp_path, config, tensors)
    expected = by_the_paper(config, tensors, h)
    kinds = [LinearFactory("bf16", CPU)]
    if "int8" in library.kinds:
        kinds.append(LinearFactory("int8", CPU, library))
    for products in kinds:
        found = logits_behind(load(folder, products), h, TOKENS)
        assert (found - expected).norm() < 0.06 * expected.norm(), products.kind


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_published_widths_are_read(tmp_path: Path, dtype: torch.dtype, h: Tensor) -> None:
    config, tensors = mlp(TARGET)
    narrow = {name: tensor.to(dtype) for name, tensor in tensors.items()}
    head = load(write_head(tmp_path, config, narrow), LinearFactory("fp32", CPU))
    assert torch.allclose(
        logits_behind(head, h, TOKENS), by_the_paper(config, narrow, h), atol=1e-4
    )


def test_a_plan_tells_what_the_head_reads_and_takes(tmp_path: Path) -> None:
    config, tensors = mlp(TARGET, tied=False)
    plan = heads.inspect(write_head(tmp_path, config, tensors), TARGET)
    assert (plan.kind, plan.aux_layers, plan.name, plan.note) == (
        "mlp",
        (NORMED,),
        tmp_path.name,
        None,
    )
    assert plan.parameters == sum(tensor.numel() for tensor in tensors.values())


def test_a_head_of_another_target_is_refused_with_both_sizes(tmp_path: Path) -> None:
    folder = write_head(tmp_path, *mlp(TARGET))
    with pytest.raises(IncompatiblePair, match=r"width 48, other has a width of 64"):
        heads.inspect(folder, FakeShape(64, 90, 6, path=Path("other")))
    with pytest.raises(IncompatiblePair, match=r"knows 90 tokens, other 91"):
        heads.inspect(folder, FakeShape(48, 91, 6, path=Path("other")))


def test_tensors_that_are_absent_or_misshapen_are_named(tmp_path: Path) -> None:
    config, tensors = mlp(TARGET, tied=False)
    few = {name: tensor for name, tensor in tensors.items() if not name.endswith("ln.2.bias")}
    with pytest.raises(ModelError, match=r"lacks the tensor speculator\.ln\.2\.bias"):
        heads.inspect(write_head(tmp_path / "few", config, few), TARGET)
    odd = {**tensors, "speculator.proj.1.weight": torch.zeros(16, 48)}
    with pytest.raises(ModelError, match=r"proj\.1\.weight has the shape \(16, 48\).*\(16, 16\)"):
        heads.inspect(write_head(tmp_path / "odd", config, odd), TARGET)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("n_predict", 0, "'n_predict' is 0; it must be a whole number above 0"),
        ("tie_weights", "yes", "'tie_weights' is 'yes'; it must be true or false"),
        ("scale_input", 1, "'scale_input' is 1; it must be true or false"),
    ],
)
def test_a_wrong_configuration_is_told(
    tmp_path: Path, key: str, value: object, message: str
) -> None:
    config, tensors = mlp(TARGET)
    with pytest.raises(ModelError, match=message):
        heads.inspect(write_head(tmp_path, {**config, key: value}, tensors), TARGET)


def test_truncated_files_and_numbers_that_are_none_are_refused(tmp_path: Path) -> None:
    config, tensors = mlp(TARGET)
    folder = write_head(tmp_path / "short", config, tensors)
    os.truncate(folder / "model.safetensors", 2000)
    with pytest.raises(ModelError, match=r"model\.safetensors"):
        heads.inspect(folder, TARGET)
    tensors["speculator.head.0.weight"][3, 3] = float("nan")
    with pytest.raises(ModelError, match=r"head\.0\.weight holds NaN"):
        load(write_head(tmp_path / "nan", config, tensors), LinearFactory("fp32", CPU))
