"""Compile the step before a load, if the weights need it or a command should not run without it.

Other loads begin in torch and change to the compiled step once it is built.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from engine.backends.native import build
from engine.kernels.formats import AUTO, Q4
from engine.loading.request import LoadRequest
from engine.machine.compilers import BuildError, NoCompiler
from engine.machine.devices import Device
from engine.models.checkpoints.checkpoint import inspect
from engine.models.checkpoints.gguf.description import is_gguf


def needs_step(target: Path, *quantizations: str) -> bool:
    """Return whether the weights are in blocks, which only the compiled step multiplies.

    ``quantizations``: those that may be asked for. Raises ModelError.
    """
    return Q4 in quantizations or (is_gguf(target) and bool(inspect(target).block_formats))


def for_blocks(request: LoadRequest) -> Device:
    """Return the device for ``request``; the CPU for auto if a GPU has no kernels, see ``read_facts``."""
    from engine.loading.planning.facts import device_for  # brings torch

    device = device_for(request)
    return device.cpu if request.device == AUTO and not device.kernels else device


def compile_first(choose: Callable[[], Device], begin: Callable[[], None]) -> str | None:
    """Build the compiled step, unless it is built or useless on the chosen device; call ``begin`` before.
    ``choose`` may import torch, so it is called only if nothing is built.

    Return why the build failed, for people, or None. A missing compiler is reported by the load's plan.
    """
    if build.built() is not None:
        return None
    place = choose()
    if not place.native or place.torch_device.type != "cpu":
        return None
    begin()
    try:
        build.build()
    except NoCompiler:
        return None
    except BuildError as error:
        return str(error)
    return None
