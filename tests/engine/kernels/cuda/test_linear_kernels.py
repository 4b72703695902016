"""Linear layers of small weights: near the reference, with bits that do not depend on other rows."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from engine.kernels.cuda import references
from engine.kernels.cuda.linear.experts import ExpertsLinear, stack
from engine.kernels.cuda.linear.fusion import PLAIN, Fusion, Norm
from engine.kernels.cuda.linear.tiles import Kind
from engine.kernels.formats import int8
from engine.kernels.torch import int8 as torch_int8
from tests.engine.kernels.cuda.cases import GROUPED, KINDS, Case, make, near, weight_on
from tests.engine.kernels.cuda.where import examples

kinds = pytest.mark.parametrize("kind", KINDS)


def run(
    case: Case, device: torch.device, *calls: tuple[Tensor, Tensor | None], small: bool = True
) -> list[Tensor]:
    """Return the kernel's result for each (rows, residual), with small tiles or the engine's."""
    product = case.product(device, case.tile if small else None)
    return [
        product(x.to(device), None if residual is None else residual.to(device)).cpu()
        for x, residual in calls
    ]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    kind = draw(st.sampled_from(KINDS))
    width = draw(st.integers(1, 4)) * 64 if kind in GROUPED else draw(st.integers(1, 130))
    return make(
        kind, draw(st.integers(1, 37)), width, draw(st.integers(1, 4)), norm=draw(st.booleans()),
        bias=draw(st.booleans()), gated=draw(st.booleans()), seed=draw(st.integers(0, 9)),
    )  # fmt: skip


@pytest.mark.gpu
@examples(12)
@given(cases(), st.integers(1, 16), st.sampled_from([torch.float32, torch.bfloat16]), st.booleans())
def test_a_kernel_means_what_the_reference_means(
    device: torch.device, case: Case, rows: int, dtype: torch.dtype, added: bool
) -> None:
    x = case.rows(rows, dtype)
    residual = case.residual(rows, dtype) if added else None
    (found,) = run(case, device, (x, residual))
    assert near(found, case.reference()(x, residual), normed=case.fusion.norm is not None)


@pytest.mark.gpu
@kinds
def test_rows_and_slots_do_not_matter(device: torch.device, kind: Kind) -> None:
    case = make(kind, 10, 192, 3, norm=True, gated=True)
    assert case.tile.splits == 3
    x, residual = case.rows(16, torch.bfloat16), case.residual(16, torch.bfloat16)
    order = torch.arange(16).roll(5)
    parts = [*(torch.arange(rows) for rows in (1, 2, 7, 15, 16)), order, order[3:8], order[:1]]
    found = run(case, device, *((x[part], residual[part]) for part in parts))
    whole = found[4]
    for part, result in zip(parts, found, strict=True):
        assert torch.equal(result, whole[part]), part


@pytest.mark.gpu
@kinds
@pytest.mark.parametrize("gated", [True, False])
def test_each_row_is_multiplied_by_its_own_expert(
    device: torch.device, kind: Kind, gated: bool
) -> None:
    """Its bits are those it has alone; one expert's layer, for many rows, means the same."""
    cases = [make(kind, 40, 1088, 1, bias=gated, gated=gated, seed=seed) for seed in range(3)]
    weights = [weight_on(device, case.weight) for case in cases]
    biases = [bias for case in cases if (bias := case.fusion.bias) is not None]
    linear = ExpertsLinear(
        stack(iter(weights), 3), torch.stack(biases).to(device) if biases else None, 2, gated=gated
    )
    chosen, x = torch.tensor([2, 0, 2, 1]), cases[0].rows(4, torch.bfloat16)
    found = linear(x.to(device), chosen.to(device, torch.int32)).cpu()
    for row, expert in enumerate(chosen.tolist()):
        part = slice(row, row + 1)
        expected = cases[expert].reference()(x[part])
        assert near(found[part], expected)
        alone = linear(x[part].to(device), chosen[part].to(device, torch.int32)).cpu()
        assert torch.equal(alone, found[part])
        assert near(linear.of(expert)(x[part].to(device)), expected)


@pytest.mark.gpu
@kinds
def test_tiles_of_real_sizes_are_filled_in_part(device: torch.device, kind: Kind) -> None:
    """Use the tiles of ``choose_tile``; none of these sizes is a multiple of one."""
    case = make(kind, 150, 1088, 1, norm=True)
    x = case.rows(3, torch.bfloat16)
    (found,) = run(case, device, (x, None), small=False)
    assert near(found, case.reference()(x), normed=True)


@pytest.mark.gpu
@kinds
def test_rows_of_several_tiles_keep_their_bits(device: torch.device, kind: Kind) -> None:
    case = make(kind, 3, 64, 1)
    x, residual = case.rows(50, torch.bfloat16), case.residual(50, torch.bfloat16)
    found, later = run(case, device, (x, residual), (x[40:], residual[40:]))
    assert near(found, case.reference()(x, residual))
    assert torch.equal(found[40:], later)


@pytest.mark.gpu
@kinds
@pytest.mark.parametrize("norm", [False, True], ids=["plain", "norm"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_finite_stays_in_its_row(
    device: torch.device, kind: Kind, norm: bool, value: float
) -> None:
    case = make(kind, 20, 128, 2, norm=norm)
    x = case.rows(4, torch.bfloat16)
    broken = x.clone()
    broken[1, 100] = value
    whole, found = run(case, device, (x, None), (broken, None))
    good = torch.tensor([0, 2, 3])
    assert torch.equal(found[good], whole[good])
    assert not found[1].isfinite().any()
    assert torch.equal(found[1].isnan(), case.reference()(broken)[1].isnan())


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_int8_gives_the_bits_of_the_cpu(device: torch.device, dtype: torch.dtype) -> None:
    case = make("int8", 40, 700, 3)
    assert isinstance(case.weight, int8.Int8Weight)
    x = torch.cat([case.rows(14, dtype), torch.zeros(1, 700, dtype=dtype), case.rows(1, dtype, 7)])
    (found,) = run(case, device, (x, None))
    assert torch.equal(found, torch_int8.Int8Reference(case.weight)(x))
    assert torch.equal(found, case.reference()(x))


@pytest.mark.gpu
def test_rows_are_quantised_as_on_the_cpu(device: torch.device) -> None:
    """Rows of every bf16 mantissa: if scales were rounded twice, ties would show it."""
    x = torch.randn(256, 37, generator=torch.Generator().manual_seed(4)).bfloat16()
    x[:, 0] = torch.linspace(4, 8, 256).bfloat16()
    from engine.kernels.cuda.linear.streamed import quantise_rows

    values, scale = quantise_rows(x.to(device))
    expected, expected_scale = references.quantise_rows(x, None)
    assert torch.equal(scale.cpu()[:, None], expected_scale)
    assert torch.equal(values.cpu(), expected)


def test_surroundings_need_nothing() -> None:
    assert Fusion() == PLAIN
    assert Norm(torch.ones(1), 1e-5).epsilon == 1e-5
