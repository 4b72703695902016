"""Output of commands: tables, progress bars, files of measurements, and replies: their text as it comes,
its origins where asked for, its statistics."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from engine.errors import InvalidRequest, what_failed
from engine.events import Emitted, Event, Finished, Origin, Queued, Started
from engine.stats import Statistics, percent, times
from engine.thoughts import Thoughts
from engine.values.units import counted


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: frozenset[int]) -> str:
    """Return aligned columns under ``head``; those in ``right`` are aligned to the right. Cells may be of
    strangers: names of files, models and servers."""
    lines = [list(map(harmless, line)) for line in (head, *rows)]
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
    if not file.parent.exists():
        raise InvalidRequest(
            option,
            f"The folder {file.parent} does not exist. Create it, or choose another --{option}.",
        )
    with writing(file, option):
        there = file.exists()
        with file.open("ab"):
            pass
        if not there:
            file.unlink()  # a run that is interrupted leaves nothing behind


@contextlib.contextmanager
def writing(file: Path, option: str = "out") -> Iterator[None]:
    """Raise InvalidRequest where this block cannot write the file of an option."""
    try:
        yield
    except OSError as error:
        why = f"{file} cannot be written: {what_failed(error)}. Choose another --{option}."
        raise InvalidRequest(option, why) from error


@contextlib.contextmanager
def reading(file: Path | str, option: str) -> Iterator[None]:
    """Raise InvalidRequest where this block cannot read the file of an option."""
    try:
        yield
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(option, f"{file} cannot be read: {what_failed(error)}.") from error


def report_file(out: Path, suffix: str = ".json") -> Path:
    """Return one of the files of OUT, whose name may have a dot, as in qwen2.5."""
    stem = out.with_suffix("") if out.suffix in (".json", ".md", ".svg") else out
    return stem.with_name(stem.name + suffix)


def write_report(out: Path, value: str, page: str, chart: str) -> None:
    """Write OUT.json, OUT.md and OUT.svg."""
    for suffix, text in ((".json", f"{value}\n"), (".md", page), (".svg", chart)):
        with writing(file := report_file(out, suffix)):
            file.write_text(text, encoding="utf-8")


_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters but tab and line feed, and those that turn the direction of text around."""


def harmless(text: str) -> str:
    """Return ``text`` without what could steer the terminal or disguise what it shows."""
    return _STEERING.sub("?", text)


RESET = "\x1b[0m"


@dataclass(frozen=True, slots=True)
class Marks:
    """Prefix and suffix of tokens by kind: accepted drafts, rejected drafts, the target's own."""

    accepted: tuple[str, str]
    rejected: tuple[str, str]
    own: tuple[str, str]


STYLED = Marks(("\x1b[1m", RESET), ("\x1b[2;9m", RESET), ("\x1b[4m", RESET))
"""Bold, dim and struck through, underlined."""
PLAIN = Marks(("[", "]"), ("~", "~"), ("", ""))
"""For files and terminals without styles."""


def marks_for(stream: IO[str]) -> Marks:
    """Return styles for a terminal, and signs for other streams and where NO_COLOR is set."""
    return STYLED if stream.isatty() and not os.environ.get("NO_COLOR") else PLAIN


class Printer:
    """Events in, text out. Writes to ``stream`` as it goes.

    A thought that the prompt opened stands behind "(thinking)": the model does not write its first mark.
    """

    def __init__(self, stream: IO[str], marks: Marks | None = None) -> None:
        self.stream = stream
        self.marks = marks
        self._shown = harmless if stream.isatty() else str
        self._thoughts: Thoughts | None = None  # until the answer begins

    def show(self, event: Event) -> None:
        """Write what ``event`` adds."""
        if isinstance(event, Queued):
            self._write(f"(waiting: {event.ahead} ahead)\n")
        elif isinstance(event, Started):
            self._thoughts = Thoughts(opened=True) if event.thinking and not self.marks else None
            self._write("(thinking)\n" if event.thinking else "")
        elif isinstance(event, Emitted):
            self._write(
                self._split(self._shown(event.text))
                if self.marks is None
                else marked(event, self.marks, self._shown)
            )
        elif isinstance(event, Finished):
            # Marked tokens were written whole, the held-back text at the end included.
            marked_whole = self.marks is not None and event.token_ids is not None
            self._write(
                "\n" if marked_whole else f"{self._split(self._shown(event.tail), last=True)}\n"
            )

    def _split(self, text: str, *, last: bool = False) -> str:
        """Return ``text`` with a line between thought and answer instead of the mark."""
        if self._thoughts is None:
            return text
        thought, answer = self._thoughts.read(text, last=last)
        if not answer:
            return thought
        self._thoughts = None
        return f"{thought}\n(answer)\n{answer}"

    def _write(self, text: str) -> None:
        self.stream.write(text)
        self.stream.flush()


def marked(event: Emitted, marks: Marks, shown: Callable[[str], str]) -> str:
    """Return one round's tokens, as ``shown``, with their origins: accepted, rejected, and the target's
    own.

    Return the plain text if the engine reports no tokens.
    """
    if event.tokens is None:
        return shown(event.text)
    kept = frozenset(event.round.accepted_path) if event.round else frozenset()
    accepted = [token.text for token in event.tokens if token.origin is Origin.DRAFT]
    rejected = [text for node, text in enumerate(event.drafted) if node not in kept]
    own = [token.text for token in event.tokens if token.origin is not Origin.DRAFT]
    return "".join(
        f"{mark[0]}{shown(text)}{mark[1]}"
        for texts, mark in (
            (accepted, marks.accepted),
            (rejected, marks.rejected),
            (own, marks.own),
        )
        for text in texts
        if text
    )


def summary(statistics: Statistics) -> str:
    """Return the statistics of a reply in one line, as far as the engine reported them."""
    parts = []
    if statistics.completion_tokens:
        parts.append(counted(statistics.completion_tokens, "token"))
    if statistics.rounds:
        parts.append(counted(statistics.rounds, "round"))
    if statistics.tokens_per_s is not None:
        parts.append(f"{statistics.tokens_per_s:.1f} tokens/s")
    if statistics.acceptance_rate is not None:
        parts.append(
            f"accepted {statistics.accepted} of {statistics.drafted} drafted "
            f"({percent(statistics.acceptance_rate)})"
            + (", all users of the server" if statistics.shared else "")
        )
    if statistics.mean_acceptance_length is not None:
        parts.append(f"mean acceptance length {statistics.mean_acceptance_length:.2f}")
    if statistics.time_to_first_token_s is not None:
        parts.append(f"first token after {statistics.time_to_first_token_s * 1000:.0f} ms")
    if statistics.late_prefill_s:
        parts.append(
            f"then {statistics.late_prefill_s * 1000:.0f} ms for the draft to read the prompt"
        )
    if statistics.telling_speedup:
        parts.append(f"{times(statistics.telling_speedup)} the speed without drafting")
    # Why drafts were made is a forecast: beside what was measured it would contradict it.
    if statistics.decision is not None and not statistics.decision.depth:
        parts.append(statistics.decision.why)
    return ", ".join(parts)
