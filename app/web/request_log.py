"""The log of the API's last requests, in memory: client, path, stage and statistics, but no texts.

Thread-safe.
"""

from __future__ import annotations

import json
import threading
import time
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.watchers import Watchers
from app.web.guard import METRICS, is_api
from engine.api import Generation
from engine.events import Event, Failed, Finished, FinishReason, Queued, Started
from engine.stats import Statistics, Tally

KEPT = 100
"""Requests in the log."""


class Stage(StrEnum):
    """The progress of a request, or how it ended."""

    ARRIVED = "arrived"
    """Its body is read, or its model is loaded."""
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
# A request with several replies has the first of these stages that any of them has.
_FIRST = (Stage.RUNNING, Stage.WAITING, Stage.FAILED, Stage.CANCELLED, Stage.LENGTH, Stage.DONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedRequest:
    """A request's current values. ``at``: its arrival, in seconds since 1970; ``seconds``: from then to
    now or its end. ``statistics``: of all its replies. ``version`` grows with every change."""

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
    """``version`` of the log, the ``numbers`` of its requests, and those ``requests`` that changed."""

    version: int
    numbers: tuple[int, ...]
    requests: tuple[LoggedRequest, ...]


class _Reply:
    """One of a request's generations."""

    def __init__(self, generation: Generation) -> None:
        # Only until its end: it has all events in memory.
        self.generation: Generation | None = generation
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
    """A request in the log, which its handler updates."""

    def __init__(self, log: RequestLog, number: int, address: str, agent: str, path: str) -> None:
        self._log, self.number = log, number
        self._who = (address, agent, path)
        self._at, self._began = time.time(), time.monotonic()
        self._seconds: float | None = None
        self._replies: list[_Reply] = []
        self._refusal = ""
        self._ended = False
        self.model = ""
        self.cancelled = False
        """True if a person cancelled it on the Server page."""
        self.version = 0

    def follow(self, generation: Generation, model: str) -> None:
        """Follow one of its replies, which was just submitted."""
        reply = _Reply(generation)
        with self._log.lock:
            self._replies.append(reply)
            self.model = model

        def hear(event: Event) -> None:
            with self._log.lock:
                reply.add(event)
            self._log.changed(self)

        generation.listen(hear)
        if self.cancelled:
            generation.cancel()

    def refuse(self, message: str) -> None:
        """Record why it was refused."""
        self._refusal = message
        self._log.changed(self)

    def end(self) -> None:
        """Record its end: it was answered, or its client left."""
        self._ended = True
        self._seconds = time.monotonic() - self._began
        self._log.changed(self)

    def cancel(self) -> None:
        """Cancel its replies, also later ones."""
        self.cancelled = True
        with self._log.lock:
            replies = tuple(self._replies)
        for generation in [reply.generation for reply in replies]:
            if generation is not None:
                generation.cancel()

    @property
    def followed(self) -> bool:
        """True if it reached the engine."""
        return bool(self._replies)

    @property
    def stage(self) -> Stage:
        if self._refusal:
            return Stage.REFUSED
        stages = {reply.stage for reply in self._replies}
        if not stages:
            return Stage.DONE if self._ended else Stage.ARRIVED
        stage = next(stage for stage in _FIRST if stage in stages)
        return Stage.CANCELLED if self._ended and stage not in ENDED else stage

    def shown(self) -> LoggedRequest:
        address, agent, path = self._who
        now, replies = time.monotonic(), self._replies
        return LoggedRequest(
            number=self.number,
            version=self.version,
            at=self._at,
            seconds=now - self._began if self._seconds is None else self._seconds,
            address=address,
            agent=agent,
            path=path,
            model=self.model,
            method=next((reply.method for reply in replies if reply.method), ""),
            stage=self.stage,
            message=self._refusal or next((reply.error for reply in replies if reply.error), ""),
            statistics=sum((reply.tally.statistics() for reply in replies), Statistics()),
        )


current: ContextVar[Entry | None] = ContextVar("current", default=None)
"""The API's request that this code runs for, if any."""


class RequestLog:
    """The last requests of one running app."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.watchers = Watchers()
        self._entries: dict[int, Entry] = {}
        self._version = self._count = 0
        self.last_at = 0.0
        """When the last request came, in seconds since 1970."""

    def begin(self, address: str, agent: str, path: str) -> Entry:
        """Log a new request. Beyond ``KEPT``, the oldest that has ended is dropped."""
        with self.lock:
            self._count += 1
            self.last_at = time.time()
            entry = self._entries[self._count] = Entry(self, self._count, address, agent, path)
            while len(self._entries) > KEPT:
                ended = (number for number, each in self._entries.items() if each.stage in ENDED)
                del self._entries[next(ended, next(iter(self._entries)))]
        self.changed(entry)
        return entry

    def changed(self, entry: Entry) -> None:
        with self.lock:
            self._version += 1
            entry.version = self._version
        self.watchers.wake()

    def since(self, version: int) -> Changes:
        """Return what changed after that version; everything if it is newer than the log's."""
        with self.lock:
            seen = version if version <= self._version else 0
            entries = self._entries.values()
            requests = tuple(each.shown() for each in entries if each.version > seen)
            return Changes(self._version, tuple(self._entries), requests)

    def cancel(self, number: int) -> bool:
        """Cancel a request; return False if it is no longer in the log."""
        with self.lock:
            entry = self._entries.get(number)
        if entry is not None:
            entry.cancel()
        return entry is not None


QUIET = (METRICS, "/api/show")
"""Paths that programs poll, without a reply by a model."""
LONGEST_ERROR = 16_384
"""Bytes of an answer that are read for the reason of a refusal."""


class Logged:
    """Wraps the guard, so that refused requests are logged too."""

    def __init__(self, app: ASGIApp, log: RequestLog) -> None:
        self.app, self.log = app, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = str(scope.get("path", ""))
        if scope["type"] != "http" or not is_api(path) or path in QUIET:
            await self.app(scope, receive, send)
        elif scope["method"] == "POST":
            await self._log_always(scope, receive, send)
        else:
            await self._log_refused(scope, receive, send)

    async def _log_always(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Log a request that may make a reply from its arrival on."""
        entry = self.log.begin(*_who(scope))
        token = current.set(entry)
        watch = _Watch(send)
        try:
            await self.app(scope, receive, watch)
        finally:
            current.reset(token)
            if watch.failed and not entry.followed:
                entry.refuse(watch.reason)
            entry.end()

    async def _log_refused(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Log lists of models and the like only if they are refused."""
        watch = _Watch(send)
        await self.app(scope, receive, watch)
        if watch.failed and scope["method"] != "OPTIONS":
            entry = self.log.begin(*_who(scope))
            entry.refuse(watch.reason)
            entry.end()


class _Watch:
    """A ``send`` that reads the status and the beginning of an error."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._status = 0
        self._body = bytearray()

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
        elif self.failed and len(self._body) < LONGEST_ERROR:
            self._body += message.get("body", b"")[: LONGEST_ERROR - len(self._body)]
        await self._send(message)

    @property
    def failed(self) -> bool:
        return self._status >= 400

    @property
    def reason(self) -> str:
        """The status and message of an error, in OpenAI's or Ollama's form."""
        try:
            error: Any = json.loads(bytes(self._body))["error"]
            message = error["message"] if isinstance(error, dict) else str(error)
        except (ValueError, KeyError, TypeError):
            message = bytes(self._body).decode("utf-8", "replace")[:200]
        return f"{self._status}: {message}"


def _who(scope: Scope) -> tuple[str, str, str]:
    """Return address, user agent and path."""
    client = scope.get("client")
    agent = Headers(scope=scope).get("user-agent", "")
    return (client[0] if client else "", agent[:200], str(scope["path"])[:200])
