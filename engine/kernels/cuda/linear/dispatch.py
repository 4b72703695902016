"""Choose the kernel of a linear layer by its weight's format."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from engine.kernels.cuda.linear.fusion import (
    PLAIN,
    FusedLinear,
    Fusion,
    StackedLinear,
    finish_sums,
    normalise,
)
from engine.kernels.formats import AS_STORED, int8, nf4
from engine.kernels.formats.block_planes import (
    BlockPlanes,
    Form,
    join_planes,
    nf4_planes,
    to_planes,
)
from engine.kernels.formats.blocks import Blocks, Stacked, widen
from engine.kernels.formats.int8 import Int8Weight
from engine.kernels.torch.factory import Embedding, plain_embedding
from engine.kernels.torch.int8 import Int8Embedding

Part = Tensor | Int8Weight | BlockPlanes
"""``(out, in)`` in bf16, or quantised."""
Weight = Part | tuple[Part, ...]
"""A part, or several, the outputs of the first above those of the next: GGUF files mix formats."""

DTYPE = torch.bfloat16
"""The dtype of hidden states."""


def convert_weight(quantization: str, weight: Stacked, device: torch.device) -> Weight:
    """Convert ``weight (out, in)`` to the format ``quantization``, on ``device``.

    Where rows are no whole groups of NF4, which the kernels need, it stays in bf16.
    """
    if quantization == AS_STORED:
        return _as_stored(weight if isinstance(weight, tuple) else (weight,), device)
    wide = widen(weight)
    if quantization == "int8":
        return int8.quantise(wide)
    if quantization == "nf4" and wide.shape[1] % nf4.GROUP == 0:
        return nf4_planes(nf4.quantise(wide))
    return wide.to(DTYPE)


def _as_stored(parts: Sequence[Tensor | Blocks], device: torch.device) -> Weight:
    """Return ``parts`` in planes, neighbours of one form joined; those that are floats in bf16."""

    def form(part: Tensor | BlockPlanes) -> Form | None:
        return part.form if isinstance(part, BlockPlanes) else None

    made = [
        to_planes(part, device) if isinstance(part, Blocks) else part.to(device, DTYPE)
        for part in parts
    ]
    joined = tuple(_joined(list(alike)) for _, alike in itertools.groupby(made, form))
    return joined[0] if len(joined) == 1 else joined


def _joined(parts: Sequence[Tensor | BlockPlanes]) -> Part:
    """Return parts of one form as one."""
    if len(parts) == 1:
        return parts[0]
    tensors = [part for part in parts if isinstance(part, Tensor)]
    if tensors:
        return torch.cat(tensors)
    return join_planes([part for part in parts if isinstance(part, BlockPlanes)])


def shape_of(weight: Weight) -> tuple[int, int]:
    """Return (out, in)."""
    if isinstance(weight, tuple):
        return sum(shape_of(part)[0] for part in weight), shape_of(weight[0])[1]
    outputs, inputs = (weight.values if isinstance(weight, Int8Weight) else weight).shape
    return outputs, inputs


def codes_of(weight: Weight) -> list[str]:
    """Return what the kernels of blocks depend on, for people; nothing for other weights."""
    if isinstance(weight, tuple):
        return [f"{shape_of(part)[0]} {' '.join(codes_of(part)) or 'floats'}" for part in weight]
    if not isinstance(weight, BlockPlanes):
        return []
    form = weight.form
    return [f"{form.bits} bits for {form.group}{' with lows' if form.lows else ''}"]


def take_outputs(weight: Weight, *parts: slice) -> Weight:
    """Return the weight of some outputs."""
    if isinstance(weight, tuple):
        return tuple(_outputs_of_parts(weight, parts))
    if isinstance(weight, BlockPlanes):
        return join_planes([weight.outputs(part) for part in parts])
    if isinstance(weight, Int8Weight):
        return Int8Weight(_taken(weight.values, parts), _taken(weight.scale, parts))
    return _taken(weight, parts)


def _outputs_of_parts(weight: tuple[Part, ...], parts: Sequence[slice]) -> Iterator[Part]:
    """Yield what ``parts``, with start and stop, have of each part of the weight."""
    for wanted in parts:
        first = 0
        for part in weight:
            count, _ = shape_of(part)
            start, stop = max((wanted.start or 0) - first, 0), min(wanted.stop - first, count)
            if start < stop:
                taken = take_outputs(part, slice(start, stop))
                assert not isinstance(taken, tuple)
                yield taken
            first += count


def _taken(rows: Tensor, parts: tuple[slice, ...]) -> Tensor:
    return torch.cat([rows[part] for part in parts])


def embedding_of(weight: Weight) -> Embedding:
    """Return the embedding with this table; the head of a tied model shares the memory."""
    match weight:
        case Int8Weight():
            return Int8Embedding(weight, DTYPE)
        case BlockPlanes():
            return lambda ids: weight.dequantise(ids, exact=True)
        case Tensor():
            return plain_embedding(weight)
    raise TypeError("an embedding in several formats")


def make_linear(weight: Weight, fusion: Fusion = PLAIN) -> FusedLinear:
    """Return the linear layer with ``weight`` and ``fusion`` of at most ``STREAMED_ROWS`` rows."""
    if isinstance(weight, tuple):
        return JoinedLinear([make_linear(part) for part in weight], fusion)
    return make_stacked(weight, fusion)


def make_stacked(weight: Part, fusion: Fusion, chosen: int = 0) -> StackedLinear:
    """Return the kernel's linear layer; ``chosen``: of the stacked weights of experts, how many a token
    has, of 16 tokens at most."""
    from engine.kernels.cuda.linear import streamed

    match weight:
        case Int8Weight():
            return streamed.Int8Linear(weight, fusion, chosen=chosen)
        case BlockPlanes():
            return streamed.BlockLinear(weight, fusion, chosen=chosen)
    return streamed.Bf16Linear(weight, fusion, chosen=chosen)


class JoinedLinear:
    """A linear layer whose outputs have different formats: a product for each, then what is fused."""

    def __init__(self, parts: Sequence[FusedLinear], fusion: Fusion) -> None:
        self.parts, self.fusion = parts, fusion

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        inputs = x if self.fusion.norm is None else normalise(x, self.fusion.norm)
        wide = inputs.float()  # sums are rounded once, at the end
        sums = torch.cat([part(wide) for part in self.parts], 1)
        return finish_sums(sums, self.fusion, residual, x.dtype)
