"""Round a model's matrices to four bits as they are loaded: formats and sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from engine.kernels.formats.block_formats import LAYOUTS
from engine.kernels.formats.block_rounding import to_blocks
from engine.kernels.formats.blocks import Weight
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.models.tensor_shapes import ROUTERS, Names
from engine.models.weight_loading import TensorSource, WeightSource

_WIDE = "q8_0"
"""For the embedding and the head: their errors affect the output most, and lookups are cheap."""
_MOST, _OTHERS = "q4_k", "q4_1"
"""The first, a tenth smaller, for rows that are a multiple of its blocks; the second for others."""
IN_FOUR_BITS = (_WIDE, _MOST, _OTHERS)


def in_four_bits(source: TensorSource, names: Names) -> WeightSource:
    """Return ``source`` with its matrices rounded to blocks; see ``block_rounding``."""

    def fetch(name: str) -> Weight:
        tensor = source(name)
        format = _format(name, tensor.shape, names)
        return tensor if format is None else to_blocks(format, tensor)

    return fetch


def bytes_in_four_bits(checkpoint: Checkpoint) -> int:
    """Return the bytes of all matrices in blocks, and of all other numbers in fp32."""
    names = Names.among(checkpoint.tensors)
    tied = names.head if checkpoint.repeats_embedding else None
    return sum(
        _bytes(name, info.shape, names) for name, info in checkpoint.tensors.items() if name != tied
    )


def formats_in_four_bits(checkpoint: Checkpoint) -> tuple[str, ...]:
    """Return the formats of its matrices, sorted."""
    names = Names.among(checkpoint.tensors)
    formats = {_format(name, info.shape, names) for name, info in checkpoint.tensors.items()}
    return tuple(sorted(format for format in formats if format is not None))


def _format(name: str, shape: Sequence[int], names: Names) -> str | None:
    """Return the format of a matrix; None of other tensors, which stay as they are."""
    if len(shape) != 2 or name.endswith(ROUTERS):  # a convolution has three axes
        return None
    if name in (names.embedding, names.head):
        return _WIDE
    return _OTHERS if shape[1] % LAYOUTS[_MOST].inputs else _MOST


def _bytes(name: str, shape: tuple[int, ...], names: Names) -> int:
    format, count = _format(name, shape, names), math.prod(shape)
    return 4 * count if format is None else count * LAYOUTS[format].size // LAYOUTS[format].inputs
