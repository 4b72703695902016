"""Memory of the device and of Python: what is free, and what to do when it runs out.

``devices.py`` recognises the out-of-memory errors of torch, Triton, CUDA and the CPU's allocator.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import math
import mmap
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from engine.errors import DeviceLost, OutOfMemory
from engine.machine import memory
from engine.machine.devices import device_errors, is_lost, ran_out

if TYPE_CHECKING:
    import torch
    from torch import Tensor

log = logging.getLogger(__name__)

T = TypeVar("T")

_PRIVATE = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
"""Without these flags, a system that has the choice shares the memory with processes that begin later."""


def gpu_free_bytes(device: torch.device) -> int | None:
    """Return the free memory of the GPU ``device`` in bytes; None if it is no GPU.

    What torch keeps of freed memory for later is given back first, so it counts as free.
    """
    _give_back()
    if device.type != "cuda":
        return None
    import torch

    with device_errors(device):  # what torch still reserves belongs to graphs, or is in pieces
        return int(torch.cuda.mem_get_info(device)[0])


def gpu_held_bytes(device: torch.device) -> int:
    """Return the bytes that this process has on a GPU: a load frees the pair before it."""
    import torch

    return torch.cuda.memory_reserved(device)


def gpu_room() -> int:
    """Return the bytes that a load in place of what this process has could take on a GPU; 0 without one,
    and until planning or a load has begun to use it."""
    if "torch" not in sys.modules:
        return 0
    import torch

    if not torch.cuda.is_initialized() or is_lost("cuda"):
        return 0
    with contextlib.suppress(DeviceLost), device_errors(torch.device("cuda")):
        return int(torch.cuda.mem_get_info()[0]) + torch.cuda.memory_reserved()
    return 0


def release() -> None:
    """Free everything that is unreferenced, cycles included, and give it back to the system."""
    gc.collect()
    _give_back()
    memory.trim()


def _give_back() -> None:
    """Release the memory that torch caches. A lost GPU refuses this call too. Raises DeviceLost."""
    if "torch" not in sys.modules:
        return
    import torch

    usable = torch.cuda.is_available() and not is_lost("cuda")
    if usable and torch.cuda.is_initialized():
        with device_errors(torch.device("cuda")):
            torch.cuda.empty_cache()


def within_memory(work: Callable[[], T], describe: Callable[[], str]) -> T:
    """Return the result of ``work``. Raises OutOfMemory with ``describe()`` if it runs out of memory.

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


def zeros(shape: Sequence[int], dtype: torch.dtype, device: torch.device | None = None) -> Tensor:
    """Return ``torch.zeros``; on a CPU the system provides memory only for what is written or read.

    Raises MemoryError, or torch's error, where there is none.

    Torch writes its zeros: the caches of a 1.5B model for 32,768 tokens took 1.9 GB before the first of
    them was there. Numpy asks for large pages, and a cache begins in as many places as it has layers and
    heads: 2 MB each, 416 MB for that model and its draft of 0.5B before any text was long.
    """
    import torch

    if device is not None and device.type != "cpu":
        return torch.zeros(*shape, dtype=dtype, device=device)
    size = math.prod(shape) * torch.empty(0, dtype=dtype).element_size()
    if not size:
        return torch.zeros(*shape, dtype=dtype)
    try:
        pages = mmap.mmap(-1, size, **_PRIVATE)
    except OSError as error:
        raise MemoryError(f"no memory for {size:,} bytes") from error
    return torch.frombuffer(pages, dtype=torch.uint8).view(dtype).view(*shape)


def pinned(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Return memory that a GPU copies from and to by itself; where the system gives none, as WSL does
    after some of it, memory that the driver copies from first."""
    import torch

    try:
        return torch.empty(shape, dtype=dtype, pin_memory=True)
    except RuntimeError as error:
        if not ran_out(error):
            raise
        log.warning("No pinned memory, so copies to and from the GPU take longer: %s", error)
        return torch.empty(shape, dtype=dtype)


@contextlib.contextmanager
def uncollected_imports() -> Iterator[None]:
    """Pause garbage collection while torch and its dependencies are imported, then freeze their objects.

    All of it stays, so looking through it finds nothing: it was a fifth of importing torch, and later a
    part of every full collection. Does nothing once torch is there: by then, others' objects are too.
    """
    if "torch" in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
