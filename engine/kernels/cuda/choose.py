"""Where a weight becomes a product: the kernel on a CUDA device, the reference anywhere else."""

from __future__ import annotations

import functools
import importlib.util

import torch
from torch import Tensor

from engine.kernels.cpu.int8 import Int8Weight
from engine.kernels.cpu.nf4 import BLOCK, Nf4Weight
from engine.kernels.cuda import product_reference
from engine.kernels.cuda.around import PLAIN, Around, Product

Weight = Tensor | Int8Weight | Nf4Weight
"""``(out, in)`` in any float dtype, or quantised."""


@functools.cache
def has_triton() -> bool:
    """Whether Triton is installed; it is on no other system than Linux."""
    return importlib.util.find_spec("triton") is not None


def choose(weight: Weight, around: Around = PLAIN) -> Product:
    """The product with ``weight``, and what stands ``around`` it, on the weight's device.

    Raises nothing for a weight that no kernel takes (NF4 whose rows are no whole blocks, fp32, fp16):
    the reference multiplies by it as it is, row-independently too, but slowly.
    """
    if not (_on_cuda(weight) and has_triton()):
        return _reference(weight, around)
    from engine.kernels.cuda import products

    if isinstance(weight, Int8Weight):
        return products.Int8Product(weight, around)
    if isinstance(weight, Nf4Weight):
        whole = weight.shape[1] % BLOCK == 0
        return products.Nf4Product(weight, around) if whole else _reference(weight, around)
    if weight.dtype != torch.bfloat16:  # rounding it would be another model
        return _reference(weight, around)
    return products.Bf16Product(weight, around)


def _on_cuda(weight: Weight) -> bool:
    if isinstance(weight, Int8Weight):
        return weight.values.is_cuda
    return weight.packed.is_cuda if isinstance(weight, Nf4Weight) else weight.is_cuda


def _reference(weight: Weight, around: Around) -> Product:
    if isinstance(weight, Int8Weight):
        return product_reference.Int8Reference(weight, around)
    return product_reference.FloatReference(weight, around)
