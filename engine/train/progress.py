"""The progress of a run: its clock, a bar for people, and a small file for programs that watch it."""

from __future__ import annotations

import contextlib
import json
import time
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar

from engine.errors import DiskError
from engine.files import read_json, write_private
from engine.train.schema import Budget

_PLAIN_EVERY_S = 30.0  # without a terminal: a line so often
_WRITE_EVERY_S = 0.5


class Clock:
    """Tracks a run's progress: the fraction of its tokens or minutes, whichever is larger."""

    def __init__(self, budget: Budget, tokens: int = 0, seconds: float = 0.0) -> None:
        self._budget, self.tokens, self._before = budget, tokens, seconds
        self._start = time.monotonic()

    @property
    def seconds(self) -> float:
        return self._before + time.monotonic() - self._start

    @property
    def progress(self) -> float:
        parts = [0.0]
        if self._budget.tokens is not None:
            parts.append(self.tokens / max(1, self._budget.tokens))
        if self._budget.minutes is not None:
            parts.append(self.seconds / max(1e-9, self._budget.minutes * 60))
        return min(1.0, max(parts))

    @property
    def seconds_left(self) -> float:
        done = self.progress
        return self.seconds * (1 - done) / done if done > 0 else 0.0


class Timer:
    """True once every so many minutes."""

    def __init__(self, minutes: float) -> None:
        self._every, self._last = minutes * 60, time.monotonic()

    def due(self) -> bool:
        if time.monotonic() - self._last < self._every:
            return False
        self._last = time.monotonic()
        return True


class Phase(StrEnum):
    """The phase of a run, or how it ended."""

    RECORDING = "recording"
    LEARNING = "learning"
    MEASURING = "measuring"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"


class Tell(Protocol):
    """Hears how far a phase is."""

    def __call__(self, **details: object) -> None: ...


class ProgressFile:
    """One JSON object, always whole: ``phase``, and what belongs to it.

    recording: ``done`` of ``of`` replies, ``seconds_left``; learning: ``share`` (0 to 1),
    ``seconds_left``; measuring: ``share``, 1 at the end of learning, and after the first reply
    ``done``, ``of`` and ``seconds_left``; stopped: those of the phase before; failed: ``message``.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last: tuple[Phase, float] | None = None

    def write(self, phase: Phase, **details: object) -> None:
        """Replace the file, at most twice a second within a phase.

        Ignore a full disk: the checkpoint reports it.
        """
        now = time.monotonic()
        if (
            self._last is not None
            and self._last[0] is phase
            and now - self._last[1] < _WRITE_EVERY_S
        ):
            return
        self._last = (phase, now)
        with contextlib.suppress(DiskError):
            write_private(self._path, json.dumps({"phase": phase, **details}))

    def read(self) -> dict[str, Any]:
        """Return what was written last; empty if nothing was."""
        try:
            content = read_json(self._path)
        except (OSError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}


class Progress:
    """A bar in a terminal, a line now and then in a file. Use as a context manager."""

    def __init__(self, stage: str, file: ProgressFile) -> None:
        self._stage, self._console, self._file = stage, Console(), file
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>5.1f} %  {task.fields[speed]}"),
            console=self._console,
        )
        self._task = self._bar.add_task(stage, total=1.0, speed="starting")
        self._loss: float | None = None
        self._seen: tuple[float, int] | None = None
        self._printed = 0.0

    def __enter__(self) -> Progress:
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._bar.stop()

    def update(self, clock: Clock, loss: float) -> None:
        """Show the state after a step, with a smoothed loss."""
        self._loss = loss if self._loss is None else 0.95 * self._loss + 0.05 * loss
        self._file.write(
            Phase.LEARNING,
            share=round(clock.progress, 4),
            seconds_left=round(clock.seconds_left, 1),
        )
        now = time.monotonic()
        self._seen = self._seen or (now, clock.tokens)
        elapsed = now - self._seen[0]
        rate = (clock.tokens - self._seen[1]) / elapsed if elapsed > 0 else 0.0
        left = clock.seconds_left / 60
        speed = f"{rate:,.0f} tokens/s  loss {self._loss:.3f}  {left:.0f} min left"
        self._bar.update(self._task, completed=clock.progress, speed=speed)
        if not self._console.is_terminal and now - self._printed > _PLAIN_EVERY_S:
            self._printed = now
            print(f"{self._stage} {clock.progress:.1%}  {speed}", flush=True)


def report(line: str) -> None:
    """Print a line and flush it."""
    print(line, flush=True)
