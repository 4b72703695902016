"""The run in a process of its own; where that ends early, the rest of it in a fresh one.

After an error of its own CUDA refuses every call of a process, and a kernel that never returns cannot be
called off from within. On a lent GPU neither may cost more than the part that it befell.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic, sleep

import torch

from engine.errors import ForetokenError
from tools.gpu_bench import device
from tools.gpu_bench.budget import SLOWEST, LeftOut
from tools.gpu_bench.report import Report
from tools.gpu_bench.run import REST, Options
from tools.gpu_bench.state import State

FINISHED, LOST = 0, 3
"""How the process ends: with all parts over, or with a GPU that answers it no more."""
PROCESSES = 6
"""At most: a GPU that is gone for good is not asked for ever."""
PATIENCE_S = 60.0
"""Beyond what a part was thought to take, for what compiles or loads the first time."""
GRACE_S = 45.0
"""Beyond the budget, for the part under way; then it is ended too."""
_LOOK_S = 0.2

Command = Callable[[Options, Path], Sequence[str]]
"""Starts a run with these options and the state in this file."""


def supervise(
    options: Options, say: Callable[[str], None] = lambda text: None, command: Command | None = None
) -> Report:
    """As ``Run``, whose mistakes it raises; a part that ended its process is noted in the report."""
    if options.device != device.CUDA or not torch.cuda.is_available():
        device.find(
            options.device
        )  # else left to the process: a context here would take memory there
    with tempfile.TemporaryDirectory() as folder:
        state = State(Path(folder) / "state.json")
        watch = _Watch(options, state, say, command or _own)
        for _ in range(PROCESSES):
            if watch.run_once():
                break
        return watch.finish()


@dataclass(slots=True)
class _Watch:
    options: Options
    state: State
    say: Callable[[str], None]
    command: Command
    ends: float = 0.0
    """When the whole time is over."""

    def __post_init__(self) -> None:
        self.ends = monotonic() + 60 * self.options.minutes

    def run_once(self) -> bool:
        """Starts a process and waits for it; whether nothing is left to do, or to be tried."""
        left = max(self.ends - monotonic(), 1.0)
        options = replace(self.options, minutes=left / 60)
        with subprocess.Popen(self.command(options, self.state.file)) as process:
            try:
                ended = self._wait(process)
            finally:
                with contextlib.suppress(OSError):
                    process.kill()  # a run that is broken off by hand, too
        found, part = self.state.report(), self.state.part()
        if found is None:
            raise ForetokenError(
                self.state.error()
                or f"The run ended before it began ({ended}); what it said stands above. Correct that, "
                "or try --device cpu."
            )
        if process.returncode == FINISHED:
            return True
        found.left_out = [one for one in found.left_out if one.part != REST]
        if part is not None:
            found.left_out.append(LeftOut(part.name, ended))
            found.done.append(part.name)
        elif process.returncode != LOST:  # between parts, where the next one would end again
            found.left_out.append(LeftOut(REST, self.state.error() or ended))
        self.state.keep(found)
        found.write(self.options.folder)
        return monotonic() >= self.ends or (part is None and process.returncode != LOST)

    def _wait(self, process: subprocess.Popen[bytes]) -> str:
        """Until the process has ended, or is ended here; why it did."""
        name, began = "", monotonic()
        while process.poll() is None:
            part, now = self.state.part(), monotonic()
            if part is not None and part.name != name:
                name, began = part.name, now
                self.say(name)
            if now > self.ends + GRACE_S:
                process.kill()
                process.wait()
                return "the time was over before it ended"
            if part is not None and now - began > SLOWEST * part.estimate + PATIENCE_S:
                process.kill()
                process.wait()
                return f"it did not end within {now - began:.0f} s, and was ended"
            sleep(_LOOK_S)
        if process.returncode < 0:
            return f"its process was ended by signal {-process.returncode}"
        return f"its process ended with status {process.returncode}"

    def finish(self) -> Report:
        """What was found by all of them."""
        report = self.state.report()
        assert report is not None
        report.minutes = self.options.minutes
        report.write(self.options.folder)
        return report


def _own(options: Options, state: Path) -> list[str]:
    """This bench's own command."""
    command = [
        sys.executable, "-m", "tools.gpu_bench", "--state", str(state),
        "--minutes", str(options.minutes), "--out", str(options.folder), "--device", options.device,
    ]  # fmt: skip
    command += [f"--model={name}" for name in options.models]
    return [*command, *(f"--kind={kind}" for kind in options.kinds)]
