"""What recurrent layers keep of a sequence on a device, and the launch of their kernel.

A step may compute rows that are rejected later, and only the device knows how many. So a layer keeps its
state after rows that are certain, and the inputs of the rows since, which the next step takes in again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.values import MAX_ROWS

KEPT_ROWS = 64
"""Rows whose inputs are kept: of the round before, of a draft that is computed step by step, and what a
convolution needs before them."""
_BLOCK = 32
"""Values of a program; more programs than multiprocessors, whose states are in registers."""


@dataclass(frozen=True, slots=True)
class LayerMemory:
    """What one layer keeps.

    ``state (heads, key_dim, value_dim)`` float32, after ``base (1,)`` int32 rows; empty without one.
    ``rows (KEPT_ROWS, width)`` bf16: outputs of the linear layer, at their positions modulo KEPT_ROWS.

    Each layer has its own base, so that a step that fails between two layers leaves all of them right.
    """

    base: Tensor
    state: Tensor
    rows: Tensor


class Memories:
    """What all recurrent ``layers`` keep of one sequence, by their index.

    ``committed`` (1,) int32 on the device: how many rows of the sequence are certain. A step stores the
    states after so many.
    """

    def __init__(
        self, shapes: Mapping[int, tuple[tuple[int, ...], int]], device: torch.device
    ) -> None:
        """``shapes``: of each layer's state and the width of its rows, see ``LayerMemory``."""
        # Rows of one width are one tensor, so that few operations move them.
        self._rows = {
            width: torch.zeros(count, KEPT_ROWS, width, dtype=torch.bfloat16, device=device)
            for width, count in Counter(width for _, width in shapes.values()).items()
        }
        own = {width: iter(rows) for width, rows in self._rows.items()}
        none = torch.zeros(1, dtype=torch.int32, device=device)
        self.committed, self.layers = none, dict[int, LayerMemory]()
        for index, (shape, width) in shapes.items():
            state = torch.zeros(shape, device=device)
            self.layers[index] = LayerMemory(none.clone(), state, next(own[width]))

    @property
    def tensors(self) -> list[Tensor]:
        """Return all that a step changes."""
        layers = self.layers.values()
        return [part for each in layers for part in (each.base, each.state, each.rows)]

    def base(self) -> int:
        """Return how many rows states have taken in; wait for the device."""
        return int(torch.cat([each.base for each in self.layers.values()]).max())

    def begin(self, length: Tensor, rows: int, tree: Tensor | None = None) -> None:
        """Begin a step of ``rows`` after ``length`` positions; ``tree``: see ``trees``."""
        self.length, self.tree = length, tree
        numbers = torch.arange(max(rows - KEPT_ROWS, 0), rows, device=length.device)
        self._places = (length + numbers) % KEPT_ROWS

    def keep(self, memory: LayerMemory, inputs: Tensor) -> None:
        """Keep the inputs of the step's last rows in one of ``layers``, which has taken them in, and has
        stored its state; see ``take_in``."""
        memory.rows.index_copy_(0, self._places, inputs[-KEPT_ROWS:])
        torch.add(self.committed, max(len(inputs) - MAX_ROWS, 0), out=memory.base)

    def move(self, start: Tensor, rows: Tensor) -> None:
        """Keep these of the rows from ``start`` on as the first; see ``StaticKVCache.move``."""
        places = torch.arange(len(rows), device=start.device)
        there, source = ((start + each) % KEPT_ROWS for each in (places, rows))
        for each in self._rows.values():
            each.index_copy_(1, there, each.index_select(1, source))

    def copy_(self, tensors: list[Tensor]) -> None:
        """Become what ``tensors`` were, of this or another sequence's."""
        for own, its in zip(self.tensors, tensors, strict=True):
            own.copy_(its)

    def clear(self) -> None:
        """Become those of a sequence without rows."""
        for each in self.tensors:
            each.zero_()


@dataclass(frozen=True, slots=True)
class Recurrence:
    """The numbers of a layer, and where a row of its linear layer's outputs has what.

    taps (kernel, channels), bias (channels,) or None: of the convolution
    decay, rate_bias, skip (heads,)   A, and what is added to rates; D. None: a gated delta net
    first                             column of the first channel
    query, key, value                 their first channels
    rate                              column of the first rate; those of betas follow
    key_heads, tiled                  head h has key head h % key_heads if ``tiled``; else they share
                                      one with their neighbours
    """

    taps: Tensor
    bias: Tensor | None
    decay: Tensor
    rate_bias: Tensor
    skip: Tensor | None
    first: int
    query: int
    key: int
    value: int
    rate: int
    key_heads: int
    tiled: bool = False


def take_in(layer: Recurrence, inputs: Tensor, memory: LayerMemory, memories: Memories) -> Tensor:
    """Return the outputs of a step's rows: float32 (rows, heads, value_dim).

    ``inputs (rows, width)`` bf16 are those of the linear layer. Stores the state after all certain rows;
    of more than 16 rows, all but the last 16 are. Before a tree all rows are certain; its first row
    stores the state, and the others begin with that.
    """
    from engine.kernels.cuda.recurrence_kernel import take_in_rows

    rows, width = inputs.shape
    heads, key_dim, value_dim = memory.state.shape
    kernel, channels = layer.taps.shape
    result = torch.empty(rows, heads, value_dim, device=inputs.device)
    block = min(_BLOCK, 1 << (value_dim - 1).bit_length())
    launches = [(memories.tree, rows, 1)]
    if memories.tree is not None:
        launches = [(None, 1, 1), (memories.tree, rows, rows - 1)]
    for tree, count, programs in launches:
        take_in_rows[(-(-value_dim // block), heads, programs)](
            inputs, memory.rows, layer.taps, layer.bias, layer.decay, layer.rate_bias, layer.skip,
            memory.state, result, memories.length, memory.base, memories.committed, tree, count,
            width, key_dim**-0.5,
            FIRST=layer.first, QUERY=layer.query, KEY=layer.key, VALUE=layer.value, RATE=layer.rate,
            CHANNELS=channels, KERNEL=kernel, KEY_HEADS=layer.key_heads,
            GROUP=heads // layer.key_heads, TILED=layer.tiled, KEY_DIM=key_dim, VALUE_DIM=value_dim,
            PADDED=1 << (key_dim - 1).bit_length(), BLOCK=block, KEPT=KEPT_ROWS, num_warps=4,
            enable_fp_fusion=False,
        )  # fmt: skip
    return result
