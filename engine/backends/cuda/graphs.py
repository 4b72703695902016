"""Rounds captured once and replayed, and their results on the host one round late.

The first round of a mode runs as it stands: that compiles its kernels, which cannot be done within a
capture. It is captured right behind, so the second one is a single launch.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.backends.cuda.round import TIMES, DeviceRound, Mode
from engine.kernels.cuda.acceptance import Outcome

log = logging.getLogger(__name__)

_AHEAD = 2
"""Rounds whose results the host may not have read yet."""
_kept: list[Tensor] = []
"""Pinned memory of all runners, some hundred bytes each. Never freed: to free it, torch asks the device,
and where that is lost the answer ends the process."""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a round, and the device's seconds for drafting and for all of it."""

    outcome: Outcome
    draft_s: float
    total_s: float


@dataclass(frozen=True, slots=True)
class Pending:
    """A round that was launched; ``copied`` tells when its result is on the host."""

    depth: int
    result: Tensor
    copied: torch.cuda.Event | None

    def read(self) -> Result:
        """Waits for the round.

        Raises ModelError for logits that are no numbers.
        """
        if self.copied is not None:
            self.copied.synchronize()
        begin, drafted, end = self.result[TIMES].view(torch.int64).tolist()
        outcome = Outcome.read(self.result, self.depth)
        return Result(outcome, (drafted - begin) / 1e9, (end - begin) / 1e9)


class Runner:
    """Runs rounds of one ``DeviceRound``, as graphs where ``captures``."""

    def __init__(self, round: DeviceRound, captures: bool = True) -> None:
        """Without CUDA nothing is captured."""
        self.round = round
        device = round.target.device
        self.captures = captures and device.type == "cuda"
        self._graphs: dict[Mode, torch.cuda.CUDAGraph] = {}
        self._pool = torch.cuda.graph_pool_handle() if self.captures else None
        pinned = device.type == "cuda"
        self._copies = [
            torch.empty(round.result.shape, dtype=torch.int32, pin_memory=pinned)
            for _ in range(_AHEAD)
        ]
        if pinned:
            _kept.extend(self._copies)
        self._launched = 0

    def launch(self, mode: Mode) -> Pending:
        """Queues a round and the copy of its result; waits for nothing, but captures a new mode.

        No more than two rounds may be unread.
        """
        graph = self._graphs.get(mode)
        if graph is not None:
            graph.replay()
        else:
            self.round.run(mode)
        copy = self._copies[self._launched % _AHEAD]
        copy.copy_(self.round.result, non_blocking=True)
        self._launched += 1
        copied = None
        if self.round.result.is_cuda:
            copied = torch.cuda.Event()
            copied.record()
        if graph is None and self.captures:
            self._capture(mode)
        return Pending(mode.depth, copy, copied)

    def _capture(self, mode: Mode) -> None:
        """Where it fails, for lack of memory say, rounds run as they stand from here on."""
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        try:
            with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
                self.round.run(mode)
        except RuntimeError as error:  # a device that is lost says so again at its next call
            log.warning("No CUDA graph of %s, so rounds run without, slower: %s", mode, error)
            self.captures = False
            torch.cuda.set_stream(stream)  # a capture that broke leaves its own in place
            return
        self._graphs[mode] = graph
