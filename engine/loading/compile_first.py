"""Compile the step before a load, where the weights need it or a command should not run without it.

Other loads begin in torch while it is built, and change to it behind.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from engine.backends.native import build
from engine.kernels.formats import Q4
from engine.machine.compilers import BuildError, NoCompiler
from engine.machine.devices import Device
from engine.models.checkpoints.checkpoint import inspect
from engine.models.checkpoints.gguf.description import is_gguf


def needs_step(target: Path, *quantizations: str) -> bool:
    """Return whether the weights are in blocks, which the compiled step alone multiplies.

    ``quantizations``: those that may be asked for. Raises ModelError.
    """
    return Q4 in quantizations or (is_gguf(target) and bool(inspect(target).block_formats))


def compile_first(choose: Callable[[], Device], begin: Callable[[], None]) -> str | None:
    """Build the compiled step, unless it is there or of no use in the chosen place; ``begin`` is called
    before. ``choose`` may bring torch, so it is asked only where nothing is built.

    Return why it could not be built, for people. Where there is no compiler the plan of a load says so.
    """
    if build.built() is not None:
        return None
    place = choose()
    if not place.native or place.device.type != "cpu":
        return None
    begin()
    try:
        build.build()
    except NoCompiler:
        return None
    except BuildError as error:
        return str(error)
    return None
