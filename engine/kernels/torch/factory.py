"""How a model's weights become products and lookups: the seam between models and kernels.

A model asks its ``Kernels`` for a ``linear`` of a weight and for an ``embedding``, and knows nothing of
the format behind them. What a GGUF file stores in blocks is multiplied so by the compiled step alone;
these here widen it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.kernels.formats import FORMATS, int8, nf4
from engine.kernels.formats.blocks import Stacked, widen
from engine.kernels.torch import int8 as int8_product
from engine.kernels.torch import nf4 as nf4_product
from engine.kernels.torch.linear import Linear, make_linear

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
"""What unquantised weights are held in, by ``formats.UNQUANTISED``."""

Embedding = Callable[[Tensor], Tensor]
"""Maps token ids ``(rows,)`` to ``(rows, hidden)``."""


@dataclass(frozen=True, slots=True)
class Kernels:
    """``linear`` takes a weight (out, in), ``embedding`` a table (vocabulary, hidden) of floats."""

    linear: Callable[[Stacked], Linear]
    embedding: Callable[[Tensor], Embedding]


def plain_embedding(weight: Tensor) -> Embedding:
    """Rows of ``weight (vocabulary, hidden)`` as they are."""
    return lambda ids: F.embedding(ids, weight)


PLAIN = Kernels(lambda weight: make_linear(widen(weight)), plain_embedding)
"""Weights as they are, in fp32 or bf16."""


def kernels_for(quantization: str, dtype: torch.dtype) -> Kernels:
    """The kernels of ``quantization``; ``dtype`` is what the model computes in between products.

    The factories keep nothing of the float weight they are given, unless it is unquantised.
    """
    assert quantization in FORMATS
    if quantization == "int8":
        return Kernels(
            linear=lambda weight: int8_product.make_int8(int8.quantise(widen(weight))),
            embedding=lambda weight: int8_product.Int8Embedding(int8.quantise(weight), dtype),
        )
    if quantization == "nf4":
        return Kernels(
            linear=lambda weight: nf4_product.Nf4Product(nf4.quantise(widen(weight))),
            embedding=lambda weight: nf4_product.Nf4Embedding(nf4.quantise(weight), dtype),
        )
    return PLAIN
