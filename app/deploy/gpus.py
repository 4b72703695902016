"""GPUs (tables/gpus.yaml), the parser of counts such as ``8xH100``, and weight formats: bytes of a
weight, the speed of products with it, and which engine runs it where.

Which GPUs run a format (tables/formats.yaml): ``get_min_capability`` of each format in the wheels of
vLLM 0.31.0 and SGLang 0.5.21; of TensorRT-LLM its pages "Quantization" and "Supported Hardware"
(nvidia.github.io/TensorRT-LLM), and TransformerEngine's support matrix for FP8 in blocks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType

from app.deploy.tables import refusal, table
from engine.values.memory import WIDTHS

GIGA, TERA = 10**9, 10**12

MOST = 1024

FAST_LINK = 150 * GIGA
"""Bytes a second from which GPUs are joined by NVLink or Infinity Fabric; PCIe has less."""

TURING, CDNA3, CDNA4 = "Turing", "CDNA 3", "CDNA 4"
"""Architectures, as the table names them, with rules of their own."""


@dataclass(frozen=True, slots=True)
class GpuKind:
    """Bytes, bytes/s and dense FLOP/s of one GPU. ``link``: to its neighbours in a ``node``. ``fp8`` and
    ``fp4``: None if it has no units for them. ``joined``: as many GPUs reach each other by ``link``.
    ``runs``: whether speeds were held to published runs on it (tests/app/deploy/published_runs.csv);
    ``few``: a sentence on those, where they are too few for a range."""

    name: str
    architecture: str
    memory: int
    bandwidth: float
    fp16: float
    link: float
    node: int
    source: str
    fp8: float | None = None
    fp4: float | None = None
    runs: bool = False
    joined: int = 0
    few: str = ""

    @property
    def nvlink(self) -> bool:
        """Whether GPUs of a node are joined by more than PCIe."""
        return self.link >= FAST_LINK

    @property
    def reach(self) -> int:
        return self.joined or self.node

    @property
    def is_amd(self) -> bool:
        return self.architecture in (CDNA3, CDNA4)


_UNITS = {"memory": GIGA, "bandwidth": TERA, "fp16": TERA, "fp8": TERA, "fp4": TERA, "link": GIGA}

_ROWS = (
    {**row, **{key: row[key] * _UNITS[key] for key in row.keys() & _UNITS}} for row in table("gpus")
)
KINDS = MappingProxyType({row["name"]: GpuKind(**row) for row in _ROWS})


@dataclass(frozen=True, slots=True)
class Gpus:
    """``count`` GPUs of one kind, in nodes of ``kind.node``."""

    kind: GpuKind
    count: int

    @property
    def nodes(self) -> int:
        return -(-self.count // self.kind.node)

    def __str__(self) -> str:
        return f"{self.count}x{self.kind.name}"


def parse_gpus(text: str) -> Gpus:
    """Parse ``8xH100`` or ``H100`` (one). Raises InvalidRequest, which lists the known kinds."""
    match = re.fullmatch(r"(?:(\d{1,9})\s*[x*])?\s*([A-Za-z][\w -]*)", text.strip())
    if not match:
        raise refusal("gpus", "no-count", text=text)
    count, name = int(match[1] or 1), re.sub(r"[ _-]", "", match[2].upper())
    if name not in KINDS:
        known = ", ".join(f"{kind.name} ({kind.memory // GIGA} GB)" for kind in KINDS.values())
        raise refusal("gpus", "unknown-gpu", name=match[2], known=known)
    if not 1 <= count <= MOST:
        raise refusal("gpus", "gpu-count", count=count, most=MOST)
    return Gpus(KINDS[name], count)


AUTO = "auto"
"""The checkpoint's own format."""

BF16, FP8, AWQ, INT4, NVFP4, MXFP4 = "bf16", "fp8", "awq", "int4", "nvfp4", "mxfp4"


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """``width``: bytes of a weight with its scales. ``experts_only``: other weights have 16 bits.

    Embeddings and output head have 16 bits in every format, as in published checkpoints.
    """

    width: float
    experts_only: bool


_INT4_WIDTH = (
    0.5 + 2 / 32
)  # compressed-tensors' groups of 32 with 2 bytes of scale, as in Kimi K2.5

FORMATS = MappingProxyType(
    {
        name: WeightFormat(WIDTHS.get(name, _INT4_WIDTH), experts_only=name in (MXFP4, INT4))
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
