"""Server-sent events, in the form that OpenAI's clients read."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from app.server.errors import translate
from app.server.transport.disconnect import unless_disconnected
from app.server.transport.payload import encode

DONE = b"data: [DONE]\n\n"


def data(value: Any) -> bytes:
    return b"data: " + encode(value) + b"\n\n"


def named(event: str, value: Any) -> bytes:
    """An event that says what it is."""
    return f"event: {event}\n".encode() + data(value)


def comment(text: str) -> bytes:
    """A line that parsers skip; it tells people, and keeps the connection awake."""
    return f": {text}\n\n".encode()


async def framed(chunks: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """``chunks`` up to their end or first error, which becomes an error object; then the end."""
    try:
        async for chunk in chunks:
            yield chunk
    except Exception as error:
        yield data(translate(error).body())
    yield DONE


Framed = Callable[[AsyncGenerator[bytes, None]], AsyncGenerator[bytes, None]]


class EventStream(StreamingResponse):
    """Sends chunks as they come; ``close`` is called once, however the stream ends.

    Starlette's own class notices a client that left only when it sends something, with some
    servers; here the generation ends at once, also while it waits for its turn.
    """

    def __init__(
        self,
        chunks: AsyncGenerator[bytes, None],
        close: Callable[[], None],
        framed: Framed = framed,
        media_type: str = "text/event-stream",
    ) -> None:
        """``framed``: how the stream ends, and what an error in it becomes."""
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        super().__init__(framed(chunks), headers=headers, media_type=media_type)
        self._close = close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await unless_disconnected(receive, self.stream_response(send))
        finally:
            self._close()
