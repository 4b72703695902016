"""A child process with a log of its own: start it, measure its memory, stop it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from engine.errors import PeerFailed, what_failed

_TAIL = 12
"""Lines of a log that a message quotes."""
_GRACE_S = 10.0


def launch(
    name: str,
    command: Sequence[str],
    log: Path,
    environment: Mapping[str, str],
    *,
    piped: bool = False,
    folder: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program in ``folder``, in this environment and ``environment``; its output goes into
    ``log``. ``piped``: its standard input and output are pipes. Raises PeerFailed."""
    with log.open("wb") as output:
        try:
            return subprocess.Popen(
                command,
                stdin=subprocess.PIPE if piped else subprocess.DEVNULL,
                stdout=subprocess.PIPE if piped else output,
                stderr=output,
                env={**os.environ, **environment},
                cwd=folder,
            )
        except OSError as error:
            raise PeerFailed(f"{name} cannot be started: {what_failed(error)}.") from error


def end(process: subprocess.Popen[bytes], *, requested: bool = False) -> None:
    """End the process, by force if it ignores that. ``requested``: it was told to end already."""
    if process.poll() is None and not requested:
        process.terminate()
    try:
        process.wait(timeout=_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def last_words(log: Path) -> str:
    """Return the end of a log, as a message quotes it."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL:]
    return "Its last words:\n" + "\n".join(lines) if lines else "It printed nothing."


def peak_bytes(process: subprocess.Popen[bytes]) -> int | None:
    """Return the peak of its resident set, mapped files included; on macOS, which hides other
    processes' peaks, the current size. None once the process has ended."""
    try:
        for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:  # no such system, or no such process
        pass
    try:
        memory = psutil.Process(process.pid).memory_info()
    except psutil.Error:
        return None
    return int(getattr(memory, "peak_wset", memory.rss))
