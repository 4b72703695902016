"""Matmuls with weights in GGUF blocks."""

from __future__ import annotations

import pytest
import torch

from engine.backends.native import build
from engine.kernels.formats.block_formats import LAYOUTS, NATIVE_FORMATS
from engine.kernels.native.library import Kind, Library, Matrix
from tests.support.block_matrices import random_blocks, rounded_rows


def rows(width: int, count: int = 16) -> torch.Tensor:
    return torch.randn(count, width, generator=torch.Generator().manual_seed(2))


def width_of(format: str) -> int:
    """Return three units of inputs; the last is not whole in formats with smaller blocks."""
    return 512 + LAYOUTS[format].inputs


@pytest.mark.parametrize("format", NATIVE_FORMATS)
def test_matmuls_round_the_rows_alone(format: str, library: Library) -> None:
    blocks = random_blocks(format, 40, width_of(format))
    matrix, x = Matrix(library, Kind.FP32, blocks), rows(blocks.shape[1])
    x[3] = 0
    x[4] *= 1e4
    x[5, :64] *= 1e-3
    seen = rounded_rows(x, format)
    exact = seen @ blocks.dequantise().double().T
    # Beside the size of what is added up: what is left of terms that cancel is their rounding.
    size = seen.abs() @ blocks.dequantise().double().abs().T
    assert ((matrix(x) - exact).abs() <= 4e-7 * size).all()


@pytest.mark.parametrize("format", NATIVE_FORMATS)
def test_rows_are_looked_up_as_they_are_stored(format: str, library: Library) -> None:
    blocks = random_blocks(format, 40, width_of(format))
    matrix = Matrix(library, Kind.FP32, blocks)
    assert torch.equal(matrix.rows(range(40)), blocks.dequantise())


@pytest.mark.parametrize("format", NATIVE_FORMATS)
def test_a_row_has_the_bits_it_has_alone(format: str, library: Library) -> None:
    blocks = random_blocks(format, 40, width_of(format))
    matrix, x = Matrix(library, Kind.FP32, blocks), rows(blocks.shape[1])
    matrix.set_bias(torch.randn(40, generator=torch.Generator().manual_seed(1)))
    alone = torch.cat([matrix(row) for row in x.split(1)])
    for count in range(1, 17):
        assert torch.equal(matrix(x[:count]), alone[:count]), count
        assert torch.equal(matrix(x[16 - count :]), alone[16 - count :]), count


def test_no_rows_are_multiplied(library: Library) -> None:
    """They ended the process."""
    matrix = Matrix(library, Kind.FP32, random_blocks("q4_k", 40, 256))
    assert matrix(rows(256, 0)).shape == (0, 40)


def test_parts_of_other_formats_are_one_matrix(library: Library) -> None:
    """As for queries, keys and values: scaled, in the same and in other formats, and as floats."""
    parts = (
        random_blocks("q4_k", 32, 256).times(0.125),
        random_blocks("q4_k", 16, 256, seed=1),
        random_blocks("q6_k", 48, 256, seed=2),
        torch.randn(16, 256, generator=torch.Generator().manual_seed(3)),
        random_blocks("q8_0", 24, 256, seed=4),
    )
    matrix, x, bias = Matrix(library, Kind.FP32, parts), rows(256), torch.randn(136)
    matrix.set_bias(bias)
    singles = [Matrix(library, Kind.FP32, part) for part in parts]
    expected = torch.cat([single(x) for single in singles], dim=1) + bias
    assert torch.allclose(matrix(x), expected, rtol=1e-5, atol=1e-5)
    looked_up = torch.cat([single.rows(range(single.outputs)) for single in singles])
    assert torch.equal(matrix.rows(range(136)), looked_up)
    assert torch.equal(singles[0].rows(range(32)), parts[0].dequantise())


def test_parts_that_are_no_whole_panels_are_refused(library: Library) -> None:
    part = random_blocks("q4_k", 24, 256)
    with pytest.raises(ValueError, match="multiple of 16"):
        Matrix(library, Kind.FP32, (part, part))


@pytest.mark.parametrize("format", ["q4_k", "q8_0"])
def test_the_number_of_threads_changes_nothing(format: str, library: Library) -> None:
    blocks = random_blocks(format, 100, 1024)
    x = rows(1024)
    expected = Matrix(library, Kind.FP32, blocks)(x)
    for threads in (1, 3, 7):
        other = Library(build.build(), threads)
        assert torch.equal(Matrix(other, Kind.FP32, blocks)(x), expected), threads
