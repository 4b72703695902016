"""The progress bar of a training stage: share done, tokens a second, loss, time left."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar

from engine.train.machine import Clock

_PLAIN_EVERY_S = 30.0  # without a terminal: a line so often


class Progress:
    """A bar in a terminal, a line now and then in a file. Use as a context manager."""

    def __init__(self, stage: str) -> None:
        self._stage, self._console = stage, Console()
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>5.1f} %  {task.fields[figures]}"),
            console=self._console,
        )
        self._task = self._bar.add_task(stage, total=1.0, figures="starting")
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
        """Shows the state after a step; the loss is smoothed."""
        self._loss = loss if self._loss is None else 0.95 * self._loss + 0.05 * loss
        now = time.monotonic()
        self._seen = self._seen or (now, clock.tokens)
        elapsed = now - self._seen[0]
        speed = (clock.tokens - self._seen[1]) / elapsed if elapsed > 0 else 0.0
        left = clock.seconds_left / 60
        figures = f"{speed:,.0f} tokens/s  loss {self._loss:.3f}  {left:.0f} min left"
        self._bar.update(self._task, completed=clock.progress, figures=figures)
        if not self._console.is_terminal and now - self._printed > _PLAIN_EVERY_S:
            self._printed = now
            print(f"{self._stage} {clock.progress:.1%}  {figures}", flush=True)


def report(line: str) -> None:
    """A line for people, shown at once even in a file."""
    print(line, flush=True)
