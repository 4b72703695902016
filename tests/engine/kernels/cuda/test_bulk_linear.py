"""Linear layers of many rows: near the kernels, int8 with their bits; and NF4 dequantised for them."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton")

from engine.kernels.cuda.linear import bulk
from engine.kernels.cuda.linear.bulk import BulkLinear
from engine.kernels.cuda.linear.dispatch import make_linear
from engine.kernels.cuda.linear.reference import dequantise_rounded
from engine.kernels.cuda.linear.tiles import Kind
from engine.kernels.formats import nf4
from tests.engine.kernels.cuda.cases import KINDS, fusion_on, make, weight_on

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fusion", ["nothing", "all"])
def test_many_rows_are_multiplied_as_few_are(
    device: torch.device, kind: Kind, fusion: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In parts, with a gate's halves in different ones."""
    monkeypatch.setattr(bulk, "PART", 64)
    monkeypatch.setattr(bulk, "STREAMED_ROWS", 16)
    full = fusion == "all"
    case = make(kind, 80, 128, 1, norm=full, bias=full, gated=full)
    x, residual = case.rows(20, torch.bfloat16), case.residual(20, torch.bfloat16)
    weight, fused = weight_on(device, case.weight), fusion_on(device, case.fusion)
    linear = BulkLinear(make_linear(weight, fused), weight, fused)
    found = linear(x.to(device), residual.to(device)).cpu().float()
    expected = case.reference()(x, residual).float()
    assert float((found - expected).norm() / expected.norm()) < 0.01
    if kind == "int8" and not full:
        assert torch.equal(found, expected)


@pytest.mark.parametrize("shape", [(3, 64), (70, 128), (33, 192)], ids=str)
def test_nf4_is_dequantised_to_what_the_kernels_multiply_by(
    device: torch.device, shape: tuple[int, int]
) -> None:
    from engine.kernels.cuda.linear.nf4 import dequantise

    weight = nf4.quantise(torch.randn(shape, generator=torch.Generator().manual_seed(1)))
    found = dequantise(weight.packed.to(device), weight.absmax.to(device), shape[0] * shape[1])
    assert torch.equal(found.cpu().view(shape), dequantise_rounded(weight).bfloat16())
