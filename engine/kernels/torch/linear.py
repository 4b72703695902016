"""Matrix products for 1..16 rows whose bits do not depend on how many rows there are.

A plain ``F.linear`` picks another BLAS path for one row (gemv) than for several, and sums in another
order: a token's logits would then depend on whether it was verified alone or beside drafted ones,
and a greedy tie could break differently. Three ways around it, the first that holds on this machine:

``PackedLinear``
    oneDNN with the weight reordered once. Measured (docs/log): same bits for 1..256 rows in fp32
    and bf16, and faster than ``F.linear``, which reorders the weight in every call.
``BlockedLinear``
    ``F.linear`` on blocks of exactly 16 rows, the last one padded: one shape, hence one path.
``SingleLinear``
    ``F.linear`` row by row: nothing stands beside a row. Slow; every row reads all weights.

``make_linear`` trusts neither of the first two: it checks the weight it is given.
"""

from __future__ import annotations

import logging
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.values import MAX_ROWS

log = logging.getLogger(__name__)

_TOGETHER = 64
_CANCELLED = 32
_TRIAL_WORK, _MOST_TRIED = 2**23, 1024


class Linear(Protocol):
    """Maps ``x (rows, in)`` to ``(rows, out)``; each row's bits are independent of the others."""

    def __call__(self, x: Tensor) -> Tensor: ...


class BlockedLinear:
    """``x @ weight.T`` in blocks of 16 rows. The reference; works on any device."""

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight  # (out, in)

    def __call__(self, x: Tensor) -> Tensor:
        rows = x.shape[0]
        blocks = F.pad(x, (0, 0, 0, -rows % MAX_ROWS)).split(MAX_ROWS)
        return torch.cat([F.linear(block, self.weight) for block in blocks])[:rows]


class PackedLinear:
    """``x @ weight.T`` through oneDNN, the weight reordered once for small row counts."""

    def __init__(self, weight: Tensor) -> None:
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), MAX_ROWS)

    def __call__(self, x: Tensor) -> Tensor:
        result: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.weight, None, "none", [], "")
        return result


class SingleLinear:
    """``x @ weight.T`` one row at a time; works wherever a product gives the same bits twice.

    Each row is copied to memory of its own, which torch aligns: a product may sum by alignment.
    """

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight  # (out, in)

    def __call__(self, x: Tensor) -> Tensor:
        return torch.cat([F.linear(row.clone(), self.weight) for row in x.split(1)])


class Biased:
    """Another product, and the same bias added to each row."""

    def __init__(self, linear: Linear, bias: Tensor) -> None:
        self.linear, self.bias = linear, bias  # bias: (out,)

    def __call__(self, x: Tensor) -> Tensor:
        return self.linear(x) + self.bias


_Unpacked = type[BlockedLinear] | type[SingleLinear]
_Key = tuple[int, int, torch.dtype, str]
_chosen: dict[_Key, type[PackedLinear] | _Unpacked] = {}
_chosen_unpacked: dict[_Key, _Unpacked] = {}


def make_linear(weight: Tensor) -> Linear:
    """The fastest product for ``weight (out, in)`` that is row-independent on this machine."""
    key = _key(weight)
    if key not in _chosen:
        _chosen[key] = PackedLinear if _packs(weight) else _choose_unpacked(weight)
    return _chosen[key](weight)


def make_unpacked(weight: Tensor) -> Linear:
    """As ``make_linear`` for a weight that is used once: reordering it would not pay."""
    key = _key(weight)
    if key not in _chosen_unpacked:
        _chosen_unpacked[key] = _choose_unpacked(weight)
    return _chosen_unpacked[key](weight)


def _key(weight: Tensor) -> _Key:
    """Products are tried once for each shape."""
    return weight.shape[0], weight.shape[1], weight.dtype, weight.device.type


def _choose_unpacked(weight: Tensor) -> _Unpacked:
    if is_row_independent(BlockedLinear(weight), weight):
        return BlockedLinear
    log.warning(
        "This machine multiplies by weights of %d x %d in %s with other bits when other rows stand "
        "beside a row. It is done row by row: the words stay right, but speculation does not pay.",
        *weight.shape,
        weight.dtype,
    )
    return SingleLinear


def _packs(weight: Tensor) -> bool:
    """Whether oneDNN multiplies by such weights here, and row-independently."""
    if weight.device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    if weight.dtype is torch.bfloat16 and not _has_bf16():
        return False  # emulated: one row is summed in another order, which tiny weights can hide
    try:
        return is_row_independent(PackedLinear(weight), weight)
    except RuntimeError:  # no bf16 kernel without AVX-512, as on most laptops
        return False


def _has_bf16() -> bool:
    """Whether the processor multiplies bf16 itself."""
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def is_row_independent(linear: Linear, weight: Tensor) -> bool:
    """Whether ``linear`` gives the same bits for 1..16 and 64 rows, and in every slot.

    ``weight (outputs, in)`` tells what it takes, and what it multiplies by: a few outputs are enough,
    none make a weak trial. Some milliseconds for a small one; asked once for each shape.
    """
    x = _trial(weight)
    reference = torch.cat([linear(part) for part in x.split(_TOGETHER)])
    return (
        all(
            torch.equal(linear(x[:rows]), reference[:rows])
            for rows in (*range(1, MAX_ROWS + 1), 40)
        )
        and all(  # moved by one, every border between two paths within a block shows
            torch.equal(linear(x[slot : slot + MAX_ROWS]), reference[slot : slot + MAX_ROWS])
            for slot in (1, 7)
        )
        and all(
            torch.equal(torch.cat([linear(part) for part in x.split(rows)]), reference)
            for rows in (MAX_ROWS, 5, 1)
        )
    )


def _trial(weight: Tensor) -> Tensor:
    """(64 or more, in): random rows for which the first outputs nearly vanish.

    Another order of summing changes the last of 24 bits, and rounding to bf16 leaves 8 of them: with
    plain random rows a processor without bf16 instructions passed, and differed once in 12,000 outputs.
    Where large terms cancel, what is left is all made of those last bits. Narrow weights have fewer
    orders to tell apart, and are cheap to multiply by: they get more rows.
    """
    generator = torch.Generator().manual_seed(0)
    width = weight.shape[1]
    count = min(max(_TRIAL_WORK // max(weight.numel(), 1), _TOGETHER), _MOST_TRIED)
    x = torch.randn(count, width, generator=generator, dtype=torch.float64)
    near = weight[: min(_CANCELLED, width // 4)].double().cpu()
    rows: Tensor = x - x @ torch.linalg.pinv(near) @ near
    return rows.to(weight)
