"""Weights that the compiled step rounds to fewer bits as it loads them."""

from __future__ import annotations

import pytest
import torch
from gguf.constants import GGMLQuantizationType
from gguf.quants import dequantize, quantize
from torch import Tensor

from engine.kernels.formats.block_formats import DRAFT_FORMAT
from engine.kernels.formats.blocks import Blocks, Weight
from engine.kernels.native.library import Kind, Library, Matrix
from tests.support.block_matrices import random_blocks

OUTPUTS, INPUTS = 40, 544


def numbers() -> Tensor:
    """Return weights among which are rows of zeros, tiny and large numbers, and an outlier."""
    wide = torch.randn(OUTPUTS, INPUTS, generator=torch.Generator().manual_seed(3)) * 0.02
    wide[1] = 0
    wide[2] *= 1e-5
    wide[3] *= 1e5
    wide[4, 7] = 1.0
    return wide


def blocks(format: str, weight: Tensor) -> Blocks:
    packed = quantize(weight.numpy(), GGMLQuantizationType[format.upper()])
    return Blocks(format, (OUTPUTS, INPUTS), torch.from_numpy(packed).clone())


WEIGHTS: dict[str, Weight] = {
    "fp32": numbers(),
    "bf16": numbers().bfloat16(),
    "q5_0": blocks("q5_0", numbers()),
    "q8_0, scaled": blocks("q8_0", numbers()).times(0.125),
    "q5_1": random_blocks("q5_1", OUTPUTS, INPUTS),
    "q6_k": random_blocks("q6_k", OUTPUTS, 768),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_rounding_errs_less_than_dividing_by_the_largest(name: str, library: Library) -> None:
    """The reference is llama.cpp's rounding to the format."""
    weight = WEIGHTS[name]
    wide = weight.dequantise() if isinstance(weight, Blocks) else weight.float()
    held = Matrix(library, Kind.FP32, weight, DRAFT_FORMAT).rows(range(OUTPUTS))
    kind = GGMLQuantizationType[DRAFT_FORMAT.upper()]
    plain = torch.from_numpy(dequantize(quantize(wide.numpy(), kind), kind))
    ours, theirs = (((each - wide) ** 2).sum(1).double() for each in (held, plain))
    assert (ours <= theirs * 1.0001).all()
    assert ours.sum() < 0.95 * theirs.sum()
    assert not held[wide.abs().amax(1) == 0].any()


def test_matmuls_are_those_with_the_rounded_weights(library: Library) -> None:
    matrix = Matrix(library, Kind.FP32, WEIGHTS["q5_0"], DRAFT_FORMAT)
    x = torch.randn(16, INPUTS, generator=torch.Generator().manual_seed(4))
    exact = x @ matrix.rows(range(OUTPUTS)).T
    assert torch.linalg.norm(matrix(x) - exact) < 0.02 * torch.linalg.norm(exact)
    assert torch.equal(matrix(x)[:3], matrix(x[:3]))


def test_what_takes_no_more_stays_as_it_is(library: Library) -> None:
    for format in ("q4_k", "q2_k", "iq4_xs", "mxfp4", "iq3_s"):
        stored = random_blocks(format, OUTPUTS, 768)
        held = Matrix(library, Kind.FP32, stored, DRAFT_FORMAT)
        assert torch.equal(held.rows(range(OUTPUTS)), stored.dequantise()), format
    odd = torch.randn(OUTPUTS, 48)  # no whole blocks
    assert torch.equal(Matrix(library, Kind.FP32, odd, DRAFT_FORMAT).rows(range(OUTPUTS)), odd)
