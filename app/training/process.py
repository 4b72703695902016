"""The process that works on a training: started behind the chat, found again, ended."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO

import psutil

from app import paths

Process = subprocess.Popen[bytes] | psutil.Process

NICE = 10
_PATIENCE_S = 30.0  # a training step may take long; a second SIGTERM stops within it


def start(words: Iterable[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start ``foretoken`` with the arguments ``words`` and its output in ``log``. Raises OSError."""
    return subprocess.Popen(
        [sys.executable, "-m", "app", *words],
        cwd=paths.packages(),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # Ctrl-C is for the app, which ends it in its own way
    )


def find(number: int, born: float) -> psutil.Process | None:
    """Return the process if it still runs, and if no later one has taken its id."""
    try:
        process = psutil.Process(number)
        alive = process.status() != psutil.STATUS_ZOMBIE
        return process if alive and abs(process.create_time() - born) < 2 else None
    except psutil.Error:
        return None


def put_behind(number: int) -> float:
    """Lower its priority, and let it be killed first if memory is short. Return when it started."""
    if psutil.LINUX:
        with suppress(OSError):
            Path(f"/proc/{number}/oom_score_adj").write_text("500", encoding="ascii")
    with suppress(psutil.Error):  # it may have ended by now
        process = psutil.Process(number)
        if sys.platform == "win32":
            process.nice(psutil.BELOW_NORMAL_PRIORITY_CLASS)
        else:
            process.nice(NICE)
        return process.create_time()
    return time.time()


def end(process: Process) -> None:
    """Send SIGTERM twice, ``_PATIENCE_S`` apart, then SIGKILL."""
    for act in (process.terminate, process.terminate, process.kill):
        try:
            act()
            process.wait(_PATIENCE_S)
        except (subprocess.TimeoutExpired, psutil.TimeoutExpired):
            continue
        except psutil.NoSuchProcess:
            pass
        return
