"""Find the device to measure, or the reason why there is none; measure its bandwidth."""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from typing import Any

import torch

from engine.errors import InvalidRequest, NotInstalled
from engine.machine.devices import LEAST_CAPABILITY, has_triton, lacks_to_build
from tools.gpu_bench.clock import Clock, Times

CPU, CUDA = "cpu", "cuda"
BANDWIDTH_BYTES = 2**32
"""Read at once on a GPU: many times the size of its caches."""
REHEARSAL_BYTES = 2**26


@dataclass(frozen=True, slots=True)
class Facts:
    """The device and the software. ``memory``: bytes that are free before the run."""

    name: str
    kind: str
    memory: int
    torch: str
    triton: str
    capability: str

    @property
    def slug(self) -> str:
        """Return the name for a file's name."""
        name = "cpu-rehearsal" if self.kind == CPU else self.name
        return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def find(wanted: str) -> torch.device:
    """Return the device ``cuda`` or ``cpu``. Raise NotInstalled, with the reason, without a GPU."""
    if wanted == CPU:
        return torch.device(CPU)
    if wanted != CUDA:
        raise InvalidRequest("device", f"device is {wanted!r}; it must be cuda or cpu.")
    reason = why_not()
    if reason is not None:
        raise NotInstalled(
            f"There is no GPU to measure. {reason} With --device cpu the whole run can be tried "
            "here at tiny shapes; its figures mean nothing."
        )
    return torch.device(CUDA)


def why_not() -> str | None:
    """Return why no GPU can be measured here, with the remedy; None if one can."""
    if torch.version.cuda is None:
        return "This torch has no CUDA support: install the build from pytorch.org for your driver."
    if not torch.cuda.is_available():
        return (
            f"Torch, built for CUDA {torch.version.cuda}, finds no device: nvidia-smi must show one, and "
            "a driver that is new enough for it."
        )
    capability = torch.cuda.get_device_capability()
    if capability < LEAST_CAPABILITY:
        has = ".".join(map(str, capability))
        return (
            f"{torch.cuda.get_device_name()} has the compute capability {has}; the kernels need 8.0 "
            "(Ampere) or newer."
        )
    if not has_triton():
        return "Triton, which compiles the kernels, is not installed; it exists for Linux only."
    missing = lacks_to_build()
    return f"Triton needs a C compiler, and here {missing}." if missing else None


def facts(device: torch.device) -> Facts:
    """Return the facts; call it before anything is allocated."""
    triton = "none"
    if has_triton():
        import triton as installed

        triton = str(installed.__version__)
    if device.type == CPU:
        name = platform.processor() or platform.machine()
        return Facts(name, CPU, 0, torch.__version__, triton, "")
    capability = ".".join(map(str, torch.cuda.get_device_capability(device)))
    free = int(torch.cuda.mem_get_info(device)[0])
    name = torch.cuda.get_device_name(device)
    return Facts(name, CUDA, free, torch.__version__, triton, capability)


def read_bandwidth(clock: Clock, repeats: int = 15) -> tuple[float, Times]:
    """Return the bytes per second of reading memory once, and the times.

    A sum reads every byte and writes almost nothing, like a product of one row.
    """
    size = REHEARSAL_BYTES
    if clock.cuda:
        size = min(BANDWIDTH_BYTES, torch.cuda.mem_get_info(clock.device)[0] // 2)
    count = size // 4
    buffer: Any = torch.ones(count, dtype=torch.float32, device=clock.device)
    times = clock.time(clock.capture([buffer.sum]).call, repeats)
    return buffer.nbytes / times.median, times
