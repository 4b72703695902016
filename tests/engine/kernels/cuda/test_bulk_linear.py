"""Linear layers of many rows: near the kernels, int8 with their bits; and NF4 dequantised for them."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton")

from engine.kernels.cuda.linear import bulk
from engine.kernels.cuda.linear.bulk import BulkLinear
from engine.kernels.cuda.linear.tiles import Kind
from engine.kernels.formats import nf4
from engine.kernels.formats.block_planes import BlockPlanes, nf4_planes
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
    linear = BulkLinear(weight, fused)
    found = linear(x.to(device), residual.to(device)).cpu().float()
    expected = case.reference()(x, residual).float()
    assert float((found - expected).norm() / expected.norm()) < 0.01
    if kind == "int8" and not full:
        assert torch.equal(found, expected)


@pytest.mark.parametrize("shape", [(3, 64), (70, 128), (33, 192)], ids=str)
def test_nf4_is_dequantised_to_what_the_kernels_multiply_by(
    device: torch.device, shape: tuple[int, int]
) -> None:
    from engine.kernels.cuda.linear.blocks import dequantise

    kept = nf4.quantise(torch.randn(shape, generator=torch.Generator().manual_seed(1)))
    weight = weight_on(device, nf4_planes(kept))
    assert isinstance(weight, BlockPlanes)
    found = dequantise(weight, 1, shape[0]).cpu()
    codes = nf4.CODE.bfloat16().float()[nf4.unpack(kept.packed).int()].view(-1, 64)
    expected = (codes * kept.absmax.float()[:, None]).bfloat16().view(shape)
    assert torch.equal(found, expected[1:])
    assert torch.equal(weight.dequantise().cpu(), expected)
