"""NF4: bitsandbytes' format bit by bit, and products that are row-independent."""

from __future__ import annotations

import logging

import pytest
import torch
import torch.nn.functional as F

from engine.kernels.cpu import nf4
from engine.kernels.cpu.linear import ROWS, Linear, is_row_independent
from engine.kernels.cpu.nf4 import (
    Nf4Embedding,
    Nf4Fused,
    Nf4Panels,
    Nf4Reference,
    PanelBudget,
    dequantise,
    make_nf4,
    quantise,
)

# (out, in): sizes of the embedded pair, outputs that are no multiple of 32, inputs no multiple of 64.
WHOLE = [(64, 64), (172, 64), (1024, 256), (4099, 128), (1, 64), (33, 1024)]
ODD = [(7, 13), (1, 9), (96, 32), (1100, 48)]
fused = pytest.mark.skipif(nf4.fused_kernel() is None, reason="no fused NF4 kernel here")


def weight_of(shape: tuple[int, int]) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1)) * 0.02


def inputs(rows: int, width: int) -> torch.Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(2))


def whole(weight: nf4.Nf4Weight) -> torch.Tensor:
    out, width = weight.shape
    return dequantise(weight.packed, weight.absmax, out * width, torch.float32).view(out, width)


@pytest.mark.parametrize("shape", [*WHOLE, *ODD], ids=str)
def test_quantising_what_was_quantised_changes_nothing(shape: tuple[int, int]) -> None:
    """So a pre-quantised checkpoint can be read as floats, fused, and quantised again."""
    once = quantise(weight_of(shape))
    for dtype in (torch.float32, torch.bfloat16):
        again = quantise(whole(once).to(dtype))
        assert torch.equal(again.packed, once.packed)
        assert torch.equal(again.absmax, once.absmax)


@pytest.mark.parametrize("shape", [(64, 64), (96, 128)], ids=str)
def test_codes_and_scales_are_those_of_bitsandbytes(
    shape: tuple[int, int], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.CRITICAL):  # it misses a package that it can do without
        functional = pytest.importorskip("bitsandbytes.functional")
    weight = weight_of(shape)
    weight[3] = 0
    packed, state = functional.quantize_4bit(weight, blocksize=64, quant_type="nf4")
    ours = quantise(weight)
    assert torch.equal(ours.packed, packed.view(-1))
    assert torch.equal(ours.absmax, state.absmax.bfloat16())
    restored = dequantise(packed.view(-1), state.absmax, weight.numel(), torch.float32)
    assert torch.equal(restored.view(shape), functional.dequantize_4bit(packed, state))


def test_a_weight_in_chunks_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = weight_of((37, 80))
    expected = quantise(weight)
    restored = whole(expected)
    monkeypatch.setattr(nf4, "CHUNK", 128)
    found = quantise(weight)
    assert torch.equal(found.packed, expected.packed)
    assert torch.equal(found.absmax, expected.absmax)
    assert torch.equal(whole(found), restored)


def test_the_error_is_that_of_four_bits() -> None:
    weight = weight_of((64, 256))
    error = (whole(quantise(weight)) - weight).norm() / weight.norm()
    assert 0.05 < float(error) < 0.12


def kernels(shape: tuple[int, int]) -> list[Linear]:
    """All that take this shape: panels kept, panels not kept, fused."""
    weight = quantise(weight_of(shape))
    found: list[Linear] = [
        Nf4Panels(weight, PanelBudget()),
        Nf4Panels(weight, PanelBudget(0)),
        make_nf4(weight, PanelBudget()),
    ]
    return found


@pytest.mark.parametrize("shape", [*WHOLE, *ODD], ids=str)
def test_every_kernel_means_what_the_reference_means(shape: tuple[int, int]) -> None:
    reference = Nf4Reference(quantise(weight_of(shape)))
    x = inputs(ROWS, shape[1])
    expected = reference(x)
    for linear in kernels(shape):
        assert (linear(x) - expected).norm() < 1e-2 * expected.norm(), linear
    exact = F.linear(x, whole(quantise(weight_of(shape))))
    assert (expected - exact).norm() < 1e-2 * exact.norm()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [*WHOLE, *ODD], ids=str)
def test_rows_and_slots_do_not_matter(shape: tuple[int, int], dtype: torch.dtype) -> None:
    for linear in (*kernels(shape), Nf4Reference(quantise(weight_of(shape)))):
        assert is_row_independent(linear, whole(quantise(weight_of(shape))).to(dtype)), linear


@fused
@pytest.mark.parametrize("shape", WHOLE, ids=str)
def test_whole_blocks_take_the_fused_kernel(shape: tuple[int, int]) -> None:
    linear = make_nf4(quantise(weight_of(shape)), PanelBudget())
    assert isinstance(linear, Nf4Fused)
    x = inputs(130, shape[1]).bfloat16()
    alone = torch.cat([linear(x[row : row + 1]) for row in range(130)])
    for rows in (*range(1, ROWS + 1), 40, 130):
        assert torch.equal(linear(x[:rows]), alone[:rows]), rows


@pytest.mark.parametrize("shape", ODD, ids=str)
def test_blocks_that_run_over_rows_take_panels(shape: tuple[int, int]) -> None:
    assert isinstance(make_nf4(quantise(weight_of(shape)), PanelBudget()), Nf4Panels)


def test_without_bitsandbytes_panels_multiply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nf4, "fused_kernel", lambda: None)
    weight = quantise(weight_of((48, 192)))  # a shape that no other test has tried
    assert isinstance(make_nf4(weight, PanelBudget()), Nf4Panels)


def test_panels_are_kept_while_the_budget_lasts() -> None:
    weight = quantise(weight_of((2100, 64)))  # three panels
    panels = Nf4Panels(weight, PanelBudget(2 * 1024 * 64 * 4))
    assert [kept is not None for kept in panels.kept][:2] == [True, True]
    assert [kept is not None for kept in Nf4Panels(weight, PanelBudget(0)).kept] == [False] * 3


@pytest.mark.parametrize("shape", [(20, 64), (20, 24)], ids=str)
def test_an_embedding_is_its_rows(shape: tuple[int, int]) -> None:
    weight = quantise(weight_of(shape))
    rows = Nf4Embedding(weight, torch.float32)(torch.tensor([3, 3, 19]))
    assert torch.allclose(rows, whole(weight)[[3, 3, 19]], rtol=1e-2)
