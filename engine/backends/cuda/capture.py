"""Capture device operations as a CUDA graph."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch

from engine.machine.devices import loses_gpu

log = logging.getLogger(__name__)


@dataclass
class Graph:
    """Operations that were captured, at the addresses they had. ``what`` they are, for the log."""

    captured: torch.cuda.CUDAGraph
    what: str
    _works: bool = True

    def replay(self) -> bool:
        """Queue them again, and return whether that was possible.

        If not, none of them has run, the graph is not tried again, and the same operations without it
        give the same bits. Raise the error of a GPU that is lost.
        """
        if self._works:
            try:
                self.captured.replay()
            except RuntimeError as error:
                if loses_gpu(error):
                    raise
                log.warning("The CUDA graph of %s failed, so it runs without: %s", self.what, error)
                self._works = False
        return self._works


def capture(run: Callable[[], object], what: str, pool: Any) -> Graph | BaseException:
    """Return the graph of ``run``, which takes memory from ``pool`` and has run before, so that its
    kernels are compiled. If it fails, for example for lack of memory, return the error."""
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
    try:
        with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
            run()
    except RuntimeError as error:  # a lost device raises again at its next call
        # Torch ends the capture that ``run`` broke off: the error of that hides the first one.
        first = error.__context__ or error
        log.warning("No CUDA graph of %s, so it runs without one, slower: %s", what, first)
        torch.cuda.set_stream(stream)  # a failed capture leaves its own stream set
        # It may also leave torch's allocator in the capture, where freeing memory is an error for good.
        with suppress(RuntimeError):
            torch._C._cuda_endAllocateToPool(stream.device_index, pool)
        return first.with_traceback(None)  # its frames hold memory of the device
    return Graph(graph, what)
