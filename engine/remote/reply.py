"""One reply of a server, from its request to its last event."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import aclosing

from engine.api import Generation
from engine.errors import ForetokenError
from engine.events import Emitted, Event, Failed, Finished, FinishReason
from engine.machine.event_loop import Loop
from engine.remote import errors
from engine.remote.connection import Client
from engine.remote.dialects import Events
from engine.request import Request

log = logging.getLogger(__name__)


class Reply:
    """Read the stream in the loop's thread; publish its events in a thread of its own."""

    def __init__(
        self,
        request: Request,
        events: Events,
        loop: Loop,
        client: Client,
        on_end: Callable[[Reply], None],
    ) -> None:
        """``on_end`` is called after the last event was published."""
        self.generation = Generation(request, lambda _: self._cancel())
        self._events, self._loop, self._client, self._on_end = events, loop, client, on_end
        self._inbox: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._reading: Future[None] | None = None
        self._text = ""
        self._ids: list[int] | None = []
        self.ending = False
        """True before the last event is published, so that its listeners find nothing running."""

    def start(self) -> Generation:
        """Send the request."""
        self._reading = self._loop.start(self._read())
        # However the reading ends, the reply does.
        self._reading.add_done_callback(lambda _: self._inbox.put(None))
        threading.Thread(target=self._publish, name="a server's reply", daemon=True).start()
        return self.generation

    def _cancel(self) -> None:
        """Close the stream, which cancels the server's work, and wake the publishing thread."""
        if self._reading is not None:
            self._reading.cancel()
        self._inbox.put(None)

    async def _read(self) -> None:
        """Put the events into the inbox; an error becomes the last of them."""
        begun = ended = False
        try:
            async with aclosing(self._events(self.generation.request)) as events:
                async for event in events:
                    begun = True
                    ended = ended or isinstance(event, Finished | Failed)
                    self._inbox.put(event)
        except Exception as error:
            if ended:
                log.debug("after the end of a reply: %r", error)
                return
            self._inbox.put(self._failed(error, begun=begun))

    def _failed(self, error: Exception, *, begun: bool) -> Failed:
        """Return the last event of a reply that ended with ``error``."""
        if not isinstance(error, ForetokenError):
            log.debug("a reply failed", exc_info=error)
        explained = errors.explain(
            error, self._client.address, key=self._client.has_key, begun=begun
        )
        if isinstance(explained, errors.ServerError):
            return Failed(str(explained), explained.refused, explained.wait_s)
        return Failed(str(explained))

    def _publish(self) -> None:
        """Publish the events of the inbox up to the last. Whatever fails here, the reply ends."""
        try:
            while not self.ending:
                self._publish_next()
        except Exception as error:
            self._cancel()
            self.ending = True
            self.generation.publish(self._failed(error, begun=True))
        finally:
            self._on_end(self)

    def _publish_next(self) -> None:
        event = self._inbox.get()
        if event is None or self.generation.cancelled:
            ids = None if self._ids is None else tuple(self._ids)
            event = Finished(FinishReason.CANCELLED, "", self._text, ids)
        if isinstance(event, Emitted):
            self._text += event.text
            if event.tokens is None:
                self._ids = None
            elif self._ids is not None:
                self._ids += [token.id for token in event.tokens]
        self.ending = isinstance(event, Finished | Failed)
        self.generation.publish(event)
