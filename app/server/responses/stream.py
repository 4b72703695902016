"""A response as events, in OpenAI's order: each item between its beginning and its end."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

from app.server.answer import Answer
from app.server.errors import ApiError, translate
from app.server.monitoring.counter import Ticket
from app.server.responses.job import Job
from app.server.responses.response_store import Json
from app.server.transport.streaming import comment, named
from engine.events import Emitted, Queued, Token
from engine.tool_calls.reading import Arguments, Called, Part, Said

Event = tuple[str, Json]
"""What it is and what it tells."""


async def events(ticket: Ticket, job: Job) -> AsyncGenerator[bytes, None]:
    """The stream's."""
    (generation,) = ticket.generations
    answer, tell = job.answer(generation.request), _Teller()
    output = _Output(job, answer)
    yield tell("response.created", response=job.response("in_progress"))
    yield tell("response.in_progress", response=job.response("in_progress"))
    for kind, told in output.begin():
        yield tell(kind, **told)
    async with aclosing(ticket.events_of(generation)) as heard:
        async for event in heard:
            try:
                answer.add(event)
            except ApiError as error:
                failed = {"code": "server_error", "message": error.message}
                yield tell("response.failed", response=job.response("failed", error=failed))
                return
            if isinstance(event, Queued):
                yield comment(f"waiting, {event.ahead} ahead")
            tokens = (event.tokens or ()) if isinstance(event, Emitted) else ()
            for kind, told in output.add(tokens):
                yield tell(kind, **told)
    response = job.end(answer)
    for kind, told in output.end(response["output"]):
        yield tell(kind, **told)
    yield tell(f"response.{response['status']}", response=response)


async def framed(chunks: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """``chunks`` up to their end or first error, which becomes an event of its own."""
    try:
        async for chunk in chunks:
            yield chunk
    except Exception as error:
        told = translate(error)
        event = {"type": "error", "code": told.code, "message": told.message, "param": told.param}
        yield named("error", {**event, "sequence_number": -1})


class _Output:
    """The events of a reply's items. Items come one after the other: a message, then calls."""

    def __init__(self, job: Job, answer: Answer) -> None:
        self._job, self._answer = job, answer
        self._index = -1  # of the item that is open
        self._spoken = False  # whether there is a message
        self._tokens: deque[Token] = deque()  # of text that was not told yet

    def begin(self) -> Iterator[Event]:
        """What can be told before the reply begins: where it calls nothing, that there is a message."""
        if self._answer.calls is None:
            yield from self._begin_message()

    def add(self, tokens: tuple[Token, ...]) -> Iterator[Event]:
        """What the answer's last event added, which brought ``tokens``."""
        self._tokens.extend(tokens if self._job.logprobs else ())
        for part in self._answer.parts:
            yield from self._add(part)
        if self._spoken and (due := self._due()):  # tokens that end no character
            yield self._delta("", due)

    def end(self, items: list[Json]) -> Iterator[Event]:
        """Ends the last of ``items``, which are the reply's."""
        if self._index < 0:
            yield from self._begin_message()
        yield from self._close(items[-1])

    def _add(self, part: Part) -> Iterator[Event]:
        match part:
            case Said(text):
                if not self._spoken:
                    yield from self._begin_message()
                yield self._delta(text, self._due())
            case Called(index):
                if self._index >= 0:
                    yield from self._close(self._finished(index))
                self._index += 1
                item = self._job.call(index, "in_progress", self._answer.called[index])
                opened = item | {"arguments": ""}
                yield self._told("output_item.added", item=opened)
            case Arguments(index, text):
                id = self._job.call(index, "in_progress", self._answer.called[index])["id"]
                yield self._told("function_call_arguments.delta", item_id=id, delta=text)

    def _finished(self, index: int) -> Json:
        """The item before the ``index``-th call."""
        if index:
            return self._job.call(index - 1, "completed", self._answer.called[index - 1])
        return self._job.message("completed", self._answer)

    def _begin_message(self) -> Iterator[Event]:
        self._index, self._spoken = self._index + 1, True
        yield self._told("output_item.added", item=self._job.message("in_progress", None))
        yield self._of_text("content_part.added", part=self._job.part(None))

    def _close(self, item: Json) -> Iterator[Event]:
        if item["type"] == "message":
            (part,) = item["content"]
            text = {"text": part["text"], "logprobs": part["logprobs"]}
            yield self._of_text("output_text.done", **text)
            yield self._of_text("content_part.done", part=part)
        else:
            arguments = {"name": item["name"], "arguments": item["arguments"]}
            yield self._told("function_call_arguments.done", item_id=item["id"], **arguments)
        yield self._told("output_item.done", item=item)

    def _delta(self, text: str, tokens: list[Token]) -> Event:
        logprobs = self._job.told_logprobs(tokens)
        return self._of_text("output_text.delta", delta=text, logprobs=logprobs)

    def _due(self) -> list[Token]:
        """The tokens of what was said up to now: those of a call are told nowhere."""
        found, said = [], len(self._answer.said)
        plain = self._answer.calls is None
        while self._tokens and (plain or self._tokens[0].start < said):
            found.append(self._tokens.popleft())
        return found

    def _of_text(self, kind: str, **told: Any) -> Event:
        return self._told(kind, item_id=self._job.message_id, content_index=0, **told)

    def _told(self, kind: str, **told: Any) -> Event:
        return f"response.{kind}", {"output_index": self._index, **told}


class _Teller:
    """Counts the events of one stream."""

    def __init__(self) -> None:
        self._number = 0

    def __call__(self, kind: str, **fields: Any) -> bytes:
        number, self._number = self._number, self._number + 1
        return named(kind, {"type": kind, "sequence_number": number, **fields})
