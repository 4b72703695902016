"""Linear layers for 1..16 rows whose bits do not depend on how many rows there are.

A plain ``F.linear`` picks another BLAS path for one row (gemv) than for several, and sums in another
order. A token's logits would then depend on whether it was verified alone or beside drafted tokens,
and a greedy tie could break differently. There are three ways around it; the first that holds on this
machine is taken:

``PackedLinear``
    oneDNN with the weight reordered once. Measured (docs/log): same bits for 1..256 rows in fp32
    and bf16, and faster than ``F.linear``, which reorders the weight in every call.
``TiledLinear``
    ``F.linear`` on tiles of exactly 16 rows, the last one padded: one shape, hence one path.
``RowwiseLinear``
    ``F.linear`` row by row. Slow; every row reads all weights.

``make_linear`` trusts neither of the first two: it tests them with the weight it is given.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.values import MAX_ROWS

log = logging.getLogger(__name__)

_TRIAL_ROWS, _MAX_TRIAL_ROWS, _TRIAL_WORK = 64, 1024, 2**23
_CANCELLED_OUTPUTS = 32
SLICE_OUTPUTS = 1024
"""Outputs whose weights are dequantised at once."""


class Linear(Protocol):
    """Maps ``x (rows, in)`` to ``(rows, out)``; each row's bits are independent of the others."""

    def __call__(self, x: Tensor) -> Tensor: ...


class TiledLinear:
    """``x @ weight.T`` in tiles of 16 rows. The reference; works on any device."""

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight  # (out, in)

    def __call__(self, x: Tensor) -> Tensor:
        rows = x.shape[0]
        tiles = F.pad(x, (0, 0, 0, -rows % MAX_ROWS)).split(MAX_ROWS)
        return torch.cat([F.linear(tile, self.weight) for tile in tiles])[:rows]


class PackedLinear:
    """``x @ weight.T`` through oneDNN, the weight reordered once for small row counts."""

    def __init__(self, weight: Tensor) -> None:
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), MAX_ROWS)

    def __call__(self, x: Tensor) -> Tensor:
        result: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.weight, None, "none", [], "")
        return result


class RowwiseLinear:
    """``x @ weight.T`` one row at a time; works wherever ``F.linear`` gives the same bits twice.

    Each row is copied to memory of its own, which torch aligns: BLAS may choose its path by alignment.
    """

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight  # (out, in)

    def __call__(self, x: Tensor) -> Tensor:
        return torch.cat([F.linear(row.clone(), self.weight) for row in x.split(1)])


class SlicedLinear(ABC):
    """Multiplies in float32 by weights that every call dequantises slice by slice.

    Each slice is multiplied by a linear layer that was tested on this machine.
    """

    @abstractmethod
    def slices(self) -> Iterator[Tensor]:
        """Yield the weights of ``SLICE_OUTPUTS`` outputs, and of the rest: float32 (outputs, in)."""

    def __call__(self, x: Tensor) -> Tensor:
        """Map ``(rows, in)`` to ``(rows, out)`` in the dtype of ``x``."""
        rows = x.float()
        parts = [make_unpacked(part)(rows) for part in self.slices()]
        return torch.cat(parts, dim=-1).to(x.dtype)


class Biased:
    """Another linear layer, and the same bias added to each row."""

    def __init__(self, linear: Linear, bias: Tensor) -> None:
        self.linear, self.bias = linear, bias  # bias: (out,)

    def __call__(self, x: Tensor) -> Tensor:
        return self.linear(x) + self.bias


_Unpacked = type[TiledLinear] | type[RowwiseLinear]
_Key = tuple[int, int, torch.dtype, str]
_chosen: dict[_Key, type[PackedLinear] | _Unpacked] = {}
_chosen_unpacked: dict[_Key, _Unpacked] = {}


def make_linear(weight: Tensor) -> Linear:
    """Return the fastest linear layer for ``weight (out, in)`` that is row-independent here."""
    key = _key(weight)
    if key not in _chosen:
        _chosen[key] = PackedLinear if _packs(weight) else _choose_unpacked(weight)
    return _chosen[key](weight)


def make_unpacked(weight: Tensor) -> Linear:
    """Do as ``make_linear`` for a weight that is used once: reordering it would not pay."""
    key = _key(weight)
    if key not in _chosen_unpacked:
        _chosen_unpacked[key] = _choose_unpacked(weight)
    return _chosen_unpacked[key](weight)


def _key(weight: Tensor) -> _Key:
    """Return what a trial's result is stored by: shape, dtype and device type."""
    return weight.shape[0], weight.shape[1], weight.dtype, weight.device.type


def _choose_unpacked(weight: Tensor) -> _Unpacked:
    if is_row_independent(TiledLinear(weight), weight):
        return TiledLinear
    log.warning(
        "On this machine, results for weights of %d x %d in %s depend on the batch. "
        "Rows are computed one by one: the text stays right, but drafting does not "
        "help.",
        *weight.shape,
        weight.dtype,
    )
    return RowwiseLinear


def _packs(weight: Tensor) -> bool:
    """Return whether oneDNN multiplies by such weights here, row-independently."""
    if weight.device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    if weight.dtype is torch.bfloat16 and not _has_bf16():
        return False  # emulated: one row is summed in another order, which tiny weights can hide
    try:
        return is_row_independent(PackedLinear(weight), weight)
    except RuntimeError:  # no bf16 kernel without AVX-512, as on most laptops
        return False


def _has_bf16() -> bool:
    """Return whether the processor has instructions for bf16."""
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def is_row_independent(linear: Linear, weight: Tensor) -> bool:
    """Return whether ``linear`` gives a row the same bits for 1..16 and 64 rows, and in every slot.

    ``weight (outputs, in)`` is what ``linear`` multiplies by. A part of the outputs is enough; without
    them the trial is weak. It takes some milliseconds for a small weight, and runs once for each shape.
    """
    x = trial_rows(weight)
    reference = torch.cat([linear(part) for part in x.split(_TRIAL_ROWS)])
    return (
        all(
            torch.equal(linear(x[:rows]), reference[:rows])
            for rows in (*range(1, MAX_ROWS + 1), 40)
        )
        and all(  # shifted rows show every border between two paths within a tile
            torch.equal(linear(x[slot : slot + MAX_ROWS]), reference[slot : slot + MAX_ROWS])
            for slot in (1, 7)
        )
        and all(
            torch.equal(torch.cat([linear(part) for part in x.split(rows)]), reference)
            for rows in (MAX_ROWS, 5, 1)
        )
    )


def trial_rows(weight: Tensor) -> Tensor:
    """Return random rows (64 or more, in) for which the first outputs nearly vanish.

    Another order of summing changes the last of 24 bits, and rounding to bf16 leaves 8 of them: with
    plain random rows a processor without bf16 instructions passed, and differed once in 12,000 outputs.
    Where large terms cancel, only those last bits remain. Narrow weights have fewer orders to tell apart,
    and are cheap to multiply by: they get more rows.
    """
    generator = torch.Generator().manual_seed(0)
    width = weight.shape[1]
    count = min(max(_TRIAL_WORK // max(weight.numel(), 1), _TRIAL_ROWS), _MAX_TRIAL_ROWS)
    x = torch.randn(count, width, generator=generator, dtype=torch.float64)
    near = weight[: min(_CANCELLED_OUTPUTS, width // 4)].double().cpu()
    rows: Tensor = x - x @ torch.linalg.pinv(near) @ near
    return rows.to(weight)
