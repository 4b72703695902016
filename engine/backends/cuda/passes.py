"""Passes for several sequences as CUDA graphs: one for each set of states and their numbers of rows.

Lengths are on the device, so a graph serves texts of any length. Rows are padded, so that sets come back:
a row's bits do not depend on others, and what padding writes to a cache is beyond its length.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.backends.cuda import PASS_GRAPHS
from engine.backends.cuda.capture import Graph, capture
from engine.backends.cuda.state import DeviceState
from engine.values import MAX_ROWS

Parts = tuple[tuple[DeviceState, int], ...]
"""The states of a pass, and how many of its rows each has."""
Compute = Callable[[Tensor, Parts], Tensor]
"""Token ids (rows,), or their rows (rows, hidden), on the device -> logits (rows, vocabulary)."""

_WORTH = 4
"""Passes of a set before it is captured, which takes as long as some passes."""


@dataclass(frozen=True, slots=True)
class _Captured:
    graph: Graph
    ids: Tensor
    logits: Tensor


class GraphCache:
    """Computes passes, as graphs once their set of states and rows has come often enough."""

    def __init__(self, device: torch.device) -> None:
        self._device, self.captures = device, device.type == "cuda"
        self._counts = Counter[Parts]()
        self._graphs: OrderedDict[Parts, _Captured] = OrderedDict()
        self._pool = torch.cuda.graph_pool_handle() if self.captures else None

    def run(
        self, compute: Compute, tokens: Sequence[Sequence[int]], states: Sequence[DeviceState]
    ) -> list[Tensor]:
        """Return the logits (rows, vocabulary) of each state's ``tokens``; valid until the next pass."""
        # Requests take turns in their order, and graphs do not care.
        order = sorted(range(len(states)), key=lambda at: id(states[at]))
        rows = [_padded(len(tokens[at])) for at in order]
        if sum(rows) > MAX_ROWS:
            rows = [len(tokens[at]) for at in order]
        ids = list[int]()
        for at, count in zip(order, rows, strict=True):
            ids += [*tokens[at], *[0] * (count - len(tokens[at]))]
        parts = tuple((states[at], count) for at, count in zip(order, rows, strict=True))
        logits = self._logits(compute, torch.tensor(ids), parts).split(rows)
        found = dict(zip(order, logits, strict=True))
        return [found[at][: len(each)] for at, each in enumerate(tokens)]

    def run_rows(self, compute: Compute, x: Tensor, state: DeviceState) -> Tensor:
        """Return the logits of the rows ``x (rows, hidden)`` of one sequence, from its first layer on;
        valid until the next pass."""
        padded = x.new_zeros(_padded(len(x)), x.shape[1])
        padded[: len(x)] = x
        return self._logits(compute, padded, ((state, len(padded)),))[: len(x)]

    def _logits(self, compute: Compute, ids: Tensor, parts: Parts) -> Tensor:
        # A graph would read the same image again.
        if any(state.has_images(rows) for state, rows in parts):
            return compute(ids.to(self._device), parts)
        captured = self._graphs.get(parts)
        if captured is not None:
            self._graphs.move_to_end(parts)
            captured.ids.copy_(ids)
            if captured.graph.replay():
                return captured.logits
        ids = ids.to(self._device)
        logits = compute(ids, parts)
        self._counts[parts] += 1
        if self.captures and self._counts[parts] >= _WORTH:
            self._capture(compute, ids, parts, torch.empty_like(logits))
        return logits

    def _capture(self, compute: Compute, ids: Tensor, parts: Parts, logits: Tensor) -> None:
        """Capture the pass from ``ids`` to ``logits``; its kernels were compiled by earlier passes."""
        graph = capture(lambda: logits.copy_(compute(ids, parts)), "a pass", self._pool)
        if isinstance(graph, BaseException):
            self.captures = False
            return
        if len(self._graphs) == PASS_GRAPHS:
            self._graphs.popitem(last=False)
        self._counts.clear()
        self._graphs[parts] = _Captured(graph, ids, logits)


def _padded(rows: int) -> int:
    """Return the least power of two that is no less."""
    return 1 << (rows - 1).bit_length()
