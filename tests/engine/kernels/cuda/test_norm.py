"""Norms of whole rows: near torch's, with bits that do not depend on other rows."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton")

from engine.kernels.cuda.linear.fusion import Norm, normalise
from engine.kernels.cuda.references import normalise_reference
from tests.engine.kernels.cuda.cases import near
from tests.engine.kernels.cuda.where import INTERPRETED

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("width", [3, 48, 1100] if INTERPRETED else [3, 48, 1100, 4096, 5376])
@pytest.mark.parametrize("added", [False, True], ids=["alone", "added"])
def test_a_row_is_normalised_and_nothing_beside_it_matters(
    device: torch.device, dtype: torch.dtype, width: int, added: bool
) -> None:
    generator = torch.Generator().manual_seed(width)
    x = (torch.randn(16, width, generator=generator) * torch.logspace(-3, 3, 16)[:, None]).to(dtype)
    residual = torch.randn(16, width, generator=generator).to(dtype) if added else None
    norm = Norm(1 + 0.1 * torch.randn(width, generator=generator), 1e-5)
    there = Norm(norm.weight.to(device), norm.epsilon)

    def run(rows: slice) -> torch.Tensor:
        beside = None if residual is None else residual[rows].to(device)
        return normalise(x[rows].to(device), there, beside)

    whole = run(slice(None))
    assert near(whole, normalise_reference(x, norm, residual))
    for rows in (slice(0, 1), slice(0, 5), slice(3, 16), slice(15, 16)):
        assert torch.equal(run(rows), whole[rows])
