"""Answers as they are sent: JSON, whole or as a stream, to clients that may leave at any time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any, TypeVar

from starlette.requests import Request as HttpRequest
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

Result = TypeVar("Result")
Json = dict[str, Any]
"""An object."""
CLIENT_LEFT = 499
"""nginx's status for a client that disconnected; it only appears in logs."""
# Legal inside JSON, but some clients' line readers take these for line ends.
_LINE_ENDS = {ord(mark): f"\\u{ord(mark):04x}" for mark in "\x85\u2028\u2029"}


def encode(value: Any) -> bytes:
    """Return ``value`` as JSON in one line."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_LINE_ENDS).encode()


class JsonReply(Response):
    """A whole answer."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return encode(content)


async def unless_disconnected(receive: Receive, work: Coroutine[Any, Any, Result]) -> Result | None:
    """Return the result of ``work``; None if the client left first, with ``work`` cancelled.

    The request's body must have been read.
    """
    working = asyncio.ensure_future(work)
    disconnected = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait({working, disconnected}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        working.cancel()
        disconnected.cancel()
        await asyncio.gather(working, disconnected, return_exceptions=True)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def send_whole(
    http: HttpRequest, work: Coroutine[Any, Any, Any], close: Callable[[], None] = lambda: None
) -> Response:
    """Return the result of ``work`` as JSON; call ``close`` in the end, also when the client leaves."""
    try:
        value = await unless_disconnected(http.receive, work)
    finally:
        close()
    return Response(status_code=CLIENT_LEFT) if value is None else JsonReply(value)


class Stream(StreamingResponse):
    """Sends chunks as they come, server-sent events by default; calls ``close`` once in the end.

    Starlette's own class, with some servers, notices that a client left only when it sends something;
    here the generation ends at once, also while it waits for its turn.
    """

    def __init__(
        self,
        chunks: AsyncGenerator[bytes, None],
        close: Callable[[], None],
        error: Callable[[Exception], bytes],
        *,
        end: bytes = b"",
        media_type: str = "text/event-stream",
    ) -> None:
        """``error``: the last chunk of a stream that fails. ``end``: a chunk at the end of every
        stream."""
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        ended = _ended(chunks, error, end)
        super().__init__(ended, headers=headers, media_type=media_type)
        self._close = close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await unless_disconnected(receive, self.stream_response(send))
        finally:
            self._close()


async def _ended(
    chunks: AsyncGenerator[bytes, None], error: Callable[[Exception], bytes], end: bytes
) -> AsyncGenerator[bytes, None]:
    try:
        async for chunk in chunks:
            yield chunk
    except Exception as failure:
        yield error(failure)
    if end:
        yield end


def data(value: Any) -> bytes:
    """Return a server-sent event."""
    return b"data: " + encode(value) + b"\n\n"


def named(event: str, value: Any) -> bytes:
    """Return a server-sent event with a name."""
    return f"event: {event}\n".encode() + data(value)


def comment(text: str) -> bytes:
    """Return a line that parsers skip: it informs people and keeps the connection alive."""
    return f": {text}\n\n".encode()
