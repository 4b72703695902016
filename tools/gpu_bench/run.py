"""The whole run: every model in every format, from the smallest to the largest, within the budget.

If time runs out, the largest models are left out. Both files are written after every part, so a run that
is killed leaves its results. A part that fails does not affect others, unless the GPU no longer answers:
then ``supervise`` goes on in a new process.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from engine.errors import OutOfMemory
from engine.machine import device_memory, devices
from engine.values.units import format_bytes
from tools.gpu_bench import device, engines, rivals, shapes
from tools.gpu_bench.budget import Budget, LeftOut
from tools.gpu_bench.clock import Clock
from tools.gpu_bench.contest import Contest
from tools.gpu_bench.kernels import time_attention, time_linear
from tools.gpu_bench.report import Report
from tools.gpu_bench.shapes import Sizes
from tools.gpu_bench.state import State
from tools.gpu_bench.steps import PAST, compare_bits, time_steps

log = logging.getLogger(__name__)

RIVALS_UP_TO = 10_000_000_000
"""Parameters: larger models are not loaded a second time."""
COMPILED_UP_TO = 9_000_000_000
ASSUMED_BANDWIDTH = 1e12
"""Bytes per second for estimates if the bandwidth was not measured."""
REST = "all the rest"
SPARE_BYTES = 4_000_000_000
"""Room for caches, copies of weights, drafts, and a matrix being quantised."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a run. ``device``: cuda, or cpu for a rehearsal. Empty ``models``, ``kinds``: all."""

    minutes: float
    folder: Path
    device: str = device.CUDA
    models: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the run. ``seconds`` and ``bytes`` are estimates of what it takes."""

    name: str
    seconds: float
    bytes: int
    work: Callable[[], None]


class Run:
    """One run on one device. ``say`` is called with each part as it begins."""

    def __init__(
        self,
        options: Options,
        say: Callable[[str], None] = lambda text: None,
        state: State | None = None,
    ) -> None:
        """``state``: the results of an earlier process, and where this one writes its progress.

        Raise NotInstalled without a GPU, InvalidRequest for unknown models.
        """
        self.options, self.say, self.state = options, say, state
        torch_device = device.find(options.device)
        self.real = torch_device.type == "cuda"
        self.repeats = 15 if self.real else 2
        known = shapes.REAL if self.real else shapes.REHEARSAL
        self.models = shapes.choose(list(options.models), known)
        self.kinds = [kind for kind in engines.KINDS if not options.kinds or kind in options.kinds]
        self.clock, self.budget = Clock(torch_device), Budget(60 * options.minutes)
        today = datetime.now(UTC).date().isoformat()
        earlier = None if state is None else state.report()
        self.report = earlier or Report(device.facts(torch_device), today, options.minutes)
        self.report.minutes = max(self.report.minutes, options.minutes)
        self.before = self.report.seconds

    def __call__(self) -> Report:
        """Run all parts that fit. Report the error of a part that fails; the others go on."""
        alive = True
        for part in self._parts():
            if part.name in self.report.done:
                continue
            if not alive:
                self._leave_out(REST, "the GPU does not answer any more")
                break
            reason = self._no_room(part) or self.budget.refuses(part.seconds)
            if reason is None:
                alive = self._do(part.name, part.work, part.seconds)
            else:
                self._leave_out(part.name, reason)
            self.report.done.append(part.name)
            self._write()
        self.report.finished = alive
        self._write()
        return self.report

    def _parts(self) -> Iterator[Part]:
        """Yield each model's steps and speeds by format, then its kernels; torch.compile comes late."""
        yield Part("read bandwidth", 2.0, 0, self._bandwidth)
        small = [sizes for sizes in self.models if sizes.parameters <= COMPILED_UP_TO][:2]
        compiled = small[-1:] if "bf16" in self.kinds else []
        for sizes in self.models:
            for kind in self.kinds:
                yield self._model_part(sizes, kind)
            yield from self._kernel_parts(sizes)
            if sizes == self.models[:3][-1]:
                yield from (self._model_part(one, "bf16", compiled=True) for one in compiled)

    def _model_part(self, sizes: Sizes, kind: str, compiled: bool = False) -> Part:
        beside = kind == "bf16" and sizes.parameters <= RIVALS_UP_TO
        weights = sizes.weight_bytes(kind) + (sizes.weight_bytes("bf16") if beside else 0)
        name = f"{sizes.name} in {kind}" + (", with torch.compile" if compiled else "")
        if not self.real:
            return Part(name, 1.0, weights, lambda: self._model(sizes, kind, beside, compiled))
        speed = self.report.bandwidth or ASSUMED_BANDWIDTH
        step = sizes.read_bytes(kind, PAST) / speed
        # Compile kernels; make and quantise weights; time steps; decode tokens.
        seconds = 10 + 60 * weights / speed + 16 * 30 * step + 1000 * step
        seconds += 60 if compiled else 25 if beside else 0
        return Part(
            name, seconds, weights + SPARE_BYTES, lambda: self._model(sizes, kind, beside, compiled)
        )

    def _kernel_parts(self, sizes: Sizes) -> Iterator[Part]:
        """Yield the linear kernels of each format, attention, and bitsandbytes, as separate parts."""
        seconds, room = (6.0, 2 * SPARE_BYTES) if self.real else (0.3, 0)
        for kind in self.kinds:
            name = f"{kind} kernels of {sizes.name}"
            yield Part(name, seconds, room, partial(self._linear, sizes, kind))
        yield Part(f"attention of {sizes.name}", seconds, room, partial(self._attention, sizes))
        missing = rivals.why_no_bitsandbytes()
        if missing is None:
            name = f"bitsandbytes beside {sizes.name}"
            yield Part(name, seconds, room, partial(self._bitsandbytes, sizes))
        elif all(one.part != "bitsandbytes" for one in self.report.left_out):
            self._leave_out("bitsandbytes", missing)

    def _no_room(self, part: Part) -> str | None:
        free = device_memory.gpu_free_bytes(devices.choose().torch_device) if self.real else None
        if free is None or part.bytes <= free:
            return None
        return f"it needs {format_bytes(part.bytes)} and {format_bytes(free)} are free on the GPU"

    def _do(self, name: str, work: Callable[[], None], estimate: float) -> bool:
        """Run a part; return whether the device still answers afterwards."""
        self.say(name)
        if self.state is not None:
            # Do not lower the estimate: a quick part says little about one that compiles.
            self.state.begin(self.report, name, max(estimate, self.budget.expected(estimate)))
        try:
            self.budget.run(
                estimate,
                lambda: device_memory.within_memory(work, lambda: "the GPU's memory ran out"),
            )
        except OutOfMemory as error:
            self._leave_out(name, str(error))
        except Exception as error:  # a run on a lent GPU must not end with one error
            self._failed(name, error)
        self._write()
        try:
            self.clock.check()
            device_memory.release()
        except RuntimeError:
            return False
        return True

    def _leave_out(self, part: str, reason: str) -> None:
        self.report.left_out.append(LeftOut(part, reason))

    def _failed(self, name: str, error: Exception) -> None:
        log.error("%s failed", name, exc_info=error)
        lines = str(error).splitlines() or [""]
        self._leave_out(name, f"it failed: {type(error).__name__}: {lines[0]}")

    @contextmanager
    def _noting_errors(self, name: str) -> Iterator[None]:
        """Report an error within under ``name`` and go on; write the results."""
        try:
            yield
        except Exception as error:
            self._failed(name, error)
        self._write()

    def _write(self) -> None:
        self.report.seconds = self.before + self.budget.spent()
        self.report.write(self.options.folder)
        if self.state is not None:
            self.state.save(self.report)

    def _bandwidth(self) -> None:
        self.report.bandwidth, _ = device.read_bandwidth(self.clock)

    def _linear(self, sizes: Sizes, kind: str) -> None:
        report = self.report
        for name in sizes.linear_layers():
            with self._noting_errors(f"{kind} {name} of {sizes.name}"):
                report.kernels += time_linear(
                    sizes, name, kind, self.clock, report.bandwidth, self.repeats
                )

    def _attention(self, sizes: Sizes) -> None:
        pasts = (1024, 8192) if self.real else (64,)
        report = self.report
        report.kernels += time_attention(sizes, self.clock, report.bandwidth, self.repeats, pasts)

    def _bitsandbytes(self, sizes: Sizes) -> None:
        report = self.report
        report.kernels += rivals.time_bitsandbytes(
            sizes, self.clock, report.bandwidth, self.repeats
        )

    def _model(self, sizes: Sizes, kind: str, beside: bool, compiled: bool) -> None:
        """Measure steps, bits and speeds; with ``compiled`` only speeds, compared with torch.compile."""
        report, clock, name = self.report, self.clock, f"{sizes.name} in {kind}"
        contest = Contest(sizes, kind, clock)
        past = PAST if self.real else 64
        times: dict[int, float] = {}
        with self._noting_errors(f"steps of {name}"):
            steps, graphs = time_steps(
                contest.model, sizes, clock, report.bandwidth, self.repeats, past
            )
            times = {one.rows: one.times.median for one in steps}
            if not compiled:
                report.steps += steps
                report.graphs.append(graphs)
        if not compiled:
            with self._noting_errors(f"bits of {name}"):
                report.bits.append(compare_bits(contest.model))
        speeds, captured = contest.run(
            times,
            beside=beside and not compiled,
            compiled=compiled,
            on_error=lambda what, error: self._failed(f"{what} with {name}", error),
        )
        report.speeds += speeds
        report.graphs += captured
