"""The queue of API requests, and how the engine's events reach a coroutine."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from anyio import to_thread

from app.server.errors import RETRY_S, asks_too_many, closing, queue_full
from app.server.monitoring.prometheus import Meter
from app.web.request_log import current
from engine.events import Event, Failed, Finished, FinishReason
from engine.request import Request

if TYPE_CHECKING:
    from app.learning import IdleLearning
    from engine.api import Engine, Generation

MAX_WAITING = 32
"""Replies that may wait, at most."""


class Ticket:
    """The generations of one API request. Its owner must close it, however the request ends."""

    def __init__(self, queue: RequestQueue, count: int) -> None:
        """``count``: how many generations there will be."""
        self.generations: list[Generation] = []
        self._queue, self._count = queue, count
        self._inboxes: list[tuple[asyncio.Queue[tuple[int, Event]], int]] = []
        queue.tickets.add(self)

    @property
    def only(self) -> Generation:
        """The generation of a request for one reply."""
        (generation,) = self.generations
        return generation

    @property
    def open(self) -> int:
        """Replies that have not ended, even if their events were not read yet."""
        return self._count - sum(generation.ended for generation in self.generations)

    def close(self) -> None:
        """Cancel what still runs or waits, and make room for the next request."""
        for generation in self.generations:
            generation.cancel()
        self._queue.tickets.discard(self)

    def end(self) -> None:
        """End all readers at once because the server ends, even during a round."""
        for generation in self.generations:
            generation.cancel()
        for inbox, count in self._inboxes:
            for index in range(count):
                inbox.put_nowait((index, Finished(FinishReason.CANCELLED, "", "", ())))

    async def events_of(self, generation: Generation) -> AsyncGenerator[Event, None]:
        """Yield a generation's events."""
        async for _, event in self.events(generation):
            yield event

    async def events(self, *only: Generation) -> AsyncGenerator[tuple[int, Event], None]:
        """Yield the events of generations, by default of all, as they come from the engine's thread, each
        with its generation's index."""
        loop, followed = asyncio.get_running_loop(), only or self.generations
        inbox: asyncio.Queue[tuple[int, Event]] = asyncio.Queue()

        def receive(index: int, event: Event) -> None:
            # The loop may be closed before the last events come.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(inbox.put_nowait, (index, event))

        self._inboxes.append((inbox, len(followed)))
        if self._queue.ended:
            self.end()
        for index, generation in enumerate(followed):
            generation.listen(partial(receive, index))
        left = set(range(len(followed)))
        while left:
            index, event = await inbox.get()
            if index not in left:  # it was ended before
                continue
            if isinstance(event, Finished | Failed):
                left.remove(index)
            yield index, event


class Pace:
    """The rate at which replies end while any run, from which a refused client's waiting time follows."""

    _DECAY = 0.9
    """Weight of an interval at the next one: about the last ten matter."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._running = 0
        self._since = 0.0  # when the last one ended, or the first running one began
        self._seconds = self._ends = 0.0

    def watch(self, generation: Generation) -> None:
        """Measure a generation from now to its end."""
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
                self._seconds = self._DECAY * self._seconds + now - self._since
                self._ends = self._DECAY * self._ends + 1
                self._since = now

    def until(self, ends: int) -> int:
        """Return the expected seconds, at least 1, until ``ends`` more replies end."""
        with self._lock:
            waited = self._clock() - self._since if self._running else 0.0
            # While nothing ends, a reply takes at least as long as the wait so far.
            each = max(self._seconds / self._ends if self._ends else RETRY_S, waited)
            return max(1, math.ceil(each * ends - waited))


class RequestQueue:
    """Admits requests to the engine. For the event loop's thread alone."""

    def __init__(self, engine: Engine, learning: IdleLearning | None = None) -> None:
        """``learning`` follows all replies."""
        self.engine, self._learning = engine, learning
        self.meter, self.pace = Meter(), Pace()
        self.tickets: set[Ticket] = set()
        self.ended = False

    def end(self) -> None:
        """End all requests and admit no more, because the server ends."""
        self.ended = True
        for ticket in tuple(self.tickets):
            ticket.end()

    async def admit(
        self, requests: Sequence[Request], model: str = "", engine: Engine | None = None
    ) -> Ticket:
        """Submit all of ``requests`` or none; metrics count them for ``model``, which ``engine`` has.

        Raises ApiError if too many replies wait, and the engine's errors. With nothing running or
        waiting, any number is taken.
        """
        if self.ended:
            raise closing()
        engine = engine or self.engine
        loaded = engine.loaded
        parallel = 1 if loaded is None else loaded.capabilities.parallel
        count, present = len(requests), sum(ticket.open for ticket in self.tickets)
        too_many = present + count - parallel - MAX_WAITING
        if present and too_many > 0:
            retry = self.pace.until(min(too_many, present))
            if too_many < count:
                raise asks_too_many(count, count - too_many, retry)
            raise queue_full(present - parallel, retry=retry)
        ticket, entry = Ticket(self, count), current.get()

        def submit() -> None:
            for request in requests:
                generation = engine.generate(request)
                self.meter.watch(generation, model)
                self.pace.watch(generation)
                if self._learning is not None:
                    self._learning.follow(generation, loaded)
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
