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
_PATIENCE_S = 30.0  # a step may take long; what is asked a second time stops within it


def start(words: Iterable[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
    """Runs ``foretoken`` with ``words``; all that it says goes to ``log``. Raises OSError."""
    return subprocess.Popen(
        [sys.executable, "-m", "app", *words],
        cwd=paths.project_root(),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # Ctrl-C is for the app, which ends it in its own way
    )


def find(number: int, born: float) -> psutil.Process | None:
    """The process of that id, if it still runs and no later one has taken the id."""
    try:
        process = psutil.Process(number)
        alive = process.status() != psutil.STATUS_ZOMBIE
        return process if alive and abs(process.create_time() - born) < 2 else None
    except psutil.Error:
        return None


def put_behind(number: int) -> float:
    """Lets the chat go first on the processor and stay last in memory; returns when it was born."""
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
    """Asks, asks again, and then does not ask."""
    for act in (process.terminate, process.terminate, process.kill):
        try:
            act()
            process.wait(_PATIENCE_S)
        except (subprocess.TimeoutExpired, psutil.TimeoutExpired):
            continue
        except psutil.NoSuchProcess:
            pass
        return
