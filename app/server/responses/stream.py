"""A response as a stream of events, in OpenAI's order: each item between its added and done events."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from itertools import count
from typing import Any

from app.server.answer import Answer
from app.server.errors import ApiError, translate
from app.server.monitoring.counter import Ticket
from app.server.responses.job import Job
from app.server.responses.response_store import Json
from app.server.transport.sending import comment, named
from engine.events import Emitted, Queued, Token
from engine.tool_calls.reading import Arguments, CallStart, Content, Part, Thought

Event = tuple[str, Json]
"""Its type and its fields."""


async def stream(ticket: Ticket, job: Job) -> AsyncGenerator[bytes, None]:
    """Yield the stream of one response."""
    (generation,) = ticket.generations
    answer, number = job.answer(generation.request), count()
    output = _Output(job, answer)

    def encode(kind: str, fields: Json) -> bytes:
        return named(kind, {"type": kind, "sequence_number": next(number), **fields})

    for kind in ("response.created", "response.in_progress"):
        yield encode(kind, {"response": job.response("in_progress")})
    async with aclosing(ticket.events_of(generation)) as events:
        async for event in events:
            try:
                answer.add(event)
            except ApiError as error:
                failed = {"code": "server_error", "message": error.message}
                yield encode("response.failed", {"response": job.response("failed", error=failed)})
                return
            if isinstance(event, Queued):
                yield comment(f"waiting, {event.ahead} ahead")
            tokens = (event.tokens or ()) if isinstance(event, Emitted) else ()
            for kind, fields in output.add(tokens):
                yield encode(kind, fields)
    response = job.end(answer)
    for kind, fields in output.end(response["output"]):
        yield encode(kind, fields)
    yield encode(f"response.{response['status']}", {"response": response})


def error_event(failure: Exception) -> bytes:
    """Return the event that ends a stream which failed."""
    error = translate(failure)
    event = {"type": "error", "code": error.code, "message": error.message, "param": error.param}
    return named("error", {**event, "sequence_number": -1})


class _Output:
    """The events of a reply's items, one after the other: a thought, a message, then calls."""

    def __init__(self, job: Job, answer: Answer) -> None:
        self._job, self._answer = job, answer
        self._index = -1  # of the open item
        self._has_message = self._thinks = False
        self._tokens: deque[Token] = deque()  # of text that was not sent yet

    def add(self, tokens: tuple[Token, ...]) -> Iterator[Event]:
        """Yield what the answer's last event, which brought ``tokens``, added."""
        self._tokens.extend(tokens if self._job.logprobs else ())
        for part in self._answer.parts:
            yield from self._add(part)
        if self._has_message and (due := self._due()):  # tokens that complete no character
            yield self._delta("", due)

    def end(self, items: list[Json]) -> Iterator[Event]:
        """End the last of the reply's ``items``."""
        if items[-1]["type"] == "message" and not self._has_message:
            yield from self._end_thought()
            yield from self._begin_message()
        yield from self._close(items[-1])

    def _add(self, part: Part) -> Iterator[Event]:
        match part:
            case Thought(text):
                if not self._thinks:
                    yield from self._begin_thought()
                yield self._of_thought("reasoning_text.delta", delta=text)
            case Content(text):
                if not self._has_message:
                    yield from self._end_thought()
                    yield from self._begin_message()
                yield self._delta(text, self._due())
            case CallStart(index):
                yield from self._end_thought()
                if self._has_message or index:
                    yield from self._close(self._finished(index))
                self._index += 1
                item = self._job.call(index, "in_progress", self._answer.called[index])
                opened = item | {"arguments": ""}
                yield self._event("output_item.added", item=opened)
            case Arguments(index, text):
                id = self._job.call(index, "in_progress", self._answer.called[index])["id"]
                yield self._event("function_call_arguments.delta", item_id=id, delta=text)

    def _finished(self, index: int) -> Json:
        """Return the item before the ``index``-th call."""
        if index:
            return self._job.call(index - 1, "completed", self._answer.called[index - 1])
        return self._job.message("completed", self._answer)

    def _begin_thought(self) -> Iterator[Event]:
        self._index, self._thinks = self._index + 1, True
        yield self._event("output_item.added", item=self._job.reasoning("in_progress", None))
        part = {"type": "reasoning_text", "text": ""}
        yield self._of_thought("content_part.added", part=part)

    def _end_thought(self) -> Iterator[Event]:
        if self._thinks:
            self._thinks = False
            yield from self._close(self._job.reasoning("completed", self._answer))

    def _begin_message(self) -> Iterator[Event]:
        self._index, self._has_message = self._index + 1, True
        yield self._event("output_item.added", item=self._job.message("in_progress", None))
        yield self._of_text("content_part.added", part=self._job.part(None))

    def _close(self, item: Json) -> Iterator[Event]:
        if item["type"] == "reasoning":
            (part,) = item["content"]
            yield self._of_thought("reasoning_text.done", text=part["text"])
            yield self._of_thought("content_part.done", part=part)
        elif item["type"] == "message":
            (part,) = item["content"]
            text = {"text": part["text"], "logprobs": part["logprobs"]}
            yield self._of_text("output_text.done", **text)
            yield self._of_text("content_part.done", part=part)
        else:
            arguments = {"name": item["name"], "arguments": item["arguments"]}
            yield self._event("function_call_arguments.done", item_id=item["id"], **arguments)
        yield self._event("output_item.done", item=item)

    def _delta(self, text: str, tokens: list[Token]) -> Event:
        logprobs = self._job.logprobs_of(tokens)
        return self._of_text("output_text.delta", delta=text, logprobs=logprobs)

    def _due(self) -> list[Token]:
        """Remove and return the tokens of the text so far. Those of calls are never sent."""
        due, begin = list[Token](), self._answer.reply.thoughts.start
        plain, end = self._answer.calls is None, begin + len(self._answer.content)
        while self._tokens and (plain or self._tokens[0].start < end):
            token = self._tokens.popleft()
            due += [token] if token.start >= begin else []
        return due

    def _of_text(self, kind: str, **fields: Any) -> Event:
        return self._event(kind, item_id=self._job.message_id, content_index=0, **fields)

    def _of_thought(self, kind: str, **fields: Any) -> Event:
        return self._event(kind, item_id=self._job.reasoning_id, content_index=0, **fields)

    def _event(self, kind: str, **fields: Any) -> Event:
        return f"response.{kind}", {"output_index": self._index, **fields}
