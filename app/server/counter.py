"""Where API requests wait for the engine, and how its events reach a coroutine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from anyio import to_thread

from app.request_log import asked
from app.server.errors import closing, queue_full
from app.server.prometheus import Meter
from engine.events import Event, Failed, Finished, FinishReason
from engine.request import Request

if TYPE_CHECKING:
    from engine.api import Engine, Generation

MAX_WAITING = 32
"""How many API requests may wait behind the one that is answered."""


class Ticket:
    """One API request's generations. Whoever holds it must close it, however the request ends."""

    def __init__(self, counter: Counter) -> None:
        self.generations: list[Generation] = []
        self._counter = counter
        self._inboxes: list[asyncio.Queue[Event]] = []
        counter.tickets.add(self)

    def close(self) -> None:
        """Cancels what still runs or waits, and makes room for the next request."""
        for generation in self.generations:
            generation.cancel()
        self._counter.tickets.discard(self)

    def end(self) -> None:
        """The server ends: readers are told at once, also where a round is still computed."""
        for generation in self.generations:
            generation.cancel()
        for inbox in self._inboxes:
            inbox.put_nowait(Finished(FinishReason.CANCELLED, "", "", ()))

    async def events_of(self, generation: Generation) -> AsyncGenerator[Event, None]:
        """A generation's events, as the engine's thread tells them."""
        loop = asyncio.get_running_loop()
        inbox: asyncio.Queue[Event] = asyncio.Queue()

        def hear(event: Event) -> None:
            # The loop may have been closed when the last events come: nobody wants them then.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(inbox.put_nowait, event)

        self._inboxes.append(inbox)
        if self._counter.ended:
            self.end()
        generation.listen(hear)
        while True:
            event = await inbox.get()
            yield event
            if isinstance(event, Finished | Failed):
                return


class Counter:
    """Admits requests to the engine; belongs to the event loop's thread."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.meter = Meter()
        self.tickets: set[Ticket] = set()
        self.ended = False

    def end(self) -> None:
        """The server ends: who is answered or waits is told so, and nobody else is admitted."""
        self.ended = True
        for ticket in tuple(self.tickets):
            ticket.end()

    async def admit(self, requests: Sequence[Request], model: str = "") -> Ticket:
        """Submits all of ``requests`` or none, to be counted as those of ``model``.

        Raises ApiError when too many wait, and what the engine raises for a request it cannot serve.
        """
        if self.ended:
            raise closing()
        if len(self.tickets) > MAX_WAITING:
            raise queue_full(MAX_WAITING)
        ticket, entry = Ticket(self), asked.get()

        def submit() -> None:
            for request in requests:
                generation = self.engine.generate(request)
                self.meter.watch(generation, model)
                if entry is not None:
                    entry.follow(generation, model)
                ticket.generations.append(generation)

        try:
            # Tokenizing a long prompt takes a while: not in the event loop's thread.
            await to_thread.run_sync(submit)
            if self.ended:
                raise closing()
        except BaseException:
            ticket.close()
            raise
        return ticket
