"""The device of a run, its threads, its memory, and its fastest dtype."""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch

from engine.machine import devices, threads
from engine.models.base import Model
from engine.train.schema import Device, RecipeError

MASKED = -30000.0
"""Added to masked scores: finite, since a row of padding must not become NaN."""
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3  # glibc malloc.h


def choose_device(device: Device, count: int | None) -> torch.device:
    """Return the device that a recipe names, or CUDA if there is one. Set ``count`` threads.

    Raises RecipeError, and InvalidRequest for a device or thread count that this machine lacks.
    """
    devices.check(device)
    threads.check(count)
    has_cuda = torch.cuda.is_available()
    if device == "cuda" and not has_cuda:
        raise RecipeError("recipe key device is cuda, but PyTorch finds none. Use auto or cpu.")
    if count:
        torch.set_num_threads(count)
    if device != "cpu" and has_cuda:
        return torch.device("cuda")
    threads.use(min(torch.get_num_threads(), threads.physical_cores()))
    keep_freed_memory()
    return torch.device("cpu")


@contextmanager
def torch_yields(model: Model) -> Iterator[None]:
    """Give torch one thread while a compiled model answers: torch's would spin beside the step's."""
    with threads.using(1 if model.info.compiled else torch.get_num_threads()):
        yield


@cache
def compute_dtype(device: torch.device) -> torch.dtype:
    """Return bf16 where the device multiplies it faster than fp32, else fp32.

    Timed, since no flag tells it for every processor: without bf16 instructions (Ice Lake) bf16 products
    take 2 to 4 times as long as fp32 ones, with them (Zen 4) half as long.
    """
    if device.type != "cpu":
        return torch.bfloat16
    return min((torch.float32, torch.bfloat16), key=_product_seconds)


def _product_seconds(dtype: torch.dtype) -> float:
    """Return the least time of a few products of a typical shape."""
    rows, weight = torch.ones(2048, 256, dtype=dtype), torch.ones(512, 256, dtype=dtype)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        torch.nn.functional.linear(rows, weight)
        times.append(time.perf_counter() - start)
    return min(times)


def keep_freed_memory() -> None:
    """Let glibc reuse large buffers: handing them back costs a page fault per 4 KiB, 8 % of a step."""
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 1 << 30)
        mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1)
        mallopt(_M_TOP_PAD, 1 << 26)
