"""Output of commands: tables, progress bars, and files of measurements."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from engine.errors import InvalidRequest


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: frozenset[int]) -> str:
    """Return aligned columns under ``head``; those in ``right`` are aligned to the right."""
    lines = [list(head), *(list(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


@contextlib.contextmanager
def progress(task: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on standard error; call what it yields with how much is done, and of how much."""
    # Not for --help: every command's file is imported there.
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn(task), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        number = bar.add_task(task, total=None)
        yield lambda done, total: bar.update(number, completed=done, total=total)


def check_writable(file: Path, option: str = "out") -> None:
    """Raise InvalidRequest where the file of an option cannot be written, before anything is measured."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        there = file.exists()
        with file.open("ab"):
            pass
        if not there:
            file.unlink()  # a run that is interrupted leaves nothing behind
    except OSError as error:
        raise InvalidRequest(
            option,
            f"{file} cannot be written: {error.strerror or error}. Choose another --{option}.",
        ) from error
