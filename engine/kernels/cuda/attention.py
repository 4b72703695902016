"""Attention of 1 to 16 rows of one sequence over its cache, same bits for any number of rows.

This module chooses the tiles and launches the kernels. The kernels, and why a row's bits do not depend on
the other rows, are in attention_kernel.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.kernels.cuda import KV_SPLIT, STREAMED_ROWS, kv_parts
from engine.kernels.cuda.kv_cache import LayerKV

_LEAST = 16
"""Least rows and columns of a tile on tensor cores."""
_ALL_REGISTERS = 255
"""Of a thread. With them trees spill nothing, and as many programs fit as with a tiling's own."""


@dataclass(frozen=True, slots=True)
class Tiling:
    """How the work is split. The bits depend on it, so a model uses one for all calls.

    It must follow from the shape of the heads alone, never from the number of rows or the length.
    """

    rows: int
    """Rows times query heads per KV head in a tile: at least 16, a power of two."""
    positions: int
    """Positions of a tile: at least 16, a power of two."""
    split: int = KV_SPLIT
    """Positions of a split, a multiple of ``positions``."""
    most_parts: int = 64
    """Programs of a tile and KV head. Split n belongs to part n modulo their number."""
    chunk: int = 16
    """Parts that are added up at once, a power of two."""
    warps: int = 4
    stages: int = 2
    registers: int | None = None
    """Most registers of a thread, if the assembler should not choose."""

    def parts(self, capacity: int) -> int:
        """Return the number of parts: no more than there can be splits."""
        return min(-(-capacity // self.split), self.most_parts)


def choose_tiling(heads: int, kv_heads: int, head_dim: int) -> Tiling:
    """Return a tiling that puts all query heads of a KV head in one tile, to read its cache once.

    Heads wider than 128 get shorter tiles, so that tiles of keys and values fit in the shared memory of
    a consumer card. Tiles of 64 rows, and of 32 with such heads, get 8 warps: with 4 their accumulators
    spill (Blackwell, and Ampere and Ada). Heads wider than 256 get the least tiles.
    """
    if head_dim > 256:
        return Tiling(_LEAST, _LEAST, most_parts=kv_parts(kv_heads), warps=8, registers=168)
    rows = min(max(_power(8 * heads // kv_heads), _LEAST), 64)
    wide = head_dim > 128
    warps = 8 if rows > (16 if wide else 32) and head_dim > 64 else 4
    return Tiling(
        rows,
        32 if wide else 64,
        most_parts=kv_parts(kv_heads),
        warps=warps,
        # Left alone, it spills a few bytes to take only 128 or 168 (9.0, 12.0).
        registers=(192 if wide else 208) if head_dim > 64 and warps == 4 else None,
    )


@dataclass(frozen=True, slots=True)
class Workspace:
    """Results of the parts; layers of one size share them.

    All are float32, named as in FlashAttention: ``acc`` (rows, heads, parts, head_dim) is the weighted
    sum of values, ``m_i`` (rows, heads, parts) the highest score, ``l_i`` (rows, heads, parts) the
    sum of weights.
    """

    acc: Tensor
    m_i: Tensor
    l_i: Tensor

    @classmethod
    def make(
        cls,
        *,
        heads: int,
        head_dim: int,
        capacity: int,
        tiling: Tiling,
        device: torch.device,
    ) -> Workspace:
        shape = (STREAMED_ROWS, heads, tiling.parts(capacity))
        acc = torch.empty(*shape, head_dim, dtype=torch.float32, device=device)
        m_i, l_i = torch.empty(2, *shape, dtype=torch.float32, device=device)
        return cls(acc, m_i, l_i)


def attend(
    query: Tensor,
    cache: LayerKV,
    length: Tensor,
    workspace: Workspace,
    tiling: Tiling,
    *,
    window: int | None = None,
    cap: float | None = None,
    causal: bool = True,
    sinks: Tensor | None = None,
    tree: Tensor | None = None,
) -> Tensor:
    """Return the attention of each row: ``(rows, heads * head_dim)`` in the dtype of ``query``.

    ``query (rows, heads, head_dim)`` bf16, already multiplied by the scale of the scores. Row i
    is at position ``length + i``; its key and value and those before are in ``cache``. It sees
    itself and the ``window - 1`` positions before it, or all of them; if not ``causal``, also the
    rows after it. Scores s become ``cap * tanh(s / cap)`` where there is a ``cap``. ``sinks`` (heads,)
    float32: a score of each head that takes part in the softmax, without a value. In a ``tree`` (see
    ``trees``) row i is stored there too, but its position is its depth's, and it sees its ancestors.

    Overwrites ``workspace``. Never waits for the device: ``length (1,)`` int32 is read there, and
    a program reads as many splits as that needs. Takes up to ``STREAMED_ROWS`` rows.
    """
    from engine.kernels.cuda import attention_kernel as kernels

    rows, heads, head_dim = query.shape
    kv_heads, capacity = cache.keys.shape[:2]
    parts = tiling.parts(capacity)
    _check(query, cache, workspace, parts)
    group, padded = heads // kv_heads, max(_power(head_dim), _LEAST)
    scaled = cache.key_scales is not None
    out = torch.empty(rows, heads * head_dim, dtype=query.dtype, device=query.device)
    kernels.attend_splits[(-(-rows * group // tiling.rows), kv_heads, parts)](
        query, cache.keys, cache.values,
        cache.key_scales if scaled else length,  # any pointer: it is not read
        cache.value_scales if scaled else length,
        length, workspace.acc, workspace.m_i, workspace.l_i, length if tree is None else tree,
        rows, capacity, parts,
        HEADS=heads, GROUP=group, WIDTH=head_dim, PADDED=padded, ROWS=tiling.rows,
        POSITIONS=tiling.positions, SPLIT=tiling.split, WINDOW=window or 0, CAP=cap or 0.0,
        CAUSAL=causal, SCALED=scaled, TREE=tree is not None, num_warps=tiling.warps,
        num_stages=tiling.stages, enable_fp_fusion=False,
        maxnreg=tiling.registers if tree is None else _ALL_REGISTERS,
    )  # fmt: skip
    kernels.combine_parts[(rows, heads)](
        workspace.acc, workspace.m_i, workspace.l_i, length if sinks is None else sinks, length, out,
        length if tree is None else tree, parts,
        HEADS=heads, WIDTH=head_dim, PADDED=padded, SPLIT=tiling.split, CHUNK=tiling.chunk,
        WINDOW=window or 0, CAUSAL=causal, SINKS=sinks is not None, TREE=tree is not None,
        num_warps=4, enable_fp_fusion=False,
    )  # fmt: skip
    return out


def _check(query: Tensor, cache: LayerKV, workspace: Workspace, parts: int) -> None:
    """Check the sizes and the contiguous memory that the kernels rely on."""
    rows, heads, head_dim = query.shape
    kv_heads = cache.keys.shape[0]
    assert heads % kv_heads == 0 and cache.keys.shape[2] == head_dim
    assert query.is_contiguous() and cache.keys.is_contiguous() and cache.values.is_contiguous()
    assert workspace.acc.shape[1:] == (heads, parts, head_dim)
    assert rows <= STREAMED_ROWS


def _power(number: int) -> int:
    """Return the least power of two >= ``number``."""
    return 1 << (number - 1).bit_length()
