"""The main program of a worker process: apply one function to each message, within system limits.

``WorkerPool`` watches from outside; the limits here hold also where it does not look often enough, or is
gone: an address space that ends (a huge allocation fails at once), and seconds after which the kernel
ends the process.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import sys
from collections.abc import Callable
from typing import IO, Any

from engine.machine.worker_process import LENGTH

_MESSAGE = 400
"""Characters of an error's message that are passed on."""
_NICE = 10
"""Niceness beside the app's: a tenth of a busy processor is left."""


def main(function: str, limits: str, prepared: str) -> None:
    """Answer messages from standard input until it ends. If ``prepared`` is set, the first
    message prepares the function: it has no limits, and its only answer is that the worker is
    ready."""
    seconds, memory, answer = limits.split(":")
    module, _, name = function.partition(":")
    work = getattr(importlib.import_module(module), name)
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # what the work prints must not stand among the answers
    if prepared == "prepared":
        work(json.loads(_received(source)))
    _limit_memory(int(memory))
    _yield_processor()
    _send(sink, b"ready")
    _silence()
    while message := _received(source):
        _limit_seconds(float(seconds))
        _send(sink, _answer(work, message, int(answer)))


def _answer(work: Callable[[Any], Any], message: bytes, longest: int) -> bytes:
    try:
        made = json.dumps({"value": work(json.loads(message))}).encode()
    except MemoryError:
        return json.dumps({"limit": "used too much memory"}).encode()
    except RecursionError:
        return json.dumps({"limit": "is nested too deeply"}).encode()
    except Exception as error:  # the caller decides what it means
        return json.dumps({"failed": [type(error).__name__, str(error)[:_MESSAGE]]}).encode()
    if len(made) > longest:
        return json.dumps({"limit": f"produced more than {longest >> 20} MB"}).encode()
    return made


def _received(source: IO[bytes]) -> bytes:
    """Return the next message; nothing where there is none."""
    head = source.read(LENGTH.size)
    return source.read(LENGTH.unpack(head)[0]) if len(head) == LENGTH.size else b""


def _silence() -> None:
    """Drop what native code says as it fails: in the app's log it would read as the app's own end."""
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)


def _send(sink: IO[bytes], message: bytes) -> None:
    sink.write(LENGTH.pack(len(message)) + message)
    sink.flush()


def _yield_processor() -> None:
    """Lower the priority, so that replies get the processor first: input can be made slow to check."""
    if sys.platform != "win32":  # there the process is started so
        os.nice(_NICE)


def _limit_memory(size: int) -> None:
    if sys.platform == "win32":  # there the pool's looking has to do
        return
    import resource

    import psutil

    limit = psutil.Process().memory_info().vms + size
    if sys.platform == "linux":  # macOS maps far more than it uses
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _limit_seconds(seconds: float) -> None:
    if sys.platform == "win32":
        return
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    until = math.ceil(used.ru_utime + used.ru_stime + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (until, resource.getrlimit(resource.RLIMIT_CPU)[1]))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except BrokenPipeError:  # the app has ended while this started, and nobody reads an answer
        os._exit(0)
