"""One reply of a server, from its request to its last event."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future
from contextlib import aclosing

from engine.api import Generation
from engine.errors import ForetokenError
from engine.events import Emitted, Event, Failed, Finished, FinishReason
from engine.remote import errors
from engine.remote.connection import Client, Loop
from engine.request import Request

log = logging.getLogger(__name__)


class Reply:
    """Read in the loop's thread, told in one of its own."""

    def __init__(
        self,
        request: Request,
        events: Callable[[Request], AsyncGenerator[Event, None]],
        loop: Loop,
        client: Client,
        on_end: Callable[[Reply], None],
    ) -> None:
        """``on_end`` is called once the last event was told."""
        self.generation = Generation(request, lambda _: self._cancel())
        self._events, self._loop, self._client, self._on_end = events, loop, client, on_end
        self._inbox: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._reading: Future[None] | None = None
        self._text = ""
        self._ids: list[int] | None = []
        self.ending = False
        """Whether the last event has come: who hears it finds nothing running."""

    def start(self) -> Generation:
        """Asks the server."""
        self._reading = self._loop.start(self._read())
        threading.Thread(target=self._tell, name="a server's reply", daemon=True).start()
        return self.generation

    def _cancel(self) -> None:
        """Closes the stream, which tells the server; the teller wakes up in any case."""
        if self._reading is not None:
            self._reading.cancel()
        self._inbox.put(None)

    async def _read(self) -> None:
        """Brings the events into the inbox, and what went wrong as the last of them."""
        begun = ended = False
        try:
            async with aclosing(self._events(self.generation.request)) as events:
                length = 0
                async for event in events:
                    length += len(event.text) if isinstance(event, Emitted) else 0
                    if length > errors.LONGEST_REPLY:
                        raise errors.too_long(self._client.address)
                    begun = True
                    ended = ended or isinstance(event, Finished | Failed)
                    self._inbox.put(event)
        except Exception as error:
            if ended:
                log.debug("behind the end of a reply: %r", error)
                return
            known = errors.explain(
                error, self._client.address, key=self._client.has_key, begun=begun
            )
            if not isinstance(error, ForetokenError):
                log.debug("a reply failed", exc_info=error)
            told = known.event if isinstance(known, errors.ServerError) else Failed(str(known))
            self._inbox.put(told)

    def _tell(self) -> None:
        """Publishes what comes, up to the end."""
        while True:
            event = self._inbox.get()
            if event is None or self.generation.cancelled:
                event = Finished(FinishReason.CANCELLED, "", self._text, self._told_ids())
            self._remember(event)
            last = isinstance(event, Finished | Failed)
            self.ending = last
            self.generation.publish(event)
            if last:
                self._on_end(self)
                return

    def _remember(self, event: Event) -> None:
        if not isinstance(event, Emitted):
            return
        self._text += event.text
        if event.tokens is None:
            self._ids = None
        elif self._ids is not None:
            self._ids += [token.id for token in event.tokens]

    def _told_ids(self) -> tuple[int, ...] | None:
        return None if self._ids is None else tuple(self._ids)
