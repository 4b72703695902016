"""``/v1/responses``: OpenAI's Responses API, for text.

A response is kept as long as the process lives, within bounds, so that another may go on from it.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from app.server import metrics
from app.server.answer import Answer
from app.server.counter import Ticket
from app.server.dialects import chat_logprobs
from app.server.disconnect import unless_disconnected
from app.server.errors import CLIENT_LEFT, READING, ApiError, translate
from app.server.payload import JsonReply
from app.server.reading import read
from app.server.requests import Drafting, message_of, response_requests
from app.server.response_schemas import ResponseBody, refuse_in_response
from app.server.service import Service
from app.server.streaming import EventStream, comment, named
from engine.api import Loaded
from engine.events import Emitted, Finished, FinishReason, Queued, Token
from engine.request import Message, Request

Json = dict[str, Any]

MOST_KEPT = 1000
"""Responses kept; of more, those that were not used for the longest time go."""
MOST_CHARACTERS = 64 * 2**20
"""Of all kept conversations together."""
LOGPROBS = "message.output_text.logprobs"
"""What ``include`` says of them."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A response, what it answered, and the conversation up to its end."""

    response: Json
    input: tuple[Json, ...]
    messages: tuple[Message, ...]

    @property
    def characters(self) -> int:
        """About what it holds."""
        return sum(len(message.content) for message in self.messages)


class Shelf:
    """The responses that are kept; belongs to the event loop's thread."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self._characters = 0

    def put(self, kept: Kept) -> None:
        """Keeps one; others may go for it."""
        self._kept[kept.response["id"]] = kept
        self._characters += kept.characters
        while len(self._kept) > MOST_KEPT or self._characters > MOST_CHARACTERS:
            _, gone = self._kept.popitem(last=False)
            self._characters -= gone.characters

    def get(self, name: str, param: str | None = None) -> Kept:
        """Raises a 404 for one that is not there."""
        if name not in self._kept:
            raise ApiError(
                404,
                f"There is no response {name!r}. Responses are kept until Foretoken ends, the last "
                f"{MOST_KEPT} at most, and not those sent with store: false.",
                code="response_not_found",
                param=param,
            )
        self._kept.move_to_end(name)
        return self._kept[name]

    def remove(self, name: str) -> None:
        """Raises a 404 for one that is not there."""
        self._characters -= self.get(name).characters
        del self._kept[name]


def add_routes(router: APIRouter, service: Service) -> None:
    """The routes of this dialect."""
    shelf = Shelf()

    @router.post("/v1/responses")
    async def create(http: HttpRequest) -> Response:
        body, raw = await read(http, ResponseBody)
        refuse_in_response(raw)
        before: tuple[Message, ...] = ()
        if body.previous_response_id is not None:
            before = shelf.get(body.previous_response_id, "previous_response_id").messages
        asked = tuple(message_of(item, f"input[{at}]") for at, item in enumerate(body.items))
        conversation = (*before, *asked)

        def ask(body: ResponseBody, pair: Drafting) -> tuple[Request, ...]:
            return response_requests(body, pair, conversation)

        loaded, ticket = await service.admit(body, ask)
        job = _Job(body, loaded, conversation, shelf)
        if body.stream:
            return EventStream(_events(ticket, job), ticket.close, framed=_framed)
        try:
            whole = await unless_disconnected(http.receive, _whole(ticket, job))
        finally:
            ticket.close()
        return Response(status_code=CLIENT_LEFT) if whole is None else JsonReply(whole)

    @router.api_route("/v1/responses/{name}", methods=READING)
    async def retrieve(name: str) -> Response:
        return JsonReply(shelf.get(name).response)

    @router.api_route("/v1/responses/{name}/input_items", methods=READING)
    async def input_items(name: str) -> Response:
        items = list(shelf.get(name).input)
        ends = (items[0]["id"], items[-1]["id"]) if items else (None, None)
        return JsonReply(
            {
                "object": "list",
                "data": items,
                "first_id": ends[0],
                "last_id": ends[1],
                "has_more": False,
            }
        )

    @router.delete("/v1/responses/{name}")
    async def delete(name: str) -> Response:
        shelf.remove(name)
        return JsonReply({"id": name, "object": "response", "deleted": True})


@dataclass(frozen=True, slots=True)
class _Job:
    """One response in the making."""

    body: ResponseBody
    loaded: Loaded
    conversation: tuple[Message, ...]
    shelf: Shelf
    created: int = field(default_factory=lambda: int(time.time()))
    id: str = field(default_factory=lambda: f"resp_{secrets.token_hex(16)}")
    message_id: str = field(default_factory=lambda: f"msg_{secrets.token_hex(16)}")

    @property
    def logprobs(self) -> bool:
        return LOGPROBS in (self.body.include or ())

    def answer(self, request: Request) -> Answer:
        return Answer(request, keeps_rounds=self.body.spec_decode_metrics == "detailed")

    def part(self, answer: Answer | None) -> Json:
        """The text as a part of the message; None: nothing of it yet."""
        tokens = () if answer is None else answer.reply.tokens
        told = chat_logprobs(tokens) if self.logprobs and tokens is not None else []
        return {
            "type": "output_text",
            "text": "" if answer is None else answer.reply.text,
            "annotations": [],
            "logprobs": told,
        }

    def message(self, status: str, answer: Answer | None) -> Json:
        """The reply as an item; None: an empty one."""
        return {
            "id": self.message_id,
            "type": "message",
            "status": status,
            "role": "assistant",
            "content": [] if answer is None else [self.part(answer)],
        }

    def response(
        self, status: str, answer: Answer | None = None, error: Json | None = None
    ) -> Json:
        """The response as it stands; ``answer``: the whole one, where it is there."""
        body = self.body
        cut = {"reason": "max_output_tokens"} if status == "incomplete" else None
        sampling = None if answer is None else answer.request.sampling
        return {
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "status": status,
            "background": False,
            "error": error,
            "incomplete_details": cut,
            "instructions": body.instructions,
            "max_output_tokens": body.max_output_tokens,
            "metadata": body.metadata or {},
            "model": self.loaded.id,
            "output": [] if answer is None else [self.message(_item_status(status), answer)],
            "parallel_tool_calls": True,
            "previous_response_id": body.previous_response_id,
            "reasoning": {"effort": None, "summary": None},
            "store": body.store is not False,
            "temperature": body.temperature if sampling is None else sampling.temperature,
            "text": {"format": _format(body)},
            "tool_choice": "auto",
            "tools": [],
            "top_p": body.top_p if sampling is None else sampling.top_p,
            "truncation": "disabled",
            "usage": None if answer is None else usage(answer),
            "user": body.user,
            **({} if answer is None else metrics.measured([answer])),
        }

    def end(self, answer: Answer) -> Json:
        """The finished response, which is kept if it is to be."""
        cut = answer.reply.reason is FinishReason.LENGTH
        response = self.response("incomplete" if cut else "completed", answer)
        if self.body.store is not False:
            reply = Message("assistant", answer.reply.text)
            asked = tuple(
                {"id": f"{self.message_id}_in_{at}", **item.model_dump(exclude_none=True)}
                for at, item in enumerate(self.body.items)
            )
            self.shelf.put(Kept(response, asked, (*self.conversation, reply)))
        return response


def usage(answer: Answer) -> Json:
    """Tokens, in the words of this dialect."""
    counted = metrics.usage([answer], 1)
    return {
        "input_tokens": counted["prompt_tokens"],
        "input_tokens_details": counted["prompt_tokens_details"],
        "output_tokens": counted["completion_tokens"],
        "output_tokens_details": {
            "reasoning_tokens": 0,
            **counted["completion_tokens_details"],
        },
        "total_tokens": counted["total_tokens"],
    }


async def _whole(ticket: Ticket, job: _Job) -> Json:
    (generation,) = ticket.generations
    answer = job.answer(generation.request)
    async for event in ticket.events_of(generation):
        answer.add(event)
    return job.end(answer)


async def _events(ticket: Ticket, job: _Job) -> AsyncGenerator[bytes, None]:
    """The stream's events, in OpenAI's order."""
    (generation,) = ticket.generations
    answer, tell = job.answer(generation.request), _Teller()
    yield tell("response.created", response=job.response("in_progress"))
    yield tell("response.in_progress", response=job.response("in_progress"))
    yield tell("response.output_item.added", output_index=0, item=job.message("in_progress", None))
    place = {"item_id": job.message_id, "output_index": 0, "content_index": 0}
    yield tell("response.content_part.added", **place, part=job.part(None))
    async with aclosing(ticket.events_of(generation)) as events:
        async for event in events:
            try:
                answer.add(event)
            except ApiError as error:
                told = {"code": "server_error", "message": error.message}
                yield tell("response.failed", response=job.response("failed", error=told))
                return
            match event:
                case Queued():
                    yield comment(f"waiting, {event.ahead} ahead")
                case Emitted() if event.text or (job.logprobs and event.tokens):
                    yield tell("response.output_text.delta", **place, **_delta(job, event))
                case Finished() if event.tail:
                    yield tell("response.output_text.delta", **place, delta=event.tail, logprobs=[])
                case _:
                    pass
    response, part = job.end(answer), job.part(answer)
    text = {"text": part["text"], "logprobs": part["logprobs"]}
    yield tell("response.output_text.done", **place, **text)
    yield tell("response.content_part.done", **place, part=part)
    yield tell("response.output_item.done", output_index=0, item=response["output"][0])
    yield tell(f"response.{response['status']}", response=response)


def _delta(job: _Job, event: Emitted) -> Json:
    tokens: tuple[Token, ...] = event.tokens or ()
    return {"delta": event.text, "logprobs": chat_logprobs(tokens) if job.logprobs else []}


def _item_status(status: str) -> str:
    return status if status in ("in_progress", "completed", "incomplete") else "incomplete"


class _Teller:
    """Counts the events of one stream."""

    def __init__(self) -> None:
        self._number = 0

    def __call__(self, kind: str, **fields: Any) -> bytes:
        number, self._number = self._number, self._number + 1
        return named(kind, {"type": kind, "sequence_number": number, **fields})


async def _framed(chunks: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """``chunks`` up to their end or first error, which becomes an event of its own."""
    try:
        async for chunk in chunks:
            yield chunk
    except Exception as error:
        told = translate(error)
        event = {"type": "error", "code": told.code, "message": told.message, "param": told.param}
        yield named("error", {**event, "sequence_number": -1})


def _format(body: ResponseBody) -> Json:
    """The text's, as it was asked for."""
    format = None if body.text is None else body.text.format
    if format is None:
        return {"type": "text"}
    return format.model_dump(by_alias=True, exclude_none=True)
