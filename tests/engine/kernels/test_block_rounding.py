"""Floats quantised to GGUF blocks: the error is bounded in any group, whatever is in it."""

from __future__ import annotations

import pytest
import torch
from gguf.constants import GGMLQuantizationType
from gguf.quants import quantize
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.kernels.formats.block_formats import LAYOUTS
from engine.kernels.formats.block_rounding import ROUNDING, to_blocks

GROUP = 32


def drawn(rows: int, inputs: int, seed: int = 0) -> Tensor:
    """Return numbers like those of trained matrices: some larger rows, a few outliers."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, inputs, generator=generator) * 0.03
    x *= torch.rand(rows, 1, generator=generator) + 0.5
    far = torch.rand(rows, inputs, generator=generator) < 0.002
    return torch.where(far, 8 * x, x)


def halved(x: Tensor) -> Tensor:
    """Return the largest distance of ``x`` from the nearest float16."""
    return (x.abs() * 2.0**-11).clamp(min=2.0**-25)


def bounds(format: str, x: Tensor) -> Tensor:
    """Return the largest root mean square error (blocks, groups) of rounding ``x (blocks, groups, 32)``.

    A code is half a step off at most, and no search may leave more than 16 even steps do. Rounding scale
    and minimum adds to that: to 16 bits, or to 6 bits beside the largest of their block. A search that
    clips makes steps smaller; 1.1 leaves room for one that makes them larger.
    """
    low, high = x.amin(-1), x.amax(-1)
    if format == "q8_0":
        scale = torch.maximum(-low, high) / 127
        return scale / 2 + 127 * halved(scale)
    if format == "q4_1":
        scale = (high - low) / 15
        return scale / 2 + 15 * halved(1.1 * scale) + halved(low.abs() + scale)
    low = low.clamp(max=0)
    scale = (high - low) / 15
    largest, lowest = 1.1 * scale.amax(-1, keepdim=True), (scale - low).amax(-1, keepdim=True)
    sixths = (15 * largest + lowest) / 63 / 2
    return scale / 2 + sixths + 63 * (15 * halved(largest / 63) + halved(lowest / 63))


GROUPS = st.sampled_from(["normal", "far", "above", "below", "constant", "zero", "two"])


def group(kind: str, seed: int) -> Tensor:
    x = torch.randn(GROUP, generator=torch.Generator().manual_seed(seed))
    if kind == "far":
        x[seed % GROUP] = 40.0
    elif kind == "above":
        x = x.abs() + 3
    elif kind == "below":
        x = -x.abs() - 3
    elif kind == "constant":
        x = torch.full((GROUP,), float(x[0]))
    elif kind == "zero":
        x = torch.zeros(GROUP)
    elif kind == "two":
        x = x.sign()
    return x


@pytest.mark.parametrize("format", ROUNDING)
@settings(max_examples=60, deadline=None)
@given(
    kinds=st.lists(GROUPS, min_size=8, max_size=8),
    seed=st.integers(0, 10**6),
    size=st.sampled_from([1e-3, 0.03, 1.0, 300.0]),
)
def test_no_group_is_further_off_than_even_steps_are(
    format: str, kinds: list[str], seed: int, size: float
) -> None:
    x = size * torch.cat([group(kind, seed + i) for i, kind in enumerate(kinds)])[None]
    found = to_blocks(format, x).dequantise()
    apart = LAYOUTS[format].inputs // GROUP
    error = (found - x).view(-1, apart, GROUP).square().mean(-1).sqrt()
    assert (error <= bounds(format, x.view(-1, apart, GROUP)) + 1e-7).all()


def test_the_search_leaves_less_than_even_steps() -> None:
    """Otherwise it would cost its time for nothing. Of the formats of 4 bits, one in blocks of 256
    takes a tenth less than the other."""
    x = drawn(64, 1024)

    def error(blocks: Tensor) -> float:
        return float((blocks - x).norm() / x.norm())

    ours = {format: error(to_blocks(format, x).dequantise()) for format in ROUNDING}
    packed = torch.from_numpy(quantize(x.numpy(), GGMLQuantizationType.Q4_1))
    even = to_blocks("q4_1", x)
    theirs = error(type(even)("q4_1", even.shape, packed).dequantise())
    assert ours["q4_1"] < 0.95 * theirs
    assert ours["q4_k"] < 1.1 * ours["q4_1"]
    assert ours["q8_0"] < 0.01


def test_eight_bits_are_those_of_the_package_gguf() -> None:
    x = drawn(16, 256, seed=1)
    theirs = torch.from_numpy(quantize(x.numpy(), GGMLQuantizationType.Q8_0))
    ours = to_blocks("q8_0", x).data
    assert torch.equal(ours.view(-1, 34)[:, :2], theirs.view(-1, 34)[:, :2])
    # They divide by the scale before it is rounded: a code in a hundred falls to the other side.
    assert (ours.view(torch.int8).short() - theirs.view(torch.int8).short()).abs().max() <= 1


@pytest.mark.parametrize("format", ROUNDING)
def test_a_row_is_rounded_alike_whatever_stands_beside_it(format: str) -> None:
    """However many are taken together, and whatever dtype they come in."""
    x = drawn(2050, 256).bfloat16()
    whole = to_blocks(format, x)
    assert torch.equal(whole.data[2047:], to_blocks(format, x[2047:].float()).data)


@pytest.mark.parametrize(("format", "inputs"), [("q4_1", 48), ("q4_k", 128)])
def test_rows_that_are_no_whole_blocks_are_refused(format: str, inputs: int) -> None:
    with pytest.raises(ValueError, match="no multiple"):
        to_blocks(format, torch.zeros(2, inputs))
