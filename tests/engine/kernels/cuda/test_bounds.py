"""Interpreted kernels may not touch what lies beside their tensors (``tests.support.interpreter``)."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton")

import triton
import triton.language as tl

from tests.engine.kernels.cuda.where import INTERPRETED

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.usefixtures("device"),
    pytest.mark.skipif(not INTERPRETED, reason="compute-sanitizer does this on a device"),
]


@triton.jit
def copy(source: tl.tensor, target: tl.tensor, read: int, written: int, SIZE: tl.constexpr) -> None:
    """Copy some numbers, perhaps too many."""
    each = tl.arange(0, SIZE)
    values = tl.load(source + each, mask=each < read, other=0.0)
    tl.store(target + each, values, mask=each < written)


@pytest.mark.parametrize(
    ("read", "written", "outside"), [(100, 100, 0), (101, 100, 1), (9, 128, 28)]
)
def test_a_launch_that_leaves_its_tensors_fails(read: int, written: int, outside: int) -> None:
    """Also where the memory beside a tensor is that of a larger one, of which it is a part."""
    source, target = torch.ones(300)[:100], torch.zeros(300)[:100]
    if not outside:
        copy[(1,)](source, target, read, written, SIZE=128)
        assert torch.equal(source, target)
        return
    with pytest.raises(Exception, match=f"IndexError.*{outside} of .* addresses are outside"):
        copy[(1,)](source, target, read, written, SIZE=128)
