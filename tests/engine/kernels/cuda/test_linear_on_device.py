"""Linear layers on a real GPU: tensor cores, concurrent programs, and tiles of real models."""

from __future__ import annotations

import pytest
import torch

from engine.kernels.cuda.linear.dispatch import make_linear
from engine.kernels.cuda.linear.fusion import FusedLinear
from engine.kernels.cuda.linear.tiles import Kind
from engine.kernels.formats import int8, nf4
from engine.kernels.formats.block_planes import nf4_planes
from engine.kernels.torch import int8 as torch_int8
from tests.engine.kernels.cuda.cases import KINDS, Case, fusion_on, make, near, weight_on
from tests.engine.kernels.cuda.where import DEVICE, INTERPRETED

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.usefixtures("device"),
    pytest.mark.skipif(INTERPRETED, reason="the interpreter is too slow"),
]
kinds = pytest.mark.parametrize("kind", KINDS)
# (out, in): whole tiles and ragged ones, one split and several, a head, a gate's halves.
SHAPES = [(4096, 4096), (1000, 4160), (70, 64), (32064, 1024), (2048, 11008)]
shapes = pytest.mark.parametrize("shape", SHAPES, ids=str)


def both(case: Case) -> tuple[FusedLinear, FusedLinear]:
    product = make_linear(weight_on(DEVICE, case.weight), fusion_on(DEVICE, case.fusion))
    return product, case.reference()


@kinds
@shapes
@pytest.mark.parametrize("full", [False, True], ids=["plain", "full"])
def test_a_kernel_means_what_the_reference_means(
    kind: Kind, shape: tuple[int, int], full: bool
) -> None:
    case = make(kind, *shape, 1, norm=full, bias=full, gated=full)
    product, reference = both(case)
    for dtype in (torch.bfloat16, torch.float32):
        x = case.rows(16, dtype)
        residual = case.residual(16, dtype) if full else None
        found = product(x.cuda(), None if residual is None else residual.cuda())
        assert near(found, reference(x, residual), normed=full)


@kinds
@shapes
def test_rows_slots_and_runs_do_not_matter(kind: Kind, shape: tuple[int, int]) -> None:
    case = make(kind, *shape, 1, norm=True, gated=True)
    product, _ = both(case)
    x, residual = case.rows(40, torch.bfloat16).cuda(), case.residual(40, torch.bfloat16).cuda()
    whole = product(x, residual)
    order = torch.arange(16).roll(5)
    parts = [*(torch.arange(rows) for rows in range(1, 17)), order, order[3:8], *order.split(1)]
    for part in parts:
        at = part.cuda()
        for _ in range(3):  # programs finish in another order every time
            assert torch.equal(product(x[at], residual[at]), whole[at]), part


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_int8_gives_the_bits_of_the_cpu(dtype: torch.dtype) -> None:
    case = make("int8", 500, 4100, 1)
    assert isinstance(case.weight, int8.Int8Weight)
    x = case.rows(64, dtype)
    found = make_linear(weight_on(DEVICE, case.weight))(x.cuda())
    assert torch.equal(found.cpu(), torch_int8.Int8Reference(case.weight)(x))


def test_every_byte_is_decoded() -> None:
    """A weight has all 256 bytes everywhere and scales of 1; unit rows read it back."""
    packed = torch.arange(256, dtype=torch.uint8).repeat(33)[: 128 * 32].view(128, 32)
    packed = torch.cat([packed.roll(shift, 1) for shift in range(8)])
    ones = torch.ones(len(packed)).bfloat16()
    weight = nf4_planes(nf4.Nf4Weight(packed.reshape(-1), ones, (len(packed), 64)))
    expected = nf4.CODE.bfloat16()[nf4.unpack(packed).int()].t()
    found = make_linear(weight_on(DEVICE, weight))(torch.eye(64, dtype=torch.bfloat16).cuda())
    assert torch.equal(found.cpu(), expected)


@kinds
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_finite_stays_in_its_row(kind: Kind, value: float) -> None:
    case = make(kind, 300, 4096, 1, norm=True)
    product, _ = both(case)
    x = case.rows(16, torch.bfloat16).cuda()
    whole = product(x)
    x[5, 4000] = value
    found = product(x)
    good = torch.arange(16) != 5
    assert torch.equal(found[good], whole[good])
    assert not found[5].isfinite().any()


@kinds
def test_a_captured_graph_gives_the_same(kind: Kind) -> None:
    case = make(kind, 4096, 4096, 1, norm=True)
    product, _ = both(case)
    x = case.rows(4, torch.bfloat16).cuda()
    expected = product(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = product(x)
    for _ in range(3):
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(found, expected)
