"""MLP and LSTM speculators: their loaders and steps, against the equations written out here."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from math import erf
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.backends.linear_factory import LinearFactory
from engine.drafting import heads
from engine.drafting.heads.lstm import LstmHead
from engine.drafting.heads.mlp import MlpHead
from engine.drafting.heads.speculator import State
from engine.errors import IncompatiblePair, ModelError
from engine.kernels.native.library import Library
from engine.models.hidden_states import NORMED
from tests.support.heads import EAGER, FakeShape, logits_behind, lstm, mlp, write_head

TARGET = FakeShape(hidden=48, vocabulary=90, layers=6, path=Path("ours"))
CPU = torch.device("cpu")
PLAIN = LinearFactory("fp32", CPU)
TOKENS = (7, 3, 88)

Config = dict[str, Any]
Tensors = dict[str, Tensor]


def load(folder: Path, linears: LinearFactory = PLAIN) -> MlpHead | LstmHead:
    head = heads.load(heads.inspect(folder, TARGET), linears)
    assert isinstance(head, MlpHead | LstmHead)
    return head


def gelu(x: Tensor) -> Tensor:
    return torch.tensor([v * 0.5 * (1 + erf(v / 2**0.5)) for v in x.tolist()], dtype=x.dtype)


def norm(x: Tensor) -> Tensor:
    return x / ((x * x).mean() + 1e-6) ** 0.5


def by_the_paper(config: Config, tensors: Tensors, h: Tensor) -> Tensor:
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


def by_arctic(config: Config, tensors: Tensors, h: Tensor) -> Tensor:
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


@dataclass(frozen=True, slots=True)
class Kind:
    """A speculator: its random files, its equations, and a tensor of it to be damaged."""

    name: str
    files: Callable[..., tuple[Config, Tensors]]
    equations: Callable[[Config, Tensors, Tensor], Tensor]
    damaged: str


MLP = Kind("mlp", mlp, by_the_paper, "speculator.head.0.weight")
LSTM = Kind("lstm", lstm, by_arctic, "cell_ln.0.bias")
KINDS = pytest.mark.parametrize("kind", [MLP, LSTM], ids=lambda kind: kind.name)
TIED = pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])


def near(head: MlpHead | LstmHead, expected: Tensor, h: Tensor) -> bool:
    return torch.allclose(logits_behind(head, h, TOKENS[: len(expected)]), expected, atol=1e-4)


@pytest.fixture
def h() -> Tensor:
    return 3 * torch.randn(TARGET.hidden, generator=torch.Generator().manual_seed(5))


@pytest.mark.parametrize("pickle", ["pytorch_model.bin", ""], ids=["pickle", "safetensors"])
@TIED
@KINDS
def test_logits_are_those_of_the_published_equations(
    tmp_path: Path, kind: Kind, tied: bool, pickle: str, h: Tensor
) -> None:
    config, tensors = kind.files(TARGET, tied=tied)
    head = load(write_head(tmp_path, config, tensors, pickle))
    assert head.kind == kind.name and head.steps == 3
    assert near(head, kind.equations(config, tensors, h), h)


@pytest.mark.parametrize("scaled", [True, False])
def test_the_input_is_scaled_only_where_the_configuration_says_so(
    tmp_path: Path, scaled: bool, h: Tensor
) -> None:
    config, tensors = mlp(TARGET)
    config["scale_input"] = scaled
    head = load(write_head(tmp_path, config, tensors))
    assert near(head, by_the_paper(config, tensors, h), h)
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
    assert near(load(folder), by_the_paper(config, tensors, h), h)


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
    assert near(load(write_head(tmp_path, config, joined)), by_arctic(config, tensors, h), h)


def test_a_tied_speculator_of_one_step_needs_one_projection(tmp_path: Path, h: Tensor) -> None:
    config, tensors = mlp(TARGET, steps=1)
    assert "speculator.proj.1.weight" not in tensors
    assert near(load(write_head(tmp_path, config, tensors)), by_the_paper(config, tensors, h), h)


@TIED
@KINDS
def test_rows_advance_together_as_they_do_alone(
    tmp_path: Path, kind: Kind, tied: bool, h: Tensor
) -> None:
    """Training takes in all positions at once."""
    head = load(write_head(tmp_path, *kind.files(TARGET, tied=tied)))
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


@KINDS
def test_quantised_speculators_are_near(
    tmp_path: Path, library: Library, kind: Kind, h: Tensor
) -> None:
    config, tensors = kind.files(TARGET)
    folder = write_head(tmp_path, config, tensors)
    expected = kind.equations(config, tensors, h)
    factories = [LinearFactory("bf16", CPU)]
    if "int8" in library.kinds:
        factories.append(LinearFactory("int8", CPU, library))
    for linears in factories:
        found = logits_behind(load(folder, linears), h, TOKENS)
        assert (found - expected).norm() < 0.06 * expected.norm(), linears.kind


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_published_widths_are_read(tmp_path: Path, dtype: torch.dtype, h: Tensor) -> None:
    config, tensors = mlp(TARGET)
    narrow = {name: tensor.to(dtype) for name, tensor in tensors.items()}
    assert near(load(write_head(tmp_path, config, narrow)), by_the_paper(config, narrow, h), h)


def test_a_plan_tells_what_the_head_reads_and_takes(tmp_path: Path) -> None:
    config, tensors = mlp(TARGET, tied=False)
    plan = heads.inspect(write_head(tmp_path, config, tensors), TARGET)
    assert (plan.kind, plan.aux_layers, plan.note) == ("mlp", (NORMED,), None)
    assert plan.name == tmp_path.name
    assert plan.parameters == sum(tensor.numel() for tensor in tensors.values())


def test_a_plan_tells_what_is_read_not_what_is_stored_twice(tmp_path: Path) -> None:
    config, tensors = lstm(TARGET)
    plan = heads.inspect(write_head(tmp_path, config, tensors), TARGET)
    assert (plan.kind, plan.aux_layers, plan.name) == ("lstm", (NORMED,), tmp_path.name)
    table, projections = 90 * 16, 4 * 16 * (48 + 16)
    assert plan.parameters == 2 * table + projections + 4 * 16


@KINDS
def test_a_head_of_another_target_is_refused_with_both_sizes(tmp_path: Path, kind: Kind) -> None:
    folder = write_head(tmp_path, *kind.files(TARGET))
    with pytest.raises(IncompatiblePair, match=r"width 48; other has width 64"):
        heads.inspect(folder, FakeShape(64, 90, 6, path=Path("other")))
    with pytest.raises(IncompatiblePair, match=r"knows 90 tokens, other 91"):
        heads.inspect(folder, FakeShape(48, 91, 6, path=Path("other")))


@pytest.mark.parametrize(
    ("kind", "absent", "misshapen"),
    [
        (MLP, "speculator.ln.2.bias", "speculator.proj.1.weight"),
        (LSTM, "output_emb.0.weight", "cell_proj.1.weight"),
    ],
    ids=["mlp", "lstm"],
)
def test_tensors_that_are_absent_or_misshapen_are_named(
    tmp_path: Path, kind: Kind, absent: str, misshapen: str
) -> None:
    config, tensors = kind.files(TARGET, tied=False)
    few = {name: tensor for name, tensor in tensors.items() if name != absent}
    with pytest.raises(ModelError, match=f"has no tensor {absent}"):
        heads.inspect(write_head(tmp_path / "few", config, few), TARGET)
    odd = {**tensors, misshapen: torch.zeros(16, 48)}
    message = rf"{misshapen} has shape \(16, 48\).*\(16, 16\)"
    with pytest.raises(ModelError, match=message):
        heads.inspect(write_head(tmp_path / "odd", config, odd), TARGET)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("n_predict", 0, "n_predict is 0; it must be a whole number above 0"),
        ("tie_weights", "yes", "tie_weights is 'yes'; it must be true or false"),
        ("scale_input", 1, "scale_input is 1; it must be true or false"),
    ],
)
def test_a_wrong_configuration_is_told(
    tmp_path: Path, key: str, value: object, message: str
) -> None:
    config, tensors = mlp(TARGET)
    with pytest.raises(ModelError, match=message):
        heads.inspect(write_head(tmp_path, {**config, key: value}, tensors), TARGET)


def test_an_lstm_whose_steps_share_nothing_is_refused(tmp_path: Path) -> None:
    config, tensors = lstm(TARGET)
    with pytest.raises(ModelError, match="tie_weights is not true"):
        heads.inspect(write_head(tmp_path, {**config, "tie_weights": False}, tensors), TARGET)


@pytest.mark.parametrize("pickle", ["pytorch_model.bin", ""], ids=["pickle", "safetensors"])
@KINDS
def test_truncated_files_are_refused(tmp_path: Path, kind: Kind, pickle: str) -> None:
    folder = write_head(tmp_path, *kind.files(TARGET), pickle)
    file = folder / (pickle or "model.safetensors")
    os.truncate(file, 2000)
    with pytest.raises(ModelError, match=file.name):
        heads.inspect(folder, TARGET)


@pytest.mark.parametrize(
    ("number", "name"), [(float("nan"), "NaN"), (float("inf"), "an infinite number")]
)
@KINDS
def test_numbers_that_are_none_are_refused(
    tmp_path: Path, kind: Kind, number: float, name: str
) -> None:
    config, tensors = kind.files(TARGET)
    tensors[kind.damaged].view(-1)[3] = number
    with pytest.raises(ModelError, match=f"{kind.damaged} contains {name}"):
        load(write_head(tmp_path, config, tensors))
