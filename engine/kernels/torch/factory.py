"""Make a model's weights into linear layers and embeddings: the seam between models and kernels.

A model gets ``Kernels`` and knows nothing of the format behind them. The compiled step and the CUDA
kernels multiply by a GGUF file's blocks; the kernels here dequantise them first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.kernels.formats import FORMATS, int8, nf4
from engine.kernels.formats.blocks import Stacked, widen
from engine.kernels.torch.int8 import Int8Embedding, make_int8
from engine.kernels.torch.linear import Linear, make_linear
from engine.kernels.torch.nf4 import Nf4Embedding, Nf4Linear

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
"""Dtypes of unquantised weights, by ``formats.UNQUANTISED``."""

Embedding = Callable[[Tensor], Tensor]
"""Maps token ids ``(rows,)`` to ``(rows, hidden)``."""


@dataclass(frozen=True, slots=True)
class Kernels:
    """``linear`` takes a weight (out, in), ``embedding`` a table (vocabulary, hidden) of floats.

    ``exact`` makes the linear layer of a router, for float32 rows: rounded, it would choose other
    experts. ``stacked``: one linear layer is made of all experts of a layer.
    """

    linear: Callable[[Stacked], Linear]
    embedding: Callable[[Tensor], Embedding]
    exact: Callable[[Tensor], Linear] = lambda weight: make_linear(weight.float())
    stacked: bool = False


def plain_embedding(weight: Tensor) -> Embedding:
    """Return a lookup in ``weight (vocabulary, hidden)``, in its dtype."""
    return lambda ids: F.embedding(ids, weight)


PLAIN = Kernels(lambda weight: make_linear(widen(weight)), plain_embedding)
"""Unquantised weights, in fp32 or bf16."""


def kernels_for(quantization: str, dtype: torch.dtype) -> Kernels:
    """Return the kernels of ``quantization`` for a model that computes in ``dtype``.

    They keep nothing of the float weight they are given, unless it is unquantised.
    """
    assert quantization in FORMATS
    if quantization == "int8":
        return Kernels(
            linear=lambda weight: make_int8(int8.quantise(widen(weight))),
            embedding=lambda weight: Int8Embedding(int8.quantise(weight), dtype),
        )
    if quantization == "nf4":
        return Kernels(
            linear=lambda weight: Nf4Linear(nf4.quantise(widen(weight))),
            embedding=lambda weight: Nf4Embedding(nf4.quantise(weight), dtype),
        )
    return PLAIN
