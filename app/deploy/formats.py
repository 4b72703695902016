"""Weight formats: bytes of a weight, and the speed of products with it."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from app.deploy.gpus import GpuKind
from engine.values.memory import WIDTHS

AUTO = "auto"
"""The checkpoint's own format."""

BF16, FP8, AWQ, NVFP4, MXFP4 = "bf16", "fp8", "awq", "nvfp4", "mxfp4"


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """``width``: bytes of a weight with its scales. ``experts_only``: other weights have 16 bits.

    Embeddings and output head have 16 bits in every format, as in published checkpoints.
    """

    name: str
    width: float
    experts_only: bool = False


FORMATS = MappingProxyType(
    {
        name: WeightFormat(name, WIDTHS[name], experts_only=name == MXFP4)
        for name in (BF16, FP8, AWQ, NVFP4, MXFP4)
    }
)

SIXTEEN_BITS = WIDTHS[BF16]

KV_WIDTHS = MappingProxyType({AUTO: SIXTEEN_BITS, FP8: WIDTHS[FP8]})
"""Bytes of one number in the KV cache."""


def flops(gpu: GpuKind, weights: str) -> float:
    """Return the dense FLOP/s with weights in this format.

    AWQ and MXFP4 weights are dequantised to 16 bits; so are formats that the GPU has no units for.
    """
    native = {FP8: gpu.fp8, NVFP4: gpu.fp4}.get(weights)
    return native or gpu.fp16


def has_units(gpu: GpuKind, weights: str) -> bool:
    """Return whether the GPU multiplies this format without dequantising it."""
    return {FP8: gpu.fp8, NVFP4: gpu.fp4}.get(weights, gpu.fp16) is not None
