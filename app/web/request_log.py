"""What asks the API, as it comes: from whom, for what, how far it is, what it took. Nothing that is said.

The last ones, in memory alone. Safe to use from any thread.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum

from app.watchers import Watchers
from engine.api import Generation
from engine.events import Event, Failed, Finished, FinishReason, Queued, Started
from engine.stats import Statistics, Tally

KEPT = 100
"""Requests that are remembered."""


class Stage(StrEnum):
    """How far a request is, or how it ended."""

    ARRIVED = "arrived"
    """It is read, or its model is loaded."""
    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    LENGTH = "length"
    CANCELLED = "cancelled"
    REFUSED = "refused"
    FAILED = "failed"


ENDED = frozenset({Stage.DONE, Stage.LENGTH, Stage.CANCELLED, Stage.REFUSED, Stage.FAILED})
_REASONS = {
    FinishReason.STOP: Stage.DONE,
    FinishReason.LENGTH: Stage.LENGTH,
    FinishReason.CANCELLED: Stage.CANCELLED,
}
# Of several replies to one request, the first of these that one of them is.
_FIRST = (
    Stage.RUNNING,
    Stage.WAITING,
    Stage.FAILED,
    Stage.CANCELLED,
    Stage.LENGTH,
    Stage.DONE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request as it stands. ``at``: when it came, in seconds since 1970; ``seconds``: since then, or
    until its end. ``statistics`` are of all its replies together. ``version`` grows with every change."""

    number: int
    version: int
    at: float
    seconds: float
    address: str
    agent: str
    path: str
    model: str
    method: str
    stage: Stage
    message: str
    statistics: Statistics


@dataclass(frozen=True, slots=True)
class Changes:
    """``version`` of the log, the ``numbers`` that are remembered, and which ``requests`` changed."""

    version: int
    numbers: tuple[int, ...]
    requests: tuple[Asked, ...]


class _Part:
    """One of a request's generations."""

    def __init__(self, generation: Generation) -> None:
        self.generation: Generation | None = generation  # until its end: it holds all of its events
        self.tally = Tally()
        self.stage = Stage.WAITING
        self.method = ""
        self.error = ""

    def add(self, event: Event) -> None:
        self.tally.add(event)
        match event:
            case Queued():
                self.stage = Stage.WAITING
            case Started():
                self.stage, self.method = Stage.RUNNING, event.proposer
            case Finished():
                self.stage = _REASONS[event.reason]
            case Failed():
                self.stage, self.error = Stage.FAILED, event.message
            case _:
                pass
        if self.stage in ENDED:
            self.generation = None


class Entry:
    """A request that is under way; it is told what becomes of it. Belongs to its log."""

    def __init__(self, log: RequestLog, number: int, address: str, agent: str, path: str) -> None:
        self._log, self.number = log, number
        self._who = (address, agent, path)
        self._at, self._began = time.time(), time.monotonic()
        self._seconds: float | None = None
        self._parts: list[_Part] = []
        self._refusal = ""
        self._over = False
        self.model = ""
        self.cancelled = False
        """Whether somebody ended it here."""
        self.version = 0

    def follow(self, generation: Generation, model: str) -> None:
        """Takes on one of its replies, which was just asked for."""
        part = _Part(generation)
        with self._log.lock:
            self._parts.append(part)
            self.model = model

        def hear(event: Event) -> None:
            with self._log.lock:
                part.add(event)
            self._log.changed(self)

        generation.listen(hear)
        if self.cancelled:
            generation.cancel()

    def refuse(self, message: str) -> None:
        """It was not served, and why."""
        self._refusal = message
        self._log.changed(self)

    def end(self) -> None:
        """It is answered, or nobody waits for the answer any more."""
        self._over = True
        self._seconds = time.monotonic() - self._began
        self._log.changed(self)

    def cancel(self) -> None:
        """Ends its replies, also those that are not begun yet."""
        self.cancelled = True
        with self._log.lock:
            parts = tuple(self._parts)
        for generation in [part.generation for part in parts]:
            if generation is not None:
                generation.cancel()

    @property
    def followed(self) -> bool:
        """Whether it came so far as to be given to the engine."""
        return bool(self._parts)

    @property
    def stage(self) -> Stage:
        if self._refusal:
            return Stage.REFUSED
        stages = {part.stage for part in self._parts}
        if not stages:
            return Stage.ARRIVED if not self._over else Stage.DONE
        found = next(stage for stage in _FIRST if stage in stages)
        return Stage.CANCELLED if self._over and found not in ENDED else found

    def shown(self) -> Asked:
        address, agent, path = self._who
        taken = time.monotonic() - self._began if self._seconds is None else self._seconds
        return Asked(
            number=self.number,
            version=self.version,
            at=self._at,
            seconds=taken,
            address=address,
            agent=agent,
            path=path,
            model=self.model,
            method=next((part.method for part in self._parts if part.method), ""),
            stage=self.stage,
            message=self._refusal or next((p.error for p in self._parts if p.error), ""),
            statistics=sum((part.tally.statistics() for part in self._parts), Statistics()),
        )


asked: ContextVar[Entry | None] = ContextVar("asked", default=None)
"""The request that this is done for; None where it is none of the API's."""


class RequestLog:
    """The last requests of one running app."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.watchers = Watchers()
        self._entries: OrderedDict[int, Entry] = OrderedDict()
        self._version = self._count = 0

    def begin(self, address: str, agent: str, path: str) -> Entry:
        """A request came. Of more than ``KEPT`` the oldest that is over is forgotten."""
        with self.lock:
            self._count += 1
            entry = self._entries[self._count] = Entry(self, self._count, address, agent, path)
            while len(self._entries) > KEPT:
                over = (number for number, each in self._entries.items() if each.stage in ENDED)
                del self._entries[next(over, next(iter(self._entries)))]
        self.changed(entry)
        return entry

    def changed(self, entry: Entry) -> None:
        with self.lock:
            self._version += 1
            entry.version = self._version
        self.watchers.wake()

    def since(self, version: int) -> Changes:
        """What changed after that version; everything for one that was never reached."""
        with self.lock:
            seen = version if version <= self._version else 0
            entries = self._entries.values()
            requests = tuple(each.shown() for each in entries if each.version > seen)
            return Changes(self._version, tuple(self._entries), requests)

    def cancel(self, number: int) -> bool:
        """Ends a request; False for one that is forgotten."""
        with self.lock:
            entry = self._entries.get(number)
        if entry is not None:
            entry.cancel()
        return entry is not None
