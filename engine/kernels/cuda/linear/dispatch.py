"""Where a format and a weight become a product: the kernel on a CUDA device, the reference elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.kernels.cuda import STREAMED_ROWS
from engine.kernels.cuda.availability import runs_kernels
from engine.kernels.cuda.linear import reference as product_reference
from engine.kernels.cuda.linear.bulk import BulkProduct
from engine.kernels.cuda.linear.fusion import PLAIN, Fusion, Product
from engine.kernels.formats import int8, nf4
from engine.kernels.formats.int8 import Int8Weight
from engine.kernels.formats.nf4 import GROUP, Nf4Weight
from engine.kernels.torch.factory import Embedding, plain_embedding
from engine.kernels.torch.int8 import Int8Embedding
from engine.kernels.torch.nf4 import Nf4Embedding

Weight = Tensor | Int8Weight | Nf4Weight
"""``(out, in)`` in any float dtype, or quantised."""

DTYPE = torch.bfloat16
"""What is computed in between the streamed."""


def hold(quantization: str, weight: Tensor) -> Weight:
    """``weight (out, in)`` as ``quantization`` keeps it, on its device."""
    if quantization == "int8":
        return int8.quantise(weight)
    return nf4.quantise(weight) if quantization == "nf4" else weight.to(DTYPE)


def embedding_of(weight: Weight) -> Embedding:
    """Rows of a table, as they are kept; the head of a tied model is the same memory."""
    if isinstance(weight, Int8Weight):
        return Int8Embedding(weight, DTYPE)
    return Nf4Embedding(weight, DTYPE) if isinstance(weight, Nf4Weight) else plain_embedding(weight)


@dataclass(frozen=True, slots=True)
class AnyRows:
    """One product for decoding and for prompts; up to ``STREAMED_ROWS`` rows have the kernels' bits."""

    few: Product
    many: Product

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        return (self.few if len(x) <= STREAMED_ROWS else self.many)(x, residual)


def make_product_for_any_rows(weight: Weight, fusion: Fusion = PLAIN) -> AnyRows:
    """``make_product``, and cuBLAS where many rows come at once."""
    return AnyRows(make_product(weight, fusion), BulkProduct(weight, fusion))


def make_product(weight: Weight, fusion: Fusion = PLAIN) -> Product:
    """The product with ``weight``, with its ``fusion``, on the weight's device.

    Raises nothing for a weight that no kernel takes (NF4 whose rows are no whole groups, fp32, fp16):
    the reference multiplies by it as it is, row-independently too, but slowly.
    """
    if not runs_kernels(device_of(weight)):
        return _reference(weight, fusion)
    from engine.kernels.cuda.linear import streamed

    if isinstance(weight, Int8Weight):
        return streamed.Int8Product(weight, fusion)
    if isinstance(weight, Nf4Weight):
        whole = weight.shape[1] % GROUP == 0
        return streamed.Nf4Product(weight, fusion) if whole else _reference(weight, fusion)
    if weight.dtype != torch.bfloat16:  # rounding it would be another model
        return _reference(weight, fusion)
    return streamed.Bf16Product(weight, fusion)


def device_of(weight: Weight) -> torch.device:
    """Where the weight lies."""
    if isinstance(weight, Int8Weight):
        return weight.values.device
    return weight.packed.device if isinstance(weight, Nf4Weight) else weight.device


def _reference(weight: Weight, fusion: Fusion) -> Product:
    if isinstance(weight, Int8Weight):
        return product_reference.Int8Reference(weight, fusion)
    return product_reference.FloatReference(weight, fusion)
