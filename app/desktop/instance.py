"""Which app uses a data folder, and its address, so that a second start opens the first one's page."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psutil
from filelock import FileLock, Timeout

from engine.files import read_json, write_private

FILE = "instance.json"
START_S = 60.0
"""Longest wait for an app that holds the lock and has no address yet."""
_ANSWER_S = 5.0
_END_S = 10.0
_POLL_S = 1.0


@dataclass(frozen=True, slots=True)
class Instance:
    """A running app: its address, its process, and when that began, in seconds since 1970."""

    url: str
    process: int
    born: float

    @property
    def alive(self) -> bool:
        """Return whether the process still runs, its id was not given to another, and it listens."""
        with contextlib.suppress(psutil.Error, OSError, ValueError):
            born = psutil.Process(self.process).create_time()
            place = urlsplit(self.url)
            socket.create_connection((place.hostname or "", place.port or 0), _ANSWER_S).close()
            return abs(born - self.born) < 2
        return False

    def quit(self) -> None:
        """End it as Ctrl-C does, and wait until it has ended."""
        with contextlib.suppress(psutil.NoSuchProcess, psutil.TimeoutExpired):
            process = psutil.Process(self.process)
            process.terminate()
            process.wait(_END_S)


@contextlib.contextmanager
def lock(data_dir: Path) -> Iterator[bool]:
    """Lock the data folder and yield True; yield False if another app has locked it."""
    held = FileLock(data_dir / ".lock")  # the system frees it, however the process ends
    with contextlib.suppress(Timeout):
        held.acquire(timeout=0)
    try:
        yield held.is_locked
    finally:
        held.release()


@contextlib.contextmanager
def waiting(data_dir: Path, url: str) -> Iterator[None]:
    """Wait, on a thread, until the app that has locked the data folder ends; then lock it and announce
    this one, so that the next does not take its replies for those of an app that has ended."""
    over = threading.Event()

    def wait() -> None:
        with FileLock(data_dir / ".lock").acquire(poll_interval=_POLL_S), announced(data_dir, url):
            over.wait()

    threading.Thread(target=wait, name="next app", daemon=True).start()
    with announced(data_dir, url, f"instance-{os.getpid()}.json"):
        try:
            yield
        finally:
            over.set()


def others(data_dir: Path) -> bool:
    """Return whether another app uses this folder."""
    found = map(_read, data_dir.glob("instance*.json"))
    return any(each.alive for each in found if each and each.process != os.getpid())


def running(data_dir: Path) -> Instance | None:
    """Return the app that uses this folder, once it has an address; None if there is none."""
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        found = _read(data_dir / FILE)
        if found is not None and found.alive:
            return found
        with lock(data_dir) as free:
            if free:  # what the file says was left behind by an app that was killed
                return None
        time.sleep(0.1)
    return None


def _read(file: Path) -> Instance | None:
    try:
        return Instance(**read_json(file))
    except (OSError, ValueError, TypeError):
        return None


@contextlib.contextmanager
def announced(data_dir: Path, url: str, name: str = FILE) -> Iterator[None]:
    """Let other processes find this one at ``url``."""
    me = Instance(url, os.getpid(), psutil.Process().create_time())
    file = data_dir / name
    write_private(file, json.dumps(asdict(me)))
    try:
        yield
    finally:
        file.unlink(missing_ok=True)
