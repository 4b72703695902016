"""Choose the kernel of a linear layer by its weight's format."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.kernels.cuda.linear.fusion import PLAIN, FusedLinear, Fusion
from engine.kernels.cuda.linear.reference import FloatReference
from engine.kernels.formats import int8, nf4
from engine.kernels.formats.int8 import Int8Weight
from engine.kernels.formats.nf4 import GROUP, Nf4Weight
from engine.kernels.torch.factory import Embedding, plain_embedding
from engine.kernels.torch.int8 import Int8Embedding
from engine.kernels.torch.nf4 import Nf4Embedding

Weight = Tensor | Int8Weight | Nf4Weight
"""``(out, in)`` in bf16, or quantised."""

DTYPE = torch.bfloat16
"""The dtype of hidden states."""


def convert_weight(quantization: str, weight: Tensor) -> Weight:
    """Convert ``weight (out, in)`` to the format ``quantization``, on its device."""
    if quantization == "int8":
        return int8.quantise(weight)
    return nf4.quantise(weight) if quantization == "nf4" else weight.to(DTYPE)


def shape_of(weight: Weight) -> tuple[int, int]:
    """Return (out, in)."""
    outputs, inputs = (weight.values if isinstance(weight, Int8Weight) else weight).shape
    return outputs, inputs


def take_outputs(weight: Weight, *parts: slice) -> Weight:
    """Return the weight of some outputs; of NF4, whose rows are whole groups."""
    if isinstance(weight, Int8Weight):
        return Int8Weight(_taken(weight.values, parts), _taken(weight.scale, parts))
    if isinstance(weight, Tensor):
        return _taken(weight, parts)
    outputs, width = weight.shape
    assert width % GROUP == 0
    packed = _taken(weight.packed.view(outputs, -1), parts)
    absmax = _taken(weight.absmax.view(outputs, -1), parts)
    return Nf4Weight(packed.view(-1), absmax.view(-1), (len(packed), width))


def _taken(rows: Tensor, parts: tuple[slice, ...]) -> Tensor:
    return torch.cat([rows[part] for part in parts])


def embedding_of(weight: Weight) -> Embedding:
    """Return the embedding with this table; the head of a tied model shares the memory."""
    if isinstance(weight, Int8Weight):
        return Int8Embedding(weight, DTYPE)
    return Nf4Embedding(weight, DTYPE) if isinstance(weight, Nf4Weight) else plain_embedding(weight)


def make_linear(weight: Weight, fusion: Fusion = PLAIN) -> FusedLinear:
    """Return the linear layer with ``weight`` and ``fusion`` of at most ``STREAMED_ROWS`` rows.

    NF4 whose rows are not whole groups has no kernel. It gets the reference, which is row-independent
    too, but slow.
    """
    from engine.kernels.cuda.linear import streamed

    if isinstance(weight, Int8Weight):
        return streamed.Int8Linear(weight, fusion)
    if isinstance(weight, Tensor):
        return streamed.Bf16Linear(weight, fusion)
    if weight.shape[1] % GROUP:
        return FloatReference(weight, fusion)
    return streamed.Nf4Linear(weight, fusion)
