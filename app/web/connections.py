"""uvicorn's connections with timeouts against slow clients, which it lacks.

A client that does not send its head and body in time, or does not read its answer, is dropped; its
request then ends as for a client that left.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from starlette.requests import Request
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S = 20.0
"""Seconds for a request's line and headers, counted from when the connection is idle."""
BODY_S = 120.0
"""Seconds for a whole body, unless its route has a limit of its own: most take 16 MiB at most."""
UNREAD_S = 60.0
"""Seconds for the client to read what was sent, while more waits to be sent."""
LARGEST_CHUNK = 2**31
"""Bytes of a chunk of a body. h11 accepts sizes of 20 hexadecimal digits."""


def leave_body_to_route(request: Request) -> None:
    """Let the body take as long as the request's route allows."""
    request.state.own_body_limit = True


class Connection(H11Protocol):
    """One connection, with timers in the event loop."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._seen: Any = None  # the request whose head came last
        self._unread: asyncio.TimerHandle | None = None
        self._since = self.loop.time()  # when the current wait began
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
            # As for an invalid size; an answer that has begun is aborted.
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
        """Drop the connection if the client is late; else check again later."""
        allowed: float | None = HEAD_S  # of seconds; None while nothing is expected of the client
        if self.cycle is not None and not self.cycle.response_complete:
            own = self.cycle.scope["state"].get("own_body_limit")
            allowed = BODY_S if self.cycle.more_body and not own else None
        left = HEAD_S if allowed is None else self._since + allowed - self.loop.time()
        if left <= 0:
            self.transport.abort()
        else:
            self._watch = self.loop.call_later(min(left, HEAD_S), self._look)
