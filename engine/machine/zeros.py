"""Memory for what may become long: zeros that are there once they are touched."""

from __future__ import annotations

import math
import mmap
from collections.abc import Sequence

import torch
from torch import Tensor


def zeros(shape: Sequence[int], dtype: torch.dtype, device: torch.device | None = None) -> Tensor:
    """As ``torch.zeros``; on a CPU the system gives memory only to what is written or read.

    Torch writes its zeros: the caches of a 1.5B model for 32,768 tokens took 1.9 GB before the first of
    them was there. Numpy asks for large pages, and a cache begins in as many places as it has layers and
    heads: 2 MB each, 416 MB for that model and its draft of 0.5B before any text was long.
    """
    if device is not None and device.type != "cpu":
        return torch.zeros(*shape, dtype=dtype, device=device)
    size = math.prod(shape) * torch.empty(0, dtype=dtype).element_size()
    if not size:
        return torch.zeros(*shape, dtype=dtype)
    pages = mmap.mmap(-1, size, **_PRIVATE)
    return torch.frombuffer(pages, dtype=torch.uint8).view(dtype).view(*shape)


_PRIVATE = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
"""Else a system that has the choice would share them with processes that begin later."""
