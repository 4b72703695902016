"""A thread with an event loop for the coroutines of other threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar
from weakref import WeakSet

T = TypeVar("T")

_CLOSING_S = 5.0
_ITERATIONS = 3
"""Iterations of the loop that closed sockets need."""


class Loop:
    """The thread, started by its first use."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._closed = False
        self._works: WeakSet[Coroutine[Any, Any, Any]] = WeakSet()
        self._finishing: WeakSet[Coroutine[Any, Any, Any]] = WeakSet()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def start(self, work: Coroutine[Any, Any, T], *, to_its_end: bool = False) -> Future[T]:
        """Run ``work`` on the loop; cancelling the future cancels it. After ``close`` it never runs.

        ``to_its_end``: ``close`` waits for it and does not cancel it.
        """
        with self._lock:
            if self._closed:
                work.close()
                cancelled: Future[T] = Future()
                cancelled.cancel()
                return cancelled
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name=self._name, daemon=True
                )
                self._thread.start()
            (self._finishing if to_its_end else self._works).add(work)
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self, last: Callable[[], Awaitable[None]] | None = None) -> None:
        """Cancel running work, run ``last``, and end the thread."""
        with self._lock:
            loop, thread, self._closed = self._loop, self._thread, True
        if loop is None or thread is None:
            return
        with suppress(Exception):
            ending = _end(self._works, self._finishing, last)
            asyncio.run_coroutine_threadsafe(ending, loop).result(_CLOSING_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_CLOSING_S)
        if not thread.is_alive():
            loop.close()


async def _end(
    works: WeakSet[Coroutine[Any, Any, Any]],
    finishing: WeakSet[Coroutine[Any, Any, Any]],
    last: Callable[[], Awaitable[None]] | None,
) -> None:
    """Cancel ``works``, and wait for them and for ``finishing``.

    Each is cancelled once and its child tasks are not: either would interrupt closing its connection.
    """
    tasks = [(task, task.get_coro()) for task in asyncio.all_tasks()]
    for task, work in tasks:
        if work in works and not task.cancelling():
            task.cancel()
    rest = [task for task, work in tasks if work in works or work in finishing]
    await asyncio.gather(*rest, return_exceptions=True)
    if last is not None:
        await last()
    await asyncio.get_running_loop().shutdown_asyncgens()
    for _ in range(_ITERATIONS):
        await asyncio.sleep(0)
