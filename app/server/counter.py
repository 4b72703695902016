"""Where API requests wait for the engine, and how its events reach a coroutine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from anyio import to_thread

from app.server.errors import ApiError
from engine.events import Event, Failed, Finished
from engine.request import Request

if TYPE_CHECKING:
    from engine.api import Engine, Generation

MAX_WAITING = 32
"""How many API requests may wait behind the one that is answered."""


class Ticket:
    """One API request's generations. Whoever holds it must close it, however the request ends."""

    def __init__(self, counter: Counter) -> None:
        self.generations: list[Generation] = []
        self._counter: Counter | None = counter
        counter.present += 1

    def close(self) -> None:
        """Cancels what still runs or waits, and makes room for the next request."""
        for generation in self.generations:
            generation.cancel()
        if self._counter is not None:
            self._counter.present -= 1
            self._counter = None


class Counter:
    """Admits requests to the engine; belongs to the event loop's thread."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.present = 0

    async def admit(self, requests: Sequence[Request]) -> Ticket:
        """Submits all of ``requests`` or none. Raises ApiError when too many wait, and what the
        engine raises for a request it cannot serve."""
        if self.present > MAX_WAITING:
            raise ApiError(
                429,
                f"{MAX_WAITING} requests are waiting already. Try again when some are done.",
                code="queue_full",
                kind="rate_limit_error",
                retry=True,
            )
        ticket = Ticket(self)

        def submit() -> None:
            for request in requests:
                ticket.generations.append(self.engine.generate(request))

        try:
            # Tokenizing a long prompt takes a while: not in the event loop's thread.
            await to_thread.run_sync(submit)
        except BaseException:
            ticket.close()
            raise
        return ticket


async def events_of(generation: Generation) -> AsyncGenerator[Event, None]:
    """A generation's events, as the engine's thread tells them."""
    loop = asyncio.get_running_loop()
    inbox: asyncio.Queue[Event] = asyncio.Queue()

    def hear(event: Event) -> None:
        # The loop may have been closed when the last events come: nobody wants them then.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(inbox.put_nowait, event)

    generation.listen(hear)
    while True:
        event = await inbox.get()
        yield event
        if isinstance(event, Finished | Failed):
            return
