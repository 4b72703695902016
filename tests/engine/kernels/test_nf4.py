"""NF4: bitsandbytes' format bit by bit, and row-independent linear layers."""

from __future__ import annotations

import logging

import pytest
import torch
import torch.nn.functional as F

from engine.kernels.cuda.linear.dispatch import embedding_of
from engine.kernels.formats import nf4
from engine.kernels.formats.block_planes import nf4_planes
from engine.kernels.formats.nf4 import dequantise, quantise
from engine.kernels.torch import linear
from engine.kernels.torch.linear import is_row_independent
from engine.kernels.torch.nf4 import Nf4Embedding, Nf4Linear

# (out, in): sizes of the embedded pair, more outputs than one part has, inputs no multiple of 64.
SHAPES = [
    (64, 64),
    (1024, 256),
    (4099, 128),
    (1, 64),
    (33, 1024),
    (7, 13),
    (1, 9),
    (96, 32),
    (1100, 48),
]


def weight_of(shape: tuple[int, int]) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1)) * 0.02


def inputs(rows: int, width: int) -> torch.Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(2))


def whole(weight: nf4.Nf4Weight) -> torch.Tensor:
    out, width = weight.shape
    return dequantise(weight.packed, weight.absmax, out * width, torch.float32).view(out, width)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
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


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_linear_layer_is_that_of_the_whole_weight(shape: tuple[int, int]) -> None:
    weight, x = quantise(weight_of(shape)), inputs(40, shape[1])
    exact = F.linear(x.double(), whole(weight).double())
    found = Nf4Linear(weight)(x)
    assert found.dtype == torch.float32
    assert (found - exact).norm() < 1e-5 * exact.norm()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_rows_and_slots_do_not_matter(shape: tuple[int, int], dtype: torch.dtype) -> None:
    """On every processor: on a Zen 4 EPYC a matmul of 7 x 13 in tiles of 16 rows is not."""
    weight = quantise(weight_of(shape))
    assert is_row_independent(Nf4Linear(weight), whole(weight).to(dtype))


def test_a_linear_layer_that_sums_in_another_order_is_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def otherwise(self: linear.TiledLinear, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.weight) + len(x) / 1000

    monkeypatch.setattr(linear.TiledLinear, "__call__", otherwise)
    weight = quantise(weight_of((23, 57)))  # a shape that no other test has tried
    assert is_row_independent(Nf4Linear(weight), whole(weight))


def test_widened_a_part_at_a_time_the_weight_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = quantise(weight_of((37, 192)))
    expected = whole(weight)
    codes = nf4.CODE[nf4.unpack(weight.packed).int()].view(-1, 64)
    assert torch.equal(expected.view(-1, 64), codes * weight.absmax.float()[:, None])
    monkeypatch.setattr(nf4, "CHUNK", 640)  # the last part is short
    assert torch.equal(whole(weight), expected)


@pytest.mark.parametrize("shape", [(20, 64), (20, 24)], ids=str)
def test_an_embedding_is_its_rows(shape: tuple[int, int]) -> None:
    weight = quantise(weight_of(shape))
    rows = Nf4Embedding(weight, torch.float32)(torch.tensor([3, 3, 19]))
    assert torch.allclose(rows, whole(weight)[[3, 3, 19]], rtol=1e-2)


def test_a_gpus_embedding_is_rounded_once() -> None:
    """It had the kernels' codes, rounded to bf16 before the scale: a fifth of the numbers were others."""
    weight, ids = quantise(weight_of((20, 192))), torch.tensor([3, 3, 19])
    planes = nf4_planes(weight)
    assert torch.equal(embedding_of(planes)(ids), Nf4Embedding(weight, torch.bfloat16)(ids))
    assert not torch.equal(embedding_of(planes)(ids), planes.dequantise(ids))
