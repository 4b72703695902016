"""Weight formats: bytes of a weight, the speed of products with it, and which engine runs it where.

Which GPUs (tables/formats.yaml): ``get_min_capability`` of each format in the wheels of vLLM 0.31.0 and
SGLang 0.5.21; of TensorRT-LLM its pages "Quantization" and "Supported Hardware"
(nvidia.github.io/TensorRT-LLM), and TransformerEngine's support matrix for FP8 in blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from app.deploy.gpus import GpuKind
from app.deploy.tables import table
from engine.values.memory import WIDTHS

AUTO = "auto"
"""The checkpoint's own format."""

BF16, FP8, AWQ, INT4, NVFP4, MXFP4 = "bf16", "fp8", "awq", "int4", "nvfp4", "mxfp4"


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """``width``: bytes of a weight with its scales. ``experts_only``: other weights have 16 bits.

    Embeddings and output head have 16 bits in every format, as in published checkpoints.
    """

    name: str
    width: float
    experts_only: bool = False


_INT4_WIDTH = (
    0.5 + 2 / 32
)  # compressed-tensors' groups of 32 with 2 bytes of scale, as in Kimi K2.5

FORMATS = MappingProxyType(
    {
        name: WeightFormat(name, WIDTHS.get(name, _INT4_WIDTH), experts_only=name in (MXFP4, INT4))
        for name in (BF16, FP8, AWQ, INT4, NVFP4, MXFP4)
    }
)

SIXTEEN_BITS = WIDTHS[BF16]

KV_WIDTHS = MappingProxyType({AUTO: SIXTEEN_BITS, FP8: WIDTHS[FP8]})
"""Bytes of one number in the KV cache."""

_RUNS = table("formats")


def runs(engine: str, weights: str, gpu: GpuKind) -> bool:
    """Return whether ``engine`` runs weights of this format on the GPU."""
    return gpu.architecture in _RUNS[engine].get(weights, ())


def flops(gpu: GpuKind, weights: str) -> float:
    """Return the dense FLOP/s with weights in this format.

    AWQ, INT4 and MXFP4 weights are dequantised to 16 bits; so are formats that the GPU has no units for.
    """
    native = {FP8: gpu.fp8, NVFP4: gpu.fp4}.get(weights)
    return native or gpu.fp16


def has_units(gpu: GpuKind, weights: str) -> bool:
    """Return whether the GPU multiplies this format without dequantising it."""
    return {FP8: gpu.fp8, NVFP4: gpu.fp4}.get(weights, gpu.fp16) is not None
