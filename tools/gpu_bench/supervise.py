"""Run the bench in a process of its own; if that ends early, run the rest in a new one.

After a device error CUDA refuses every call of the process, and a kernel that never returns cannot be
cancelled from within. On a lent GPU neither may cost more than the part in which it happens.
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
"""Exit statuses of the process: all parts have ended, or the GPU no longer answers."""
PROCESSES = 6
"""Most processes of a run: a lost GPU may stay lost."""
PART_GRACE_S = 60.0
"""Time beyond a part's estimate, for compiling and loading."""
GRACE_S = 45.0
"""Time beyond the budget for the current part; then it is killed too."""
_LOOK_S = 0.2

Command = Callable[[Options, Path], Sequence[str]]
"""Return the command of a run with these options and the state in this file."""


def supervise(
    options: Options, say: Callable[[str], None] = lambda text: None, command: Command | None = None
) -> Report:
    """Run ``Run`` in processes and raise its errors; report a part that ended its process."""
    if options.device != device.CUDA or not torch.cuda.is_available():
        device.find(options.device)  # not with a GPU: a context of this process would take memory
    with tempfile.TemporaryDirectory() as folder:
        state = State(Path(folder) / "state.json")
        watch = _Watch(options, state, say, command or _bench_command)
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
    """The end of the budget."""

    def __post_init__(self) -> None:
        self.ends = monotonic() + 60 * self.options.minutes

    def run_once(self) -> bool:
        """Start a process and wait for it; return whether nothing is left to do or to try."""
        left = max(self.ends - monotonic(), 1.0)
        options = replace(self.options, minutes=left / 60)
        with subprocess.Popen(self.command(options, self.state.file)) as process:
            try:
                ended = self._wait(process)
            finally:
                with contextlib.suppress(OSError):
                    process.kill()  # also after Ctrl-C
        report, part = self.state.report(), self.state.part()
        if report is None:
            raise ForetokenError(
                self.state.error()
                or f"The run ended before it began ({ended}); what it said stands above. Correct that, "
                "or try --device cpu."
            )
        if process.returncode == FINISHED:
            return True
        report.left_out = [one for one in report.left_out if one.part != REST]
        if part is not None:
            report.left_out.append(LeftOut(part.name, ended))
            report.done.append(part.name)
        elif process.returncode != LOST:  # it ended between parts, and the next one would too
            report.left_out.append(LeftOut(REST, self.state.error() or ended))
        self.state.save(report)
        report.write(self.options.folder)
        return monotonic() >= self.ends or (part is None and process.returncode != LOST)

    def _wait(self, process: subprocess.Popen[bytes]) -> str:
        """Wait until the process ends, or kill it; return the reason."""
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
            if part is not None and now - began > SLOWEST * part.estimate + PART_GRACE_S:
                process.kill()
                process.wait()
                return f"it did not end within {now - began:.0f} s, and was ended"
            sleep(_LOOK_S)
        if process.returncode < 0:
            return f"its process was ended by signal {-process.returncode}"
        return f"its process ended with status {process.returncode}"

    def finish(self) -> Report:
        """Return the results of all processes."""
        report = self.state.report()
        assert report is not None
        report.minutes = self.options.minutes
        report.write(self.options.folder)
        return report


def _bench_command(options: Options, state: Path) -> list[str]:
    """Return this bench's own command."""
    command = [
        sys.executable, "-m", "tools.gpu_bench", "--state", str(state),
        "--minutes", str(options.minutes), "--out", str(options.folder), "--device", options.device,
    ]  # fmt: skip
    command += [f"--model={name}" for name in options.models]
    return [*command, *(f"--kind={kind}" for kind in options.kinds)]
