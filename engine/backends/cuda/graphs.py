"""Capture rounds as CUDA graphs and replay them; read their results on the host one round late.

A mode has a dry run before it is captured, because kernels cannot be compiled within a capture. So every
round of a request is a replay, and its time is that of a replay. A graph is replayed once as a trial: if
that gives other bits than the dry run, rounds of this mode run without it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from engine.backends.cuda import GRAPH_DEPTHS, kept_graphs, prepared
from engine.backends.cuda.capture import Graph, capture
from engine.backends.cuda.round import TIMES, DeviceRound, Mode
from engine.backends.cuda.trial.verdicts import Verdict, kernel_errors
from engine.kernels.cuda.sampling.acceptance import Rule, read_result
from engine.machine.device_memory import pinned
from engine.machine.devices import ran_out
from engine.values import RoundResult
from engine.values.sampling import AcceptanceRule, Sampling

log = logging.getLogger(__name__)

_UNREAD = 2
"""Most rounds whose results the host has not read yet."""
_DRY_RUN_TEXT = (0, 0, 0)
"""The text of rounds that are captured before any request."""
_pinned: list[Tensor] = []
"""Pinned memory of all runners, some hundred bytes each. It is never freed: freeing makes torch call the
device, and if that is lost, the error ends the process."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A ``PendingRound``; ``copied`` is recorded after the copy of its result to the host.

    ``top``: the number of most likely tokens that are read of each row.
    """

    depth: int
    top: int
    result: Tensor
    copied: torch.cuda.Event | None

    def read(self) -> RoundResult:
        if self.copied is not None:
            self.copied.synchronize()
        begin, drafted, verified, end = self.result[TIMES].view(torch.int64).tolist()
        times = (drafted - begin + end - verified) / 1e9, (end - begin) / 1e9
        return read_result(self.result, self.depth, *times, self.top)


class Runner:
    """The ``RoundRunner`` of one ``DeviceRound``: runs it as graphs if ``captures``.

    A kernel that cannot be launched is noted in ``verdict``, the target's.
    """

    depths = GRAPH_DEPTHS

    def __init__(
        self, round: DeviceRound, captures: bool = True, verdict: Verdict | None = None
    ) -> None:
        self.round, self._verdict = round, verdict
        self.put, self.allow = round.put, round.allow
        self._rule, self._top, self._options = Rule.GREEDY, 0, (False, False)
        device = round.target.device
        cuda = device.type == "cuda"
        self.captures = captures and cuda
        self._graphs: dict[Mode, Graph | None] = {}  # None: it does not work
        self._prepared = 0  # the first of them, which stay
        self._steps = 0 if round.drafter is None else round.drafter.steps
        self._most, _ = kept_graphs(self._steps)
        self._deepest, self._uncaptured = max(self.depths), ""
        self._pool = torch.cuda.graph_pool_handle() if self.captures else None
        empty = pinned if cuda else torch.empty
        self._copies = [empty(round.result.shape, dtype=torch.int32) for _ in range(_UNREAD)]
        if cuda:
            _pinned.extend(self._copies)
        self._launched = 0

    def begin(
        self,
        sampling: Sampling,
        rule: AcceptanceRule,
        seed: int,
        tokens: Sequence[int],
        prompt_length: int,
        bias: Sequence[tuple[int, float]] = (),
        top_tokens: int = 0,
    ) -> None:
        self._rule, self._top = Rule[rule.name], top_tokens
        # No truncation removes the most likely token.
        truncates = sampling.truncates and self._rule is not Rule.GREEDY
        self._options = sampling.penalises or bool(bias), truncates
        self.round.begin(sampling, seed, list(tokens), prompt_length, bias)

    def mode(
        self, depth: int, *, drafts: bool = False, sampled: bool = False, masked: bool = False,
        tree: bool = False, levels: int = 0,
    ) -> Mode:  # fmt: skip
        """Return the mode of such a round in this request."""
        top, options = self._top > 0, self._options
        return Mode(
            depth, self._rule, drafts, sampled, masked, top, *options, tree=tree, levels=levels
        )

    def launch(
        self, depth: int, *, drafts: bool = False, sampled: bool = False, masked: bool = False,
        tree: bool = False, levels: int = 0, logits: Tensor | None = None,
    ) -> Pending:  # fmt: skip
        """See ``RoundRunner``. It waits for nothing, except to compile and capture a new mode."""
        mode = self.mode(
            depth, drafts=drafts, sampled=sampled, masked=masked, tree=tree, levels=levels
        )
        if logits is not None:
            self.round.put_logits(logits)
            mode = replace(mode, precomputed=True)
        self._prepare(mode)
        graph = self._graphs.get(mode)
        with kernel_errors(self._verdict):
            if graph is None or not graph.replay():
                self.round.run(mode)
        copy = self._copies[self._launched % _UNREAD]
        copy.copy_(self.round.result, non_blocking=True)
        self._launched += 1
        copied = None
        if self.round.result.is_cuda:
            copied = torch.cuda.Event()
            copied.record()
        return Pending(mode.depth, self._top, copy, copied)

    def prepare(self) -> str:
        """See ``RoundRunner``. What few requests have comes later."""
        for rule, sampling, depth, drafts in prepared(self._steps):
            self.begin(sampling, rule, 0, _DRY_RUN_TEXT, len(_DRY_RUN_TEXT))
            self._prepare(self.mode(depth, drafts=drafts))
            self._prepared = len(self._graphs)
        return self._uncaptured

    def prepare_trees(self, nodes: int) -> None:
        for levels in self.depths[1:]:
            if levels <= min(nodes, self._steps):
                self._prepare(self.mode(nodes, drafts=True, tree=True, levels=levels))

    def _prepare(self, mode: Mode) -> None:
        """Compile and capture the mode, unless that was done or nothing is captured.

        A tree whose rows were computed elsewhere has no dry run, which would move these rows twice.
        """
        known = mode in self._graphs or mode.depth > self._deepest
        if self.captures and not known and not (mode.tree and mode.precomputed):
            with kernel_errors(self._verdict):
                self._capture(mode, self.round.dry_run(mode))

    def _capture(self, mode: Mode, right: list[Tensor]) -> None:
        """Capture the round and try the graph, which must give ``right``.

        Without memory for it, capture only rounds of less depth from now on; after another failure, none.
        """
        graph = capture(partial(self.round.run, mode), str(mode), self._pool)
        if isinstance(graph, BaseException):
            if ran_out(graph):
                self._deepest = mode.depth - 1
            else:
                self.captures = False
            why = (str(graph).splitlines() or [type(graph).__name__])[0]
        else:
            if len(self._graphs) == self._most:
                del self._graphs[list(self._graphs)[self._prepared]]
            replayed = self.round.dry_run(mode, graph.replay)
            if all(map(torch.equal, right, replayed)):
                self._graphs[mode] = graph
                return
            self._graphs[mode], why = None, "a graph gave other results than its operations"
            log.warning("No CUDA graph of %s, so it runs without one, slower: %s", mode, why)
        self._uncaptured = self._uncaptured or why
