"""Matrices in GGUF blocks: layouts, rows and numbers."""

from __future__ import annotations

import pytest
import torch
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import quantize
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

from engine.kernels.formats.block_formats import LAYOUTS
from engine.kernels.formats.blocks import Blocks, to_blocks
from tests.support.block_matrices import random_blocks


def test_layouts_are_those_of_the_package_gguf() -> None:
    for name, layout in LAYOUTS.items():
        if name != "q2_0":  # not known to version 0.19
            kind = GGMLQuantizationType[name.upper()]
            assert GGML_QUANT_SIZES[kind] == (layout.inputs, layout.size)


@pytest.mark.parametrize(("format", "bits"), [("q1_0", 1), ("q2_0", 2)])
def test_codes_of_few_bits_are_those_of_ggml(format: str, bits: int) -> None:
    """Its ``dequantize_row_q1_0`` and ``dequantize_row_q2_0``; the package gguf has neither."""
    blocks = random_blocks(format, 1, LAYOUTS[format].inputs)
    scale, codes = blocks.data[0, :2].view(torch.float16).item(), blocks.data[0, 2:].tolist()
    for j, found in enumerate(blocks.dequantise()[0].tolist()):
        code = codes[j * bits // 8] >> (j * bits % 8) & 2**bits - 1
        assert found == (scale * (code - 1) if bits == 2 else scale if code else -scale)


def test_mxfp4_of_safetensors_keeps_every_number() -> None:
    """transformers' own reading of gpt-oss's experts is the reference."""
    draw = torch.Generator().manual_seed(0)
    codes = torch.randint(256, (3, 5, 4, 16), dtype=torch.uint8, generator=draw)
    exponents = torch.randint(100, 140, (3, 5, 4), dtype=torch.uint8, generator=draw)
    wanted = convert_moe_packed_tensors(codes, exponents, dtype=torch.float32)
    found = to_blocks(codes, exponents)
    assert (found.format, found.shape) == ("mxfp4", (15, 128))
    # transformers gives each expert's matrix as (inputs, outputs).
    assert torch.equal(found.dequantise().view(3, 5, 128), wanted.transpose(1, 2))


def test_rows_are_those_of_the_matrix_in_any_order() -> None:
    weight = torch.randn(6, 64, generator=torch.Generator().manual_seed(0))
    data = torch.from_numpy(quantize(weight.numpy(), GGMLQuantizationType.Q8_0))
    blocks = Blocks("q8_0", (6, 64), data)
    wide = blocks.dequantise()
    assert (wide - weight).abs().max() < 0.02
    order = torch.tensor([5, 0, 3, 3])
    assert torch.equal(blocks.rows(order).dequantise(), wide[order])
    first, second = blocks.rows(slice(1, 6)).split([2, 3])
    assert first.data.data_ptr() == data[1].data_ptr()  # a view: a mapped file is not copied
    assert torch.equal(torch.cat([first.dequantise(), second.dequantise()]), wide[1:])


@pytest.mark.parametrize(
    ("format", "shape", "size", "message"),
    [
        ("q9_k", (2, 256), 144, "no format of blocks"),
        ("q4_k", (2, 128), 72, "no multiple of 256"),
        ("q4_k", (2, 256), 143, "2 x 144 bytes"),
    ],
)
def test_bytes_that_make_up_no_such_matrix_are_refused(
    format: str, shape: tuple[int, int], size: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Blocks(format, shape, torch.zeros(shape[0], size, dtype=torch.uint8))
