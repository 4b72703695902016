"""int8 linear layers: the kernel gives the reference's bits, for any rows, on any processor."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F

from engine.kernels.formats.int8 import quantise
from engine.kernels.torch import int8 as int8_linear
from engine.kernels.torch.int8 import Int8Embedding, Int8Packed, Int8Reference, make_int8
from engine.kernels.torch.linear import is_row_independent
from engine.values import MAX_ROWS

# (out, in): odd sizes, one output, wide heads, sizes of the embedded pair.
SHAPES = [(1, 8), (7, 13), (64, 64), (172, 64), (1536, 256), (256, 1024), (4099, 128), (64, 5000)]
shapes = pytest.mark.parametrize("shape", SHAPES, ids=str)


def weight_of(shape: tuple[int, int]) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


def inputs(rows: int, width: int) -> torch.Tensor:
    """Return rows of very different size: one scale for all would lose the small ones."""
    x = torch.randn(rows, width, generator=torch.Generator().manual_seed(2))
    return x * torch.logspace(-6, 6, rows)[:, None]


@shapes
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_kernel_gives_the_bits_of_the_reference(
    shape: tuple[int, int], dtype: torch.dtype
) -> None:
    levels = int8_linear.exact_levels(shape[1])
    if levels is None:
        pytest.skip("oneDNN's int8 sums are not exact on this processor")
    weight, x = quantise(weight_of(shape)), inputs(MAX_ROWS, shape[1]).to(dtype)
    expected = Int8Reference(weight, levels)(x)
    assert expected.dtype == dtype
    for rows in range(1, MAX_ROWS + 1):
        assert torch.equal(Int8Packed(weight, levels)(x[:rows]), expected[:rows]), rows


@shapes
def test_rows_and_slots_do_not_matter(shape: tuple[int, int]) -> None:
    weight = quantise(weight_of(shape))
    for linear in (make_int8(weight), Int8Reference(weight), Int8Reference(weight, 63)):
        assert is_row_independent(linear, weight_of(shape))


@shapes
def test_the_linear_layer_is_right(shape: tuple[int, int]) -> None:
    weight, x = weight_of(shape), inputs(5, shape[1])
    found = make_int8(quantise(weight))(x)
    error = (found - F.linear(x, weight)).norm(dim=-1)
    # Both roundings are uniform; the largest of a row is at most some 5 standard deviations.
    assert bool((error <= 0.03 * x.norm(dim=-1) * shape[0] ** 0.5).all())


def test_quantising_what_was_quantised_changes_nothing() -> None:
    once = quantise(weight_of((50, 40)))
    again = quantise(once.dequantise())
    assert torch.equal(again.values, once.values)
    assert torch.allclose(again.scale, once.scale)


def test_zeros_stay_zeros() -> None:
    weight = weight_of((8, 16))
    weight[3] = 0
    result = make_int8(quantise(weight))(torch.zeros(2, 16))
    assert torch.equal(result, torch.zeros(2, 8))
    assert bool((make_int8(quantise(weight))(torch.ones(1, 16))[:, 3] == 0).all())


def test_an_embedding_is_its_rows() -> None:
    weight = quantise(weight_of((20, 12)))
    rows = Int8Embedding(weight, torch.float32)(torch.tensor([3, 3, 19]))
    assert torch.equal(rows, weight.dequantise()[[3, 3, 19]])


def test_sums_that_saturate_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without VNNI pairs of u8 x s8 products are added in 16 bits: fewer levels are used then."""
    exact = Int8Packed.matmul

    def saturating(self: Int8Packed, quantised: torch.Tensor) -> torch.Tensor:
        result = exact(self, quantised)
        return result.clamp(max=1000.0) if self.levels == 127 else result

    monkeypatch.setattr(Int8Packed, "matmul", saturating)
    assert int8_linear.exact_levels.__wrapped__(48) == 63
    monkeypatch.setattr(Int8Packed, "matmul", lambda self, rows: exact(self, rows) + 1)
    assert int8_linear.exact_levels.__wrapped__(48) is None


def test_where_nothing_is_exact_the_reference_multiplies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(int8_linear, "exact_levels", lambda width: None)
    assert isinstance(make_int8(quantise(weight_of((5, 24)))), Int8Reference)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "darwin", reason="oneDNN's limits are those of x86")
@pytest.mark.parametrize("isa", ["AVX512_CORE", "AVX2"])
def test_a_processor_without_vnni_is_exact_with_fewer_levels(isa: str) -> None:
    """oneDNN can be told to use only what an older processor has."""
    code = (
        "import torch; from engine.kernels.formats.int8 import *; "
        "from engine.kernels.torch.int8 import *; "
        "weight = quantise(torch.randn(72, 96)); linear = make_int8(weight); "
        "x = torch.randn(16, 96); levels = exact_levels(96); "
        "print(type(linear).__name__, levels, "
        "torch.equal(linear(x), Int8Reference(weight, levels)(x)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "ONEDNN_MAX_CPU_ISA": isa},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split()[-1] == "True"
    assert done.stdout.split()[1] in ("63", "127")  # 127 where the processor is no x86


def test_the_float_weight_is_left_as_it_was() -> None:
    """Widening float32 copies nothing: dividing in place once spoilt the weight for the next reader."""
    weight = weight_of((6, 8))
    quantise(weight)
    assert torch.equal(weight, weight_of((6, 8)))
