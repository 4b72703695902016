"""Requests that come and go while others run, on one session and without a thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from engine.decoding.work import WorkItem
from engine.events import Emitted, Event, Finished, Prefilled
from engine.local.session import Session
from engine.request import Request


@dataclass(slots=True, eq=False)
class Client:
    """Asks ``request`` once so many passes have been served, and leaves after ``rounds`` of its own."""

    request: Request
    arrives: int = 0
    rounds: int | None = None
    events: list[Event] = field(default_factory=list)
    error: Exception | None = None

    @property
    def emitted(self) -> list[Emitted]:
        return [event for event in self.events if isinstance(event, Emitted)]

    @property
    def cancelled(self) -> bool:
        return self.rounds is not None and len(self.emitted) >= self.rounds

    @property
    def ended(self) -> bool:
        return bool(self.events) and isinstance(self.events[-1], Finished)

    @property
    def finished(self) -> Finished:
        last = self.events[-1]
        assert isinstance(last, Finished), last
        return last

    @property
    def prefilled(self) -> Prefilled:
        return next(event for event in self.events if isinstance(event, Prefilled))


@dataclass(slots=True)
class Crowd:
    """What ``serve`` had to do: how many waited each time."""

    waited: list[int] = field(default_factory=list)


def run(
    session: Session,
    clients: Sequence[Client],
    looks: Callable[[list[WorkItem]], None] = lambda waits: None,
) -> Crowd:
    """Answers all of them, as many at once as the session can, in the order they arrive.

    ``looks`` sees what is waited for before each pass."""
    coming = sorted(clients, key=lambda client: client.arrives)
    running: dict[Client, tuple[Iterator[WorkItem | None], WorkItem | None]] = {}
    crowd, served = Crowd(), 0
    while coming or running:
        while coming and len(running) < session.parallel:
            if running and coming[0].arrives > served:
                break
            client = coming.pop(0)
            steps = session.steps(
                client.request,
                client.events.append,
                lambda c=client: c.cancelled,  # type: ignore[misc]
            )
            running[client] = steps, None
        for client, (going, wait) in tuple(running.items()):
            if wait is None or wait.ready:
                running[client] = going, _advance(client, going)
                if running[client][1] is None:
                    del running[client]
        waits = [wait for _, wait in running.values() if wait is not None]
        if waits:
            looks(waits)
            crowd.waited.append(len(waits))
            session.run_batch(waits)
            assert any(wait.ready for wait in waits)
            served += 1
    return crowd


def _advance(client: Client, steps: Iterator[WorkItem | None]) -> WorkItem | None:
    """What it waits for next; None at its end."""
    try:
        return next((work for work in steps if work is not None), None)
    except Exception as error:
        client.error = error
    return None
