"""A table of GPUs, and the parser of counts such as ``8xH100``.

Figures are from NVIDIA's data sheets: dense FLOP/s, half of those "with sparsity"; memory in decimal
gigabytes, never more than there is; link bandwidth in one direction, half of NVLink's total.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from types import MappingProxyType

from engine.errors import InvalidRequest

GIGA, TERA = 10**9, 10**12

MOST = 1024


@dataclass(frozen=True, slots=True)
class GpuKind:
    """Bytes, bytes/s and dense FLOP/s of one GPU. ``link``: to its neighbours in a ``node``. ``fp8`` and
    ``fp4``: None if it has no units for them."""

    name: str
    memory: int
    bandwidth: float
    fp16: float
    fp8: float | None
    fp4: float | None
    link: float
    nvlink: bool
    node: int
    source: str


def _kind(
    name: str,
    memory: int,
    bandwidth: float,
    products: tuple[float, float | None, float | None],
    link: float,
    source: str,
    *,
    nvlink: bool = True,
    node: int = 8,
) -> GpuKind:
    """Return a kind from a data sheet's GB, TB/s, TFLOP/s and GB/s."""
    fp16, fp8, fp4 = (None if each is None else each * TERA for each in products)
    assert fp16 is not None
    return GpuKind(
        name, memory * GIGA, bandwidth * TERA, fp16, fp8, fp4, link * GIGA, nvlink, node, source
    )


KINDS = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            _kind("A100", 80, 2.039, (312, None, None), 300, "A100 80GB SXM data sheet"),
            _kind("H100", 80, 3.35, (989.5, 1979, None), 450, "H100 SXM data sheet"),
            _kind("H200", 141, 4.8, (989.5, 1979, None), 450, "H200 SXM data sheet"),
            _kind("B200", 180, 8.0, (2250, 4500, 9000), 900, "DGX B200 data sheet, an eighth"),
            _kind("L4", 24, 0.3, (121, 242.5, None), 32, "L4 data sheet", nvlink=False),
            _kind("L40S", 48, 0.864, (362, 733, None), 32, "L40S data sheet", nvlink=False),
            _kind(
                "RTX4090",
                24,
                1.008,
                (165.2, 330.3, None),
                32,
                "Ada GPU architecture white paper, sums in fp32",
                nvlink=False,
            ),
            _kind(
                "RTX5090",
                32,
                1.792,
                (209.5, 419, 1676),
                64,
                "RTX Blackwell GPU architecture white paper, sums in fp32",
                nvlink=False,
            ),
            _kind(
                "GB10",
                128,
                0.273,
                (125, 250, 500),
                25,
                "DGX Spark data sheet: 1 PFLOP in FP4 with sparsity; FP8 and FP16 by halves, as in "
                "other Blackwell GPUs; memory shared with the CPU",
                nvlink=False,
                node=1,
            ),
        )
    }
)


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
    match = re.fullmatch(r"(?:(\d+)\s*[x*])?\s*([A-Za-z][\w-]*)", text.strip())
    if not match:
        raise InvalidRequest("gpus", f"'{text}' names no GPUs. Write a number and a kind: 8xH100.")
    count, name = int(match[1] or 1), match[2].upper().replace("-", "")
    if name not in KINDS:
        close = difflib.get_close_matches(name, KINDS, n=1)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise InvalidRequest(
            "gpus", f"The GPU '{match[2]}' is not in the table.{hint} Known: {', '.join(KINDS)}."
        )
    if not 1 <= count <= MOST:
        raise InvalidRequest("gpus", f"{count} GPUs cannot be planned for; give 1 to {MOST}.")
    return Gpus(KINDS[name], count)
