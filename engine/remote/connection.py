"""One client for each server, on one event loop: OpenAI's over httpx2's.

Proxies and certificates are those of the environment (HTTPS_PROXY, NO_PROXY, SSL_CERT_FILE,
SSL_CERT_DIR); servers on this machine are called without a proxy. However much a server sends, what is
read of it is bounded here.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import cache
from typing import Any

import httpx2
import openai

from engine import wire
from engine.files import parse_json
from engine.remote import errors
from engine.remote.errors import CONNECT_S, SILENCE_S
from engine.values.address import Address

QUERY_S = 10.0
"""Timeout of a query about the server itself."""
_DIRECT = ("all://127.0.0.1", "all://localhost", "all://[::1]")


@cache
def _certificates() -> ssl.SSLContext:
    """Return the certificates, read once because reading takes longer than connecting."""
    return httpx2.create_ssl_context()


async def _name_senders(request: httpx2.Request) -> None:
    """Add the sender to the request, so that a request that comes back is recognised."""
    request.headers[wire.VIA] = wire.via((*wire.passed.get(), wire.INSTANCE))


class _Bounded(httpx2.AsyncByteStream):
    """The bytes of an answer. Raises Unbounded for too many of them, or for a line of too many."""

    def __init__(self, response: httpx2.Response, address: Address) -> None:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        self._stream, self._address = response.stream, address
        posted = response.request.method == "POST"  # as replies are asked for
        self._most = errors.LARGEST_REPLY if posted else errors.LARGEST_ANSWER

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        chunks = aiter(self._stream)
        assert isinstance(chunks, AsyncGenerator)  # httpx2's; to be closed with this one
        total = line = 0
        async with aclosing(chunks):
            async for chunk in chunks:
                total += len(chunk)
                _, end, begun = chunk.rpartition(b"\n")
                line = len(begun) if end else line + len(chunk)
                for what, size, most in (
                    ("more than", total, self._most),
                    ("a line of more than", line, errors.LARGEST_ANSWER),
                ):
                    if size > most:
                        raise errors.Unbounded(self._address, f"{what} {most:,} bytes")
                yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


class Client:
    """A server's address, the key for it, and its open connections. Belongs to the loop's thread."""

    def __init__(self, address: Address, key: str | None) -> None:
        self.address, self.has_key = address, key is not None
        limits = httpx2.Timeout(SILENCE_S, connect=CONNECT_S)
        # For paths outside OpenAI's protocol; it sends the key too.
        self.http = httpx2.AsyncClient(
            verify=_certificates(),
            timeout=limits,
            # Uncompressed, because a compressed answer may be a thousand times larger than its bytes.
            headers={"Accept-Encoding": "identity"}
            | ({"Authorization": f"Bearer {key}"} if key else {}),
            mounts={pattern: None for pattern in _DIRECT},
            event_hooks={"request": [_name_senders], "response": [self._bound]},
        )
        # The client requires a key; servers without one ignore it.
        self.openai = self.speaking(address.api, key or "none")

    def speaking(self, base: str, key: str = "") -> openai.AsyncOpenAI:
        """Return OpenAI's client for another path, without its retries: ours can be cancelled."""
        if not key:
            key = self.openai.api_key
        return openai.AsyncOpenAI(base_url=base, api_key=key, http_client=self.http, max_retries=0)

    async def _bound(self, response: httpx2.Response) -> None:
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise errors.Unbounded(self.address, "a compressed answer that was not asked for")
        response.stream = _Bounded(response, self.address)

    async def find(self, path: str, **query: str) -> httpx2.Response | None:
        """GET ``path`` below the root; return None for an error."""
        try:
            answer = await self.http.get(
                f"{self.address.root}{path}", params=query or None, timeout=QUERY_S
            )
        except (httpx2.HTTPError, errors.Unbounded):
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
