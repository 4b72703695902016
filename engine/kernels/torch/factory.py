"""Make a model's weights into linear layers and embeddings: the seam between models and kernels.

A model gets ``Kernels`` and knows nothing of the format behind them. The compiled step and the CUDA
kernels multiply by a GGUF file's blocks; the kernels here dequantise them first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.kernels.formats import AS_STORED, FORMATS, int8, nf4
from engine.kernels.formats.block_planes import to_planes
from engine.kernels.formats.blocks import Blocks, Stacked, Weight, widen
from engine.kernels.torch.blocks import BlockLinear
from engine.kernels.torch.int8 import Int8Embedding, make_int8
from engine.kernels.torch.linear import Linear, make_linear
from engine.kernels.torch.nf4 import Nf4Embedding, Nf4Linear

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
"""Dtypes of unquantised weights, by ``formats.UNQUANTISED``."""

Embedding = Callable[[Tensor], Tensor]
"""Maps token ids ``(rows,)`` to ``(rows, hidden)``."""


@dataclass(frozen=True, slots=True)
class Kernels:
    """``linear`` takes a weight (out, in), ``embedding`` a table (vocabulary, hidden).

    ``exact`` makes the linear layer of a router, for float32 rows: rounded, it would choose other
    experts. ``experts`` takes the linear layers of so many experts, each made when its turn comes.
    ``stacked``: one linear layer is made of all experts of a layer.
    """

    linear: Callable[[Stacked], Linear]
    embedding: Callable[[Weight], Embedding]
    exact: Callable[[Tensor], Linear] = lambda weight: make_linear(weight.float())
    experts: Callable[[Iterator[Linear], int], Linear | tuple[Linear, ...]] = lambda linears, _: (
        tuple(linears)
    )
    stacked: bool = False


def plain_embedding(weight: Weight) -> Embedding:
    """Return a lookup in ``weight (vocabulary, hidden)``, in its dtype."""
    table = widen(weight)
    return lambda ids: F.embedding(ids, table)


_CPU = torch.device("cpu")
PLAIN = Kernels(lambda weight: make_linear(widen(weight)), plain_embedding)
"""Unquantised weights, in fp32 or bf16."""


def kernels_for(quantization: str, dtype: torch.dtype, device: torch.device = _CPU) -> Kernels:
    """Return the kernels of ``quantization`` for a model that computes in ``dtype`` on ``device``.

    They keep nothing of the float weight they are given, unless it is unquantised.
    """
    if quantization == AS_STORED:
        return Kernels(
            linear=lambda weight: BlockLinear(weight, device),
            embedding=lambda table: _block_embedding(table, dtype, device),
            exact=lambda weight: make_linear(weight.to(device, torch.float32)),
        )
    assert quantization in FORMATS
    if quantization == "int8":
        return Kernels(
            linear=lambda weight: make_int8(int8.quantise(widen(weight))),
            embedding=lambda weight: Int8Embedding(int8.quantise(widen(weight)), dtype),
        )
    if quantization == "nf4":
        return Kernels(
            linear=lambda weight: Nf4Linear(nf4.quantise(widen(weight))),
            embedding=lambda weight: Nf4Embedding(nf4.quantise(widen(weight)), dtype),
        )
    return PLAIN


def _block_embedding(table: Weight, dtype: torch.dtype, device: torch.device) -> Embedding:
    if not isinstance(table, Blocks):
        return plain_embedding(table.to(dtype))
    planes = to_planes(table, device)
    return lambda ids: planes.dequantise(ids).to(dtype)
