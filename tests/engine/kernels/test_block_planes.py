"""Blocks in planes stand for what the package ``gguf`` says they do."""

from __future__ import annotations

import pytest
import torch

from engine.kernels.formats.block_planes import (
    FORMS,
    bits_in_planes,
    join_planes,
    read_blocks,
    to_planes,
)
from tests.support.block_matrices import random_blocks

CPU = torch.device("cpu")


@pytest.mark.parametrize("format", FORMS)
def test_codes_scales_and_lows_are_those_of_the_format(format: str) -> None:
    blocks, form = random_blocks(format, 6, 512), FORMS[format]
    assert isinstance(blocks.data, torch.Tensor)
    codes, scales, lows = read_blocks(format, blocks.data, 0.5)
    weights = (codes.float().unflatten(1, (-1, form.group)) - form.middle) * scales[..., None]
    if lows is not None:
        weights += lows[..., None]
    expected = blocks.times(0.5).dequantise()
    assert torch.allclose(weights.flatten(1), expected, rtol=1e-6, atol=1e-6)
    assert (lows is None) != form.lows


@pytest.mark.parametrize("format", FORMS)
def test_planes_hold_the_blocks_with_scales_in_bf16(
    format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In chunks, with a factor; a weight is off by the rounding of scale, low and itself."""
    monkeypatch.setattr("engine.kernels.formats.block_planes._CHUNK", 1024)
    blocks = random_blocks(format, 7, 512, seed=1).times(2.5)
    planes, expected = to_planes(blocks, CPU), blocks.dequantise()
    _, scales, lows = read_blocks(format, torch.as_tensor(blocks.data), blocks.scale)
    largest = scales.abs() * max(1 << (FORMS[format].bits - 1), 1)
    if lows is not None:
        largest = largest + lows.abs()
    bound = 2**-7 * largest.repeat_interleave(FORMS[format].group, 1)
    whole = planes.dequantise()
    assert bool(((whole.float() - expected).abs() <= bound).all())
    assert torch.equal(planes.dequantise(torch.tensor([5, 0])), whole[[5, 0]])
    held = (planes.codes, planes.high, planes.scales, planes.lows)
    size = sum(plane.nbytes for plane in held if plane is not None)
    assert size * 8 == bits_in_planes(format) * expected.numel()


@pytest.mark.parametrize("format", ["q4_k", "q6_k", "q8_0"])
def test_joined_planes_are_those_of_the_joined_rows(format: str) -> None:
    blocks = random_blocks(format, 9, 512, seed=2)
    parts = [to_planes(part, CPU) for part in blocks.split([4, 2, 3])]
    joined, whole = join_planes(parts), to_planes(blocks, CPU)
    assert joined.shape == whole.shape
    assert torch.equal(joined.dequantise(), whole.dequantise())
