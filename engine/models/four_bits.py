"""A model's matrices rounded to four bits as they are loaded: what each is held in, and what all take."""

from __future__ import annotations

import math

from engine.kernels.formats.block_formats import LAYOUTS
from engine.kernels.formats.block_rounding import to_blocks
from engine.kernels.formats.blocks import Weight
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.models.weights import Names, TensorSource, WeightSource

_WIDE = "q8_0"
"""Of the embedding and the head: their errors go straight into the words, and lookups cost nothing."""
_MOST, _OTHERS = "q4_k", "q4_1"
"""For rows that are whole blocks of the first, which takes a tenth less; and for all others."""
IN_FOUR_BITS = (_WIDE, _MOST, _OTHERS)
"""All of these."""


def in_four_bits(source: TensorSource, names: Names) -> WeightSource:
    """``source`` with its matrices, floats of any dtype, in blocks; see ``block_rounding``."""

    def fetch(name: str) -> Weight:
        found = source(name)
        if found.dim() < 2:
            return found
        return to_blocks(_format(name, found.shape[1], names), found)

    return fetch


def bytes_in_four_bits(checkpoint: Checkpoint) -> int:
    """What the blocks of all matrices take, and all other numbers in fp32."""
    names = Names.among(checkpoint.tensors)
    left_out = names.head if checkpoint.repeats_embedding else None
    return sum(
        _bytes(name, info.shape, names)
        for name, info in checkpoint.tensors.items()
        if name != left_out
    )


def formats_in_four_bits(checkpoint: Checkpoint) -> tuple[str, ...]:
    """What its matrices are held in, sorted."""
    names = Names.among(checkpoint.tensors)
    matrices = [
        (n, info.shape[1]) for n, info in checkpoint.tensors.items() if len(info.shape) == 2
    ]
    return tuple(sorted({_format(name, inputs, names) for name, inputs in matrices}))


def _format(name: str, inputs: int, names: Names) -> str:
    if name in (names.embedding, names.head):
        return _WIDE
    return _OTHERS if inputs % LAYOUTS[_MOST].inputs else _MOST


def _bytes(name: str, shape: tuple[int, ...], names: Names) -> int:
    count = math.prod(shape)
    if len(shape) != 2:
        return 4 * count
    layout = LAYOUTS[_format(name, shape[1], names)]
    return count * layout.size // layout.inputs
