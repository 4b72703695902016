"""Connections that nobody holds open for nothing: uvicorn's, with time-outs that it does not have.

A client must send its request's head and body in time, and read what it is answered. One that does not
is dropped; to its request that is a client that left.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S = 20.0
"""For a request's line and headers, from when the connection is free for them."""
BODY_S = 120.0
"""For all of a body, which is 16 MiB at most where there is any limit."""
UNREAD_S = 60.0
"""How long what was sent may wait to be read, while more is to be sent."""
LARGEST_CHUNK = 2**31
"""Bytes of a chunk of a body. h11 takes sizes of 20 hexadecimal digits, which no body has."""


class Connection(H11Protocol):
    """One connection. Its timers run in the event loop, and end with it."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._seen: Any = None  # the request whose head came last
        self._unread: asyncio.TimerHandle | None = None
        self._since = self.loop.time()  # when what is waited for now began to be waited for
        self._watch = self.loop.call_later(HEAD_S, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        self._watch.cancel()
        self._stop_unread()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not self._seen:
            self._seen, self._since = self.cycle, self.loop.time()
        if getattr(self.conn._reader, "_bytes_in_chunk", 0) > LARGEST_CHUNK:
            self._refuse_chunk()

    def _refuse_chunk(self) -> None:
        """Answer 400, as for a size that is no number, and close; break off an answer that has begun."""
        if self.conn.our_state is h11.SEND_RESPONSE:
            self.send_400_response("Invalid HTTP request received.")
        else:
            self.transport.abort()

    def on_response_complete(self) -> None:
        self._since = self.loop.time()
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stop_unread()
        self._unread = self.loop.call_later(UNREAD_S, self.transport.abort)

    def resume_writing(self) -> None:
        self._stop_unread()
        super().resume_writing()

    def _stop_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _look(self) -> None:
        """Drops the connection where the time for what is missing is over; else looks again."""
        allowed = self._allowed()
        left = HEAD_S if allowed is None else self._since + allowed - self.loop.time()
        if left <= 0:
            self.transport.abort()
        else:
            self._watch = self.loop.call_later(min(left, HEAD_S), self._look)

    def _allowed(self) -> float | None:
        """Seconds for what the client owes; None while it owes nothing."""
        if self.cycle is None or self.cycle.response_complete:
            return HEAD_S
        return BODY_S if self.cycle.more_body else None
