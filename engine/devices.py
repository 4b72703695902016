"""Where models run: CUDA if there is a GPU that can, else the CPU; and what to tell people about it."""

from __future__ import annotations

import os
import shutil
import warnings
from dataclasses import dataclass
from pathlib import Path

import torch

from engine.errors import InvalidRequest
from engine.kernels.cuda.choose import has_triton

DEVICES = ("auto", "cpu", "cuda")
SETTING = "FORETOKEN_DEVICE"
"""The environment's name of the setting, for whoever says nothing else."""
LEAST_CAPABILITY = (8, 0)
"""Ampere: from here on tensor cores take bf16."""

_lost: set[str] = set()


@dataclass(frozen=True, slots=True)
class Facts:
    """What torch and the system say. ``problem``: why torch has no CUDA where it was built with it."""

    built_with_cuda: bool
    has_driver: bool
    count: int = 0
    name: str = ""
    capability: tuple[int, int] = (0, 0)
    triton: bool = False
    problem: str = ""
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """Where models run. ``kernels``: whether Triton's do. ``notes`` are sentences for people."""

    device: torch.device
    kernels: bool = False
    notes: tuple[str, ...] = ()


def choose(wanted: str | None = None) -> Place:
    """The place for ``wanted``: auto, cpu or cuda; None is the environment's setting, else auto.

    Raises InvalidRequest for an unknown one, and for cuda where there is none, with the reason.
    """
    wanted = check(wanted or os.environ.get(SETTING) or "auto")
    return Place(torch.device("cpu")) if wanted == "cpu" else decide(wanted, look())


def check(wanted: str) -> str:
    """``wanted`` if it names a device. Raises InvalidRequest."""
    if wanted not in DEVICES:
        raise InvalidRequest(
            "device", f"device is {wanted!r}; it must be one of {', '.join(DEVICES)}."
        )
    return wanted


def lose(device: torch.device) -> None:
    """From here on this process has no such device: after a failure CUDA refuses every call."""
    _lost.add(device.type)


def look() -> Facts:
    """Asks torch, once per call; some milliseconds."""
    built = torch.version.cuda is not None
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        there = torch.cuda.is_available()
    problem = " ".join(str(said[-1].message).split()) if said and not there else ""
    driver = shutil.which("nvidia-smi") is not None or Path("/proc/driver/nvidia/version").exists()
    if not there:
        return Facts(built, driver, problem=problem, lost="cuda" in _lost)
    return Facts(
        built,
        driver,
        torch.cuda.device_count(),
        torch.cuda.get_device_name(),
        torch.cuda.get_device_capability(),
        has_triton(),
        lost="cuda" in _lost,
    )


def decide(wanted: str, facts: Facts) -> Place:
    """The place for ``wanted`` (auto or cuda) by the facts. Raises InvalidRequest as ``choose``."""
    reason = _why_no_gpu(facts)
    if reason is None:
        # Whoever chose another GPU with CUDA_VISIBLE_DEVICES finds it as the first one here.
        return Place(torch.device("cuda"), *_what_runs(facts))
    if wanted == "cuda":
        raise InvalidRequest(
            "device", f"device is 'cuda', but {reason[0].lower()}{reason[1:]} Or choose 'cpu'."
        )
    worth_telling = facts.has_driver or facts.lost
    return Place(torch.device("cpu"), notes=(reason,) if worth_telling else ())


def _why_no_gpu(facts: Facts) -> str | None:
    """Why CUDA cannot be used at all, with the remedy; None where it can."""
    if facts.lost:
        return "The GPU failed before in this process. Restart the app to use it again."
    if facts.count:
        return None
    if not facts.built_with_cuda:
        return (
            "This torch is built without CUDA. To use an NVIDIA GPU, install the build for CUDA "
            "(pytorch.org, Get Started)."
        )
    if facts.problem:
        return (
            f"Torch cannot use the GPU: {facts.problem.rstrip('.')}. Update the driver, or install a "
            "torch that is built for it."
        )
    return "Torch finds no CUDA device. Check that nvidia-smi shows one, and CUDA_VISIBLE_DEVICES."


def _what_runs(facts: Facts) -> tuple[bool, tuple[str, ...]]:
    """Whether the kernels run on the GPU, and what people should know."""
    notes = []
    if facts.count > 1:
        notes.append(
            f"{facts.count} GPUs are here; one is used, {facts.name}. CUDA_VISIBLE_DEVICES chooses "
            "another one."
        )
    slower = "so steps run as torch's own operations: slower, and in fp32 or bf16 only."
    if facts.capability < LEAST_CAPABILITY:
        has = ".".join(map(str, facts.capability))
        notes.append(f"{facts.name} has compute capability {has}; the kernels need 8.0, {slower}")
        return False, tuple(notes)
    if not facts.triton:
        notes.append(f"Triton is not installed (it exists for Linux only), {slower}")
        return False, tuple(notes)
    return True, tuple(notes)
