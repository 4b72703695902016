"""Other programs, started for a test and ended with it."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tests.support.places import ROOT

PATIENCE_S = 400
"""For a program to do what it is waited for; on a loaded machine a start takes its time."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Program:
    """A program that runs, with all that it starts, and the file that it writes its words into."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def said(self) -> str:
        """Everything so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def until(self, what: Callable[[], T | None]) -> T:
        """What ``what`` gives as soon as it gives something; fails where the program ends before."""
        end = time.monotonic() + PATIENCE_S
        while True:
            with contextlib.suppress(OSError):
                if found := what():
                    return found
            assert self.process.poll() is None, f"it ended: {self.said[-3000:]}"
            assert time.monotonic() < end, f"nothing came: {self.said[-3000:]}"
            time.sleep(0.05)

    def send(self, number: signal.Signals) -> None:
        """To the program alone."""
        self.process.send_signal(number)

    def ended(self) -> int:
        """Its exit status, once it has one."""
        return self.process.wait(PATIENCE_S)


@contextlib.contextmanager
def running(
    words: Sequence[str],
    log: Path,
    environment: Mapping[str, str] | None = None,
    folder: Path = ROOT,
) -> Iterator[Program]:
    """``words`` in ``folder``; it and what it started are gone at the end."""
    with log.open("wb") as file:
        process = subprocess.Popen(
            list(words),
            cwd=folder,
            env={**os.environ, **(environment or {})},
            stdout=file,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    try:
        yield Program(process, log)
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
        process.wait()


def free_port() -> int:
    """A port that nobody listens on, of those that the system gives nobody who asks for any: tests of
    other processes would get it before it is used."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
