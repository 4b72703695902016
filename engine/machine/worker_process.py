"""Worker processes for untrusted input, killed when a call takes too much time or memory.

A worker is a fresh interpreter without this process's memory, secrets or threads. It runs one function
on one JSON value after the other. Whatever happens there (an endless loop, a full memory, a stack
overflow in native code) ends that worker and fails that call; the next call starts another worker.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import queue
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from engine.errors import ForetokenError, TooBusy, what_failed

LENGTH = struct.Struct("<Q")
"""The header of each message on a pipe: how many bytes of JSON follow."""

_START_S = 120.0
"""Seconds until a worker must have imported what it needs; on a busy machine that takes long."""
_WAITING = 10
"""Wall-clock seconds granted for each second of processor time: other work may have the processor."""
_LOOK_S = 0.02
"""Seconds between two looks at what a busy worker has used."""
_WORKERS = 2
"""Workers of a pool: one endless call keeps no other waiting."""
_PASSED_ON = "PATH", "SYSTEMROOT", "TEMP", "TMP", "TMPDIR", "TZ", "LANG", "LC_ALL"
"""Environment variables that a worker gets: none of them is a secret."""
_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one call.

    ``seconds`` of processor time; ``memory`` in bytes, beyond what the worker holds when it is ready;
    ``answer``: bytes of the JSON that it returns.
    """

    seconds: float
    memory: int
    answer: int


class LimitExceeded(Exception):
    """The call used more than its limits, or ended its worker. The message completes "it ..."."""


class Interrupted(LimitExceeded):
    """The same call may succeed next time: the system killed its worker, as it does to free memory, or
    left it no processor."""


class NoWorker(ForetokenError):
    """A worker process did not start; the message says why."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"The process that checks untrusted input could not start: {why}. Close other "
            "programs and try again. If it happens again, restart Foretoken and read its "
            "terminal."
        )


class WorkFailed(Exception):
    """The function raised; the message is that of its error, and ``kind`` the error's class."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class WorkerPool:
    """Workers that run one function. Threads may share it; a call waits while all workers are busy.

    Few may wait, so that one client's expensive calls delay others by some seconds and not for minutes.
    """

    def __init__(
        self,
        function: str,
        limits: Limits,
        waiting: int = 8,
        first: Callable[[], Any] | None = None,
    ) -> None:
        """Start nothing yet. ``function`` is named "module:name"; it takes and returns a JSON value.

        ``waiting``: calls that may wait for a worker. ``first`` returns what each worker gets before it
        is ready, without limits, if there is anything.
        """
        self._function, self._limits = function, limits
        # Made once: it may be megabytes, and a killed worker is replaced while others are served.
        self._first = first and functools.cache(lambda: json.dumps(first()).encode())
        self._most, self._callers = _WORKERS + waiting, 0
        self._free = threading.Semaphore(_WORKERS)
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._closed = False
        atexit.register(self.close)

    def start(self) -> None:
        """Start a worker in the background, so that the first call need not wait for it."""
        with self._lock, contextlib.suppress(NoWorker):  # the first call says so
            if not self._idle and not self._closed:
                self._idle.append(self._new())

    def call(self, value: Any) -> Any:
        """Return what the function returns for ``value``.

        Raises LimitExceeded, WorkFailed, TooBusy, and NoWorker where none can be started.
        """
        message = json.dumps(value).encode()
        with self._counted(), self._free, self._worker() as worker:
            return worker.call(message)

    def close(self) -> None:
        """End the workers; a busy one after its call."""
        atexit.unregister(self.close)
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.kill()

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        with self._lock:
            if self._callers >= self._most:
                raise TooBusy(
                    "Too many other requests are being checked. Try again in a few seconds."
                )
            self._callers += 1
        try:
            yield
        finally:
            with self._lock:
                self._callers -= 1

    @contextlib.contextmanager
    def _worker(self) -> Iterator[_Worker]:
        """Yield a worker that nobody else uses; it serves the next call if it is still alive."""
        with self._lock:
            worker = self._idle.pop() if self._idle else None
        if worker is None or not worker.alive:
            worker = self._new()
        try:
            yield worker
        finally:
            with self._lock:
                kept = worker.alive and not self._closed
                if kept:
                    self._idle.append(worker)
            if not kept:
                worker.kill()

    def _new(self) -> _Worker:
        return _Worker(self._function, self._limits, self._first)


class _Worker:
    """One process, for one call at a time."""

    def __init__(self, function: str, limits: Limits, first: Callable[[], bytes] | None) -> None:
        self._limits = limits
        try:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "engine.machine.worker_main",
                    function,
                    f"{limits.seconds}:{limits.memory}:{limits.answer}",
                    "prepared" if first else "",
                ],
                env=_environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0)
                | getattr(subprocess, "BELOW_NORMAL_PRIORITY_CLASS", 0),
                start_new_session=True,  # Ctrl-C is for the app
            )
        except OSError as error:
            raise NoWorker(what_failed(error)) from error
        self._answers: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._base: int | None = None  # bytes that the ready worker holds
        threading.Thread(target=self._read, args=(first,), name="worker", daemon=True).start()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def call(self, message: bytes) -> Any:
        """Send ``message`` and return the answer. Raises as ``WorkerPool.call``."""
        try:
            if self._base is None:
                self._await_start()
            self._send(message)
            answer = json.loads(self._watched())
        except BaseException:
            self.kill()
            raise
        if "failed" in answer:
            raise WorkFailed(*answer["failed"])
        if "limit" in answer:
            self.kill()
            raise LimitExceeded(answer["limit"])
        return answer["value"]

    def kill(self) -> None:
        """End the process and release its pipes."""
        self._process.kill()
        self._process.wait()
        with contextlib.suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()

    def _await_start(self) -> None:
        try:
            ready = self._answers.get(timeout=_START_S)
        except queue.Empty:
            raise NoWorker(f"it was not ready within {_START_S:.0f} s") from None
        if ready is None:
            raise NoWorker("it exited")
        self._base = self._used()[1]

    def _send(self, message: bytes) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it died; the wait for its answer says so
            self._process.stdin.write(LENGTH.pack(len(message)) + message)
            self._process.stdin.flush()

    def _watched(self) -> bytes:
        """Return the answer, looking every few milliseconds at what the worker has used."""
        began, (spent, _) = time.monotonic(), self._used()
        while True:
            with contextlib.suppress(queue.Empty):
                answer = self._answers.get(timeout=_LOOK_S)
                if answer is None:
                    raise self._death()
                return answer
            seconds, memory = self._used()
            if seconds - spent > self._limits.seconds:
                raise LimitExceeded(self._late)
            if time.monotonic() - began > _WAITING * self._limits.seconds:
                raise Interrupted(self._late)
            if memory - (self._base or 0) > self._limits.memory:
                raise LimitExceeded(f"used more than {self._limits.memory >> 20} MB of memory")

    @property
    def _late(self) -> str:
        return f"took more than {self._limits.seconds:g} s"

    def _death(self) -> LimitExceeded:
        """Return why the process ended: by the kernel's limit of time where this one looked too late."""
        why = "crashed its process: nested too deeply, or out of memory"
        with contextlib.suppress(subprocess.TimeoutExpired):  # one that was taken over may live on
            ended_by = -self._process.wait(1)
            if ended_by == getattr(signal, "SIGXCPU", None):
                return LimitExceeded(self._late)
            if ended_by == getattr(signal, "SIGKILL", None):
                return Interrupted(why)
        return LimitExceeded(why)

    def _used(self) -> tuple[float, int]:
        """Return the process's seconds of processor time and bytes of memory; zeros once it died."""
        try:
            process = psutil.Process(self._process.pid)
            times = process.cpu_times()
            return times.user + times.system, process.memory_info().rss
        except psutil.Error:
            return 0.0, 0

    def _read(self, first: Callable[[], bytes] | None) -> None:
        """Send what ``first`` returns, then queue answers until the pipe ends; in a thread, since Windows
        cannot poll pipes."""
        if first is not None:
            self._send(first())
        pipe = self._process.stdout
        assert pipe is not None
        with contextlib.suppress(OSError, ValueError), pipe:
            while len(head := pipe.read(LENGTH.size)) == LENGTH.size:
                (size,) = LENGTH.unpack(head)
                if size > self._limits.answer + 1024:  # only a worker that was taken over
                    break
                self._answers.put(pipe.read(size))
        self._answers.put(None)


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return kept | {"PYTHONPATH": str(_ROOT), "PYTHONIOENCODING": "utf-8"}
