"""Attention of 1 to 16 rows of one sequence over its cache, same bits for any number of rows.

The kernels stand in attention_kernel.py, with the reasons for the bits; here are the choice of their
tiles, their launch, and the torch reference.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.kernels.cuda import KV_SPLIT
from engine.kernels.cuda.kv_cache import LayerKV
from engine.values import MAX_ROWS

_LEAST = 16
"""The tensor cores' tiles have at least so many rows and columns."""


@dataclass(frozen=True, slots=True)
class Tiling:
    """How the work is cut. Bits depend on it, so a model keeps one for all calls.

    It must come from what never changes while a model is loaded (the shape of its heads), never from
    the number of rows or the length.
    """

    rows: int
    """Rows times query heads per KV head, in a tile: at least 16, a power of two."""
    positions: int
    """Positions of a tile: at least 16, a power of two."""
    split: int = KV_SPLIT
    """Positions of a split, a multiple of ``positions``."""
    chunk: int = 16
    """Splits that are added up at once, a power of two."""
    warps: int = 4
    stages: int = 2

    def splits(self, capacity: int) -> int:
        return -(-capacity // self.split)


def choose_tiling(heads: int, kv_heads: int, head_dim: int) -> Tiling:
    """Eight rows with all query heads of a KV head in one tile, so that its cache is read once.

    Heads wider than 128 get shorter tiles, so that those of keys and values fit in the shared memory
    of a consumer's card; 64 lanes get 8 warps, since with 4 their sums spill on Blackwell.
    """
    rows = min(max(_power(8 * heads // kv_heads), _LEAST), 64)
    wide = head_dim > 128
    return Tiling(rows, 32 if wide else 64, warps=8 if rows > 32 and head_dim > 64 else 4)


@dataclass(frozen=True, slots=True)
class Workspace:
    """What the splits leave for their combination; all layers of a model share one.

    ``mixed`` (rows, heads, splits, head_dim), ``peak`` and ``norm`` (rows, heads, splits), float32.
    """

    mixed: Tensor
    peak: Tensor
    norm: Tensor

    @classmethod
    def make(
        cls,
        *,
        heads: int,
        head_dim: int,
        capacity: int,
        tiling: Tiling,
        device: torch.device,
        rows: int = MAX_ROWS,
    ) -> Workspace:
        shape = (rows, heads, tiling.splits(capacity))
        mixed = torch.empty(*shape, head_dim, dtype=torch.float32, device=device)
        peak, norm = torch.empty(2, *shape, dtype=torch.float32, device=device)
        return cls(mixed, peak, norm)


def attend(
    query: Tensor,
    cache: LayerKV,
    length: Tensor,
    workspace: Workspace,
    tiling: Tiling,
    *,
    window: int | None = None,
    cap: float | None = None,
) -> Tensor:
    """What each row sees, weighted: ``(rows, heads * head_dim)`` in the dtype of ``query``.

    ``query (rows, heads, head_dim)`` bf16, already multiplied by the scale of the scores. Row i
    stands at position ``length + i``; its key and value and those before are in ``cache``. It sees
    itself and the ``window - 1`` positions before it, or all of them. Scores s become
    ``cap * tanh(s / cap)`` where there is a ``cap``.

    Overwrites ``workspace``. Never waits for the device: ``length (1,)`` int32 is read there, and
    the grid follows the capacity. More rows than 16 are right too, where the workspace holds them.
    """
    from engine.kernels.cuda import attention_kernel as kernels

    rows, heads, head_dim = query.shape
    kv_heads, capacity = cache.keys.shape[:2]
    splits = tiling.splits(capacity)
    _check(query, cache, workspace, splits)
    group, padded = heads // kv_heads, max(_power(head_dim), _LEAST)
    scaled = cache.key_scales is not None
    out = torch.empty(rows, heads * head_dim, dtype=query.dtype, device=query.device)
    kernels.attend_splits[(-(-rows * group // tiling.rows), kv_heads, splits)](
        query,
        cache.keys,
        cache.values,
        cache.key_scales if scaled else length,  # any pointer: it is not read
        cache.value_scales if scaled else length,
        length,
        workspace.mixed,
        workspace.peak,
        workspace.norm,
        rows,
        capacity,
        splits,
        HEADS=heads,
        GROUP=group,
        WIDTH=head_dim,
        PADDED=padded,
        ROWS=tiling.rows,
        POSITIONS=tiling.positions,
        SPLIT=tiling.split,
        WINDOW=window or 0,
        CAP=cap or 0.0,
        SCALED=scaled,
        num_warps=tiling.warps,
        num_stages=tiling.stages,
        enable_fp_fusion=False,
    )
    kernels.combine_splits[(rows, heads)](
        workspace.mixed,
        workspace.peak,
        workspace.norm,
        length,
        out,
        splits,
        HEADS=heads,
        WIDTH=head_dim,
        PADDED=padded,
        SPLIT=tiling.split,
        CHUNK=tiling.chunk,
        WINDOW=window or 0,
        num_warps=4,
        enable_fp_fusion=False,
    )
    return out


def attend_reference(
    query: Tensor,
    cache: LayerKV,
    length: Tensor,
    *,
    window: int | None = None,
    cap: float | None = None,
) -> Tensor:
    """``attend`` by the definition, in float32, row by row: so the same bits for any rows beside."""
    rows, heads, head_dim = query.shape
    keys, values = (
        _unpacked(cache.keys, cache.key_scales),
        _unpacked(cache.values, cache.value_scales),
    )
    kv_heads = keys.shape[0]
    start, out = int(length), []
    for row in range(rows):
        seen = slice(0 if window is None else max(start + row - window + 1, 0), start + row + 1)
        grouped = query[row].float().view(kv_heads, heads // kv_heads, head_dim)
        scores = grouped @ keys[:, seen].transpose(1, 2)  # (kv_heads, group, seen)
        if cap is not None:
            scores = cap * torch.tanh(scores / cap)
        out.append((scores.softmax(-1) @ values[:, seen]).view(-1))
    return torch.stack(out).to(query.dtype)


def _unpacked(stored: Tensor, scales: Tensor | None) -> Tensor:
    return stored.float() if scales is None else stored.float() * scales[:, :, None]


def _check(query: Tensor, cache: LayerKV, workspace: Workspace, splits: int) -> None:
    """The kernels take contiguous memory and sizes on trust."""
    rows, heads, head_dim = query.shape
    kv_heads = cache.keys.shape[0]
    assert heads % kv_heads == 0 and cache.keys.shape[2] == head_dim
    assert query.is_contiguous() and cache.keys.is_contiguous() and cache.values.is_contiguous()
    assert workspace.mixed.shape[1:] == (heads, splits, head_dim)
    assert rows <= workspace.mixed.shape[0], "the workspace was made for fewer rows"


def _power(number: int) -> int:
    """The least power of two >= ``number``."""
    return 1 << (number - 1).bit_length()
