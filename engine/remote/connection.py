"""One thread with an event loop, and on it one client for each server: OpenAI's over httpx2's.

Proxies and certificates are those of the environment (HTTPS_PROXY, NO_PROXY, SSL_CERT_FILE,
SSL_CERT_DIR); servers on this machine are called without a proxy.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from functools import cache
from typing import Any, TypeVar
from weakref import WeakSet

import httpx2
import openai

from engine import wire
from engine.files import parse_json
from engine.remote.errors import CONNECT_S, SILENCE_S
from engine.values.address import Address

T = TypeVar("T")

QUERY_S = 10.0
"""Timeout of a query about the server itself."""
_CLOSING_S = 5.0
_ITERATIONS = 3
"""Iterations of the loop that closed sockets need."""
_DIRECT = ("all://127.0.0.1", "all://localhost", "all://[::1]")


class Loop:
    """The thread, started by its first use."""

    def __init__(self) -> None:
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
                    target=self._loop.run_forever, name="servers", daemon=True
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


@cache
def _certificates() -> ssl.SSLContext:
    """Return the certificates, read once because reading takes longer than connecting."""
    return httpx2.create_ssl_context()


async def _name_senders(request: httpx2.Request) -> None:
    """Add the sender to the request, so that a request that comes back is recognised."""
    request.headers[wire.VIA] = wire.via((*wire.passed.get(), wire.INSTANCE))


class Client:
    """A server's address, the key for it, and its open connections. Belongs to the loop's thread."""

    def __init__(self, address: Address, key: str | None) -> None:
        self.address, self.has_key = address, key is not None
        limits = httpx2.Timeout(SILENCE_S, connect=CONNECT_S)
        # For paths outside OpenAI's protocol; it sends the key too.
        self.http = httpx2.AsyncClient(
            verify=_certificates(),
            timeout=limits,
            headers={"Authorization": f"Bearer {key}"} if key else {},
            mounts={pattern: None for pattern in _DIRECT},
            event_hooks={"request": [_name_senders]},
        )
        # The client requires a key; servers without one ignore it.
        self.openai = self.speaking(address.api, key or "none")

    def speaking(self, base: str, key: str = "") -> openai.AsyncOpenAI:
        """Return OpenAI's client for another path, without its retries: ours can be cancelled."""
        if not key:
            key = self.openai.api_key
        return openai.AsyncOpenAI(base_url=base, api_key=key, http_client=self.http, max_retries=0)

    async def find(self, path: str, **query: str) -> httpx2.Response | None:
        """GET ``path`` below the root; return None for an error."""
        try:
            answer = await self.http.get(
                f"{self.address.root}{path}", params=query or None, timeout=QUERY_S
            )
        except httpx2.HTTPError:
            return None
        return answer if answer.status_code == httpx2.codes.OK else None

    async def find_json(self, *paths: str) -> Any:
        """Return the JSON of the first of ``paths`` that answers; None for anything else."""
        for path in paths:
            answer = await self.find(path)
            if answer is not None:
                try:
                    return parse_json(answer.content)
                except ValueError:
                    return None
        return None

    async def close(self) -> None:
        await self.http.aclose()
