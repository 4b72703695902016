"""Answer a request for chats or completions, whole or as a stream."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from app.server.answer import Answer, Dialect, chat_reason, stop_found
from app.server.errors import error_event
from app.server.monitoring import metrics
from app.server.monitoring.counter import Ticket
from app.server.transport.sending import Stream, comment, data, send_whole
from engine import trace
from engine.events import Emitted, Event, Finished, Queued, Started
from engine.request import Request
from engine.tool_calls.styles import CallStyle

DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The form of an answer. ``n``: choices of each prompt. ``detailed``: report each round. ``events``:
    stream the engine's events too. ``calls``: how the model writes calls of tools."""

    dialect: Dialect
    model: str
    n: int
    stream: bool
    include_usage: bool
    detailed: bool = False
    events: bool = False
    calls: CallStyle | None = None
    created: int = field(default_factory=lambda: int(time.time()))
    token: str = field(default_factory=lambda: secrets.token_hex(12))

    def head(self, kind: str) -> dict[str, Any]:
        """Return the first fields of every object of one answer."""
        return {
            "id": f"{self.dialect.prefix}-{self.token}",
            "object": kind,
            "created": self.created,
            "model": self.model,
        }


async def reply(http: HttpRequest, ticket: Ticket, job: Job) -> Response:
    """Return the answer, which closes ``ticket`` in the end, also when the client leaves."""
    if job.stream:
        return Stream(_chunks(ticket, job), ticket.close, error_event, end=DONE)
    return await send_whole(http, _whole(ticket, job), ticket.close)


async def _whole(ticket: Ticket, job: Job) -> dict[str, Any]:
    answers = [_answer(generation.request, job) for generation in ticket.generations]
    for answer, generation in zip(answers, ticket.generations, strict=True):
        await answer.follow(ticket.events_of(generation))
    return {
        **job.head(job.dialect.whole),
        "choices": [
            {"index": index, **job.dialect.choice(answer)} for index, answer in enumerate(answers)
        ],
        "usage": metrics.usage(answers, job.n),
        **metrics.measured(answers),
    }


async def _chunks(ticket: Ticket, job: Job) -> AsyncGenerator[bytes, None]:
    answers = [_answer(generation.request, job) for generation in ticket.generations]
    head, left = job.head(job.dialect.part), len(answers)
    no_usage = {"usage": None} if job.include_usage else {}
    async with aclosing(ticket.events()) as events:
        async for index, event in events:
            if isinstance(event, Queued):
                yield comment(f"waiting, {event.ahead} ahead")
            for choice in _choices(event, answers[index], job):
                left -= bool(choice["finish_reason"])
                extra = {} if left else metrics.measured(answers)
                choices = [{"index": index, **choice}]
                yield data({**head, "choices": choices, **no_usage, **extra})
            if job.events:
                yield data({**head, "choices": [], **no_usage, "event": trace.to_json(event)})
    if job.include_usage:
        usage = metrics.usage(answers, job.n)
        yield data({**head, "choices": [], "usage": usage, **metrics.measured(answers)})


def _answer(request: Request, job: Job) -> Answer:
    return Answer(request, job.calls, keeps_rounds=job.detailed)


def _choices(event: Event, answer: Answer, job: Job) -> Iterator[dict[str, Any]]:
    """Add ``event`` to ``answer``; yield the choices that a stream sends, without their index."""
    answer.add(event)
    match event:
        case Started():
            opening = job.dialect.opening()
            if opening is not None:
                yield opening
        case Emitted():
            yield from job.dialect.added(answer, event.tokens)
        case Finished():
            yield from job.dialect.added(answer, None)
            yield job.dialect.ended(str(chat_reason(answer))) | stop_found(answer)
        case _:
            pass
