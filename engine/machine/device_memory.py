"""The memory of the device that models are loaded to: what is free, and what to do when it runs out.

``devices.py`` knows how torch, Triton, CUDA and the CPU's allocator say that there is no more. Imports
torch only for a GPU.
"""

from __future__ import annotations

import gc
import sys
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from engine.errors import OutOfMemory
from engine.machine.devices import is_lost, ran_out
from engine.machine.failures import device_errors

if TYPE_CHECKING:
    import torch

T = TypeVar("T")


def gpu_free_bytes(device: torch.device) -> int | None:
    """What is free of the memory of the GPU ``device``; None where it is no GPU.

    What torch keeps of freed memory for later is given back first, so it counts as free.
    """
    _give_back()
    if device.type != "cuda":
        return None
    import torch

    with device_errors(device):
        kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + kept


def release() -> None:
    """Gives back what nothing refers to any more, cycles included."""
    gc.collect()
    _give_back()


def _give_back() -> None:
    """What torch keeps of freed memory for later. A GPU that is lost refuses this call too."""
    if "torch" not in sys.modules:
        return
    import torch

    usable = torch.cuda.is_available() and not is_lost("cuda")
    if usable and torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def within_memory(work: Callable[[], T], describe: Callable[[], str]) -> T:
    """What ``work`` returns. Raises OutOfMemory with ``describe()`` where memory runs out in it.

    An OutOfMemory of ``work``'s own, which knows less, gives way to it. By then all that ``work`` alone
    held has been released, so ``describe`` finds what is free without it.
    """
    try:
        return work()
    except (OutOfMemory, RuntimeError, MemoryError) as error:
        if not ran_out(error):
            raise
        # Its frames hold what was half made, and whoever keeps the error would keep that.
        traceback.clear_frames(error.__traceback__)
    # Not inside ``except``: there the new error would hold the old one.
    release()
    raise OutOfMemory(describe())
