"""One thread with an event loop, and on it one client for each server: OpenAI's, and httpx2's below it.

Proxies and certificates are those of the environment (HTTPS_PROXY, NO_PROXY, SSL_CERT_FILE,
SSL_CERT_DIR), but for this machine's own servers, which are asked without a proxy.
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

QUESTION_S = 10.0
"""How long a server may take for what it knows by heart."""
_CLOSING_S = 5.0
_TURNS = 3
"""Of the loop, in which closed sockets are let go."""
_DIRECT = ("all://127.0.0.1", "all://localhost", "all://[::1]")


class Loop:
    """The thread; it is started by the first who needs it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._closed = False
        self._works: WeakSet[Coroutine[Any, Any, Any]] = WeakSet()
        self._finishing: WeakSet[Coroutine[Any, Any, Any]] = WeakSet()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def start(self, work: Coroutine[Any, Any, T], *, to_its_end: bool = False) -> Future[T]:
        """Does ``work`` there; cancelling what is returned cancels it. Once closed, it is cancelled.

        ``to_its_end``: closing waits for it instead.
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
        """Ends what is still done there, does ``last``, and ends the thread."""
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
    """Cancels ``works``, each once: a second time would interrupt how it closes its connection, as would
    cancelling the tasks that it began itself. Waits for these, and for what is ``finishing``."""
    tasks = [(task, task.get_coro()) for task in asyncio.all_tasks()]
    for task, work in tasks:
        if work in works and not task.cancelling():
            task.cancel()
    rest = [task for task, work in tasks if work in works or work in finishing]
    await asyncio.gather(*rest, return_exceptions=True)
    if last is not None:
        await last()
    await asyncio.get_running_loop().shutdown_asyncgens()
    for _ in range(_TURNS):
        await asyncio.sleep(0)


@cache
def _certificates() -> ssl.SSLContext:
    """Read once: that takes longer than to connect."""
    return httpx2.create_ssl_context()


async def _name_senders(request: httpx2.Request) -> None:
    """Add to the request who sends it, so that one that comes back can be known."""
    request.headers[wire.VIA] = wire.via((*wire.passed.get(), wire.INSTANCE))


class Client:
    """A server's address, the key for it, and its open connections. Belongs to the loop's thread."""

    def __init__(self, address: Address, key: str | None) -> None:
        self.address, self.has_key = address, key is not None
        limits = httpx2.Timeout(SILENCE_S, connect=CONNECT_S)
        # For what OpenAI's protocol does not have; the key is sent.
        self.http = httpx2.AsyncClient(
            verify=_certificates(),
            timeout=limits,
            headers={"Authorization": f"Bearer {key}"} if key else {},
            mounts={pattern: None for pattern in _DIRECT},
            event_hooks={"request": [_name_senders]},
        )
        # Without a key the client would refuse to be made; servers without one look at none.
        self.openai = self.speaking(address.api, key or "none")

    def speaking(self, base: str, key: str = "") -> openai.AsyncOpenAI:
        """OpenAI's client for another path of the server. Its own patience is not used: waits of ours can
        be cancelled, and are told of."""
        if not key:
            key = self.openai.api_key
        return openai.AsyncOpenAI(base_url=base, api_key=key, http_client=self.http, max_retries=0)

    async def find(self, path: str, **query: str) -> httpx2.Response | None:
        """What GET of ``path`` below the root answers; None where that is an error."""
        try:
            answer = await self.http.get(
                f"{self.address.root}{path}", params=query or None, timeout=QUESTION_S
            )
        except httpx2.HTTPError:
            return None
        return answer if answer.status_code == httpx2.codes.OK else None

    async def find_json(self, *paths: str) -> Any:
        """The same of JSON, of the first of ``paths`` that answers; None for anything else."""
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
