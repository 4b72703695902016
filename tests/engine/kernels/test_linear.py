"""Linear layers: a row's bits depend neither on the rows beside it nor on the slot it stands in."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from engine.kernels.torch.linear import (
    Biased,
    Linear,
    PackedLinear,
    RowwiseLinear,
    TiledLinear,
    is_row_independent,
    make_linear,
    make_unpacked,
)
from engine.values import MAX_ROWS

DTYPES = [torch.float32, torch.bfloat16]
# (out, in): odd sizes, one output, wide heads, sizes of the embedded pair.
SHAPES = [(1, 8), (7, 13), (64, 64), (172, 64), (1536, 256), (256, 1024), (4099, 128)]
cases = pytest.mark.parametrize(
    ("shape", "dtype"), [(shape, dtype) for shape in SHAPES for dtype in DTYPES], ids=str
)

PACKS_BF16 = torch.ops.mkldnn._is_mkldnn_bf16_supported()


def weight_of(shape: tuple[int, int], dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(dtype)


def inputs(rows: int, width: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(2)).to(dtype)


@cases
def test_every_row_has_the_same_bits_for_1_to_16_rows_and_in_prefill(
    shape: tuple[int, int], dtype: torch.dtype
) -> None:
    linear = make_linear(weight_of(shape, dtype))
    x = inputs(128, shape[1], dtype)
    alone = torch.cat([linear(x[row : row + 1]) for row in range(128)])
    for rows in (*range(1, MAX_ROWS + 1), 40, 128):
        assert torch.equal(linear(x[:rows]), alone[:rows]), rows


@cases
def test_every_slot_gives_the_same_bits(shape: tuple[int, int], dtype: torch.dtype) -> None:
    linear = make_linear(weight_of(shape, dtype))
    x = inputs(MAX_ROWS, shape[1], dtype)
    probe = linear(x[:1])[0]
    for slot in range(MAX_ROWS):
        moved = x.clone()
        moved[slot] = x[0]
        assert torch.equal(linear(moved)[slot], probe), slot


@cases
@pytest.mark.parametrize("kind", [TiledLinear, PackedLinear, RowwiseLinear])
def test_the_linear_layer_is_right(
    shape: tuple[int, int],
    dtype: torch.dtype,
    kind: type[TiledLinear | PackedLinear | RowwiseLinear],
) -> None:
    if kind is PackedLinear and dtype is torch.bfloat16 and not PACKS_BF16:
        pytest.skip("oneDNN has no bf16 kernel on this processor")
    weight, x = weight_of(shape, dtype), inputs(5, shape[1], dtype)
    expected = F.linear(x.double(), weight.double())
    tolerance = 1e-5 if dtype is torch.float32 else 2e-2
    scale = shape[1] ** 0.5
    assert torch.allclose(
        kind(weight)(x).double(), expected, rtol=tolerance, atol=tolerance * scale
    )


def test_the_reference_is_row_independent_wherever_it_runs() -> None:
    for dtype in DTYPES:
        weight = weight_of((172, 64), dtype)
        assert is_row_independent(TiledLinear(weight), weight)


def test_a_linear_layer_that_depends_on_its_neighbours_is_detected() -> None:
    class Leaky:
        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return x + x.mean() * 1e-3

    leaky: Linear = Leaky()
    assert not is_row_independent(leaky, weight_of((32, 32), torch.float32))


def test_another_order_of_summing_is_found_behind_results_rounded_to_bf16() -> None:
    """A processor without bf16 instructions sums one row in another order than several. Plain random
    rows showed it once in 12,000 outputs: the trial passed, and the words of a long reply did not."""
    weight = weight_of((64, 256), torch.bfloat16)

    class OneRowAnotherWay:
        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            terms = (x[:, None].float() * weight.float()).view(len(x), 64, 16, 16)
            inner, outer = (-1, -1) if len(x) > 1 else (-2, -1)
            return terms.sum(inner).sum(outer).bfloat16()

    assert not is_row_independent(OneRowAnotherWay(), weight)


def test_a_processor_without_a_packed_kernel_gets_the_reference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """oneDNN packs bf16 on every processor, and refuses to multiply on one without AVX-512."""

    def refuse(*_: object) -> torch.Tensor:
        raise RuntimeError("bf16 path needs the cpu support avx512bw")

    monkeypatch.setattr(PackedLinear, "__call__", refuse)
    odd = torch.ones(37, 41, dtype=torch.bfloat16)  # a shape that no other test has tried
    assert isinstance(make_linear(odd), TiledLinear)


def beside(x: torch.Tensor) -> torch.Tensor:
    """Return a term that depends on all rows of a tile."""
    return x.mean() * 1e-3


def by_slot(x: torch.Tensor) -> torch.Tensor:
    """Return a term for the last four of sixteen rows: another path at the end of a tile."""
    return (torch.arange(len(x)) % MAX_ROWS >= 12)[:, None] * 1e-3


@pytest.mark.parametrize("term", [beside, by_slot])
def test_where_tiles_are_not_row_independent_rows_are_multiplied_one_by_one(
    term: Callable[[torch.Tensor], torch.Tensor],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Tiles of 16 were trusted on every processor."""
    linear_of = F.linear
    monkeypatch.setattr(F, "linear", lambda x, weight: linear_of(x, weight) + term(x))
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    monkeypatch.setattr("engine.kernels.torch.linear._chosen", {})
    monkeypatch.setattr("engine.kernels.torch.linear._chosen_unpacked", {})
    weight = weight_of((39, 43), torch.float32)
    linear = make_linear(weight)
    assert isinstance(linear, RowwiseLinear)
    assert is_row_independent(linear, weight)
    assert "39 x 43" in caplog.text and "one by one" in caplog.text
    caplog.clear()
    assert isinstance(make_linear(weight), RowwiseLinear)
    assert not caplog.text, "told once"
    assert isinstance(make_unpacked(weight), RowwiseLinear)


def test_the_weight_may_be_a_view_that_is_not_contiguous() -> None:
    weight = weight_of((64, 48), torch.float32).t()
    x = inputs(3, 64, torch.float32)
    assert torch.allclose(make_linear(weight)(x), F.linear(x, weight), atol=1e-4)


def test_a_bias_is_added_to_every_row() -> None:
    weight, bias = weight_of((172, 64), torch.float32), torch.arange(172.0)
    x = inputs(5, 64, torch.float32)
    linear = make_linear(weight)
    assert torch.equal(Biased(linear, bias)(x), linear(x) + bias)
