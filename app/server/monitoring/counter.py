"""Where API requests wait for the engine, and how its events reach a coroutine."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from anyio import to_thread

from app.server.errors import RETRY_S, asks_too_many, closing, queue_full
from app.server.monitoring.prometheus import Meter
from app.web.request_log import asked
from engine.events import Event, Failed, Finished, FinishReason
from engine.request import Request

if TYPE_CHECKING:
    from engine.api import Engine, Generation

MAX_WAITING = 32
"""How many of the API's replies may wait behind those that are written."""


class Ticket:
    """One API request's generations. Whoever holds it must close it, however the request ends."""

    def __init__(self, counter: Counter, count: int) -> None:
        """``count``: how many there will be."""
        self.generations: list[Generation] = []
        self._counter, self._count = counter, count
        self._inboxes: list[asyncio.Queue[Event]] = []
        counter.tickets.add(self)

    @property
    def open(self) -> int:
        """Replies that have not ended: a finished one that its reader has not fetched holds no place."""
        return self._count - sum(generation.ended for generation in self.generations)

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

    async def events(self) -> AsyncGenerator[tuple[int, Event], None]:
        """The events of all generations as they come, each with its generation's place."""
        merged: asyncio.Queue[tuple[int, Event]] = asyncio.Queue()

        async def read(place: int, generation: Generation) -> None:
            async for event in self.events_of(generation):
                merged.put_nowait((place, event))

        readers = [
            asyncio.ensure_future(read(place, each)) for place, each in enumerate(self.generations)
        ]
        try:
            left = len(readers)
            while left:
                place, event = await merged.get()
                left -= isinstance(event, Finished | Failed)
                yield place, event
        finally:
            for reader in readers:
                reader.cancel()


class Pace:
    """How soon replies end while there are any: what a client that is turned away is told."""

    _FADES = 0.9
    """What an end counts for at the next one: about the last ten of them matter."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._running = 0
        self._since = 0.0  # when the last one ended, or the first of those that run began
        self._seconds = self._ends = 0.0

    def watch(self, generation: Generation) -> None:
        """From now on to its end."""
        with self._lock:
            if not self._running:
                self._since = self._clock()
            self._running += 1
        generation.listen(self._hear)

    def _hear(self, event: Event) -> None:
        if not isinstance(event, Finished | Failed):
            return
        with self._lock:
            now, self._running = self._clock(), self._running - 1
            if isinstance(event, Finished) and event.reason is not FinishReason.CANCELLED:
                self._seconds = self._FADES * self._seconds + now - self._since
                self._ends = self._FADES * self._ends + 1
                self._since = now

    def until(self, ends: int) -> int:
        """Seconds until so many more will have ended, at least one; by what was seen of late."""
        with self._lock:
            waited = self._clock() - self._since if self._running else 0.0
            # While nothing ends, each takes as long as has been waited for one at least.
            each = max(self._seconds / self._ends if self._ends else RETRY_S, waited)
            return max(1, math.ceil(each * ends - waited))


class Counter:
    """Admits requests to the engine; belongs to the event loop's thread."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.meter, self.pace = Meter(), Pace()
        self.tickets: set[Ticket] = set()
        self.ended = False

    def end(self) -> None:
        """The server ends: who is answered or waits is told so, and nobody else is admitted."""
        self.ended = True
        for ticket in tuple(self.tickets):
            ticket.end()

    @property
    def _at_once(self) -> int:
        loaded = self.engine.loaded
        return 1 if loaded is None else loaded.capabilities.parallel

    async def admit(self, requests: Sequence[Request], model: str = "") -> Ticket:
        """Submits all of ``requests`` or none, to be counted as those of ``model``.

        Raises ApiError when too many replies wait, and what the engine raises for a request it cannot
        serve. Where none waits or is written, any number is taken.
        """
        if self.ended:
            raise closing()
        count, present = len(requests), sum(ticket.open for ticket in self.tickets)
        too_many = present + count - self._at_once - MAX_WAITING
        if present and too_many > 0:
            retry = self.pace.until(min(too_many, present))
            if too_many < count:
                raise asks_too_many(count, count - too_many, retry)
            raise queue_full(present - self._at_once, retry=retry)
        ticket, entry = Ticket(self, count), asked.get()

        def submit() -> None:
            for request in requests:
                generation = self.engine.generate(request)
                self.meter.watch(generation, model)
                self.pace.watch(generation)
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
