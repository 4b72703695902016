"""The routes of the API: OpenAI's chats and completions, and those of Responses, Anthropic and Ollama."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, TypeVar

from anyio import to_thread
from fastapi import APIRouter, Depends
from starlette.requests import Request as HttpRequest
from starlette.responses import PlainTextResponse, Response

from app.runtime import Runtime
from app.server import document, embeddings, text
from app.server.answer import Answer, ChatDialect, Dialect, TextDialect, chat_reason, stop_found
from app.server.anthropic import routes as anthropic
from app.server.errors import (
    READING,
    REFUSED,
    REFUSED_IN_COMPLETIONS,
    AnyMethod,
    ApiError,
    Route,
    error_event,
    unanswered,
)
from app.server.fields.schemas import ChatBody, CompletionBody, UnloadBody, read
from app.server.models import Models
from app.server.monitoring import metrics
from app.server.monitoring.prometheus import CONTENT_TYPE
from app.server.ollama import routes as ollama
from app.server.request_queue import RequestQueue, Ticket
from app.server.requests import Convert, Service, chat_requests, completion_requests
from app.server.responses import routes as responses
from app.server.sending import Json, JsonReply, Stream, comment, data, send_whole
from app.web.error_forms import Form, form_of
from app.web.guard import LLAMA_CPP, METRICS
from app.web.switch import ApiSwitch
from engine import trace
from engine.api import Loaded
from engine.errors import InvalidRequest
from engine.events import Emitted, Event, Finished, Queued, Started

Completing = TypeVar("Completing", ChatBody, CompletionBody)


def create_api(runtime: Runtime, switch: ApiSwitch, queue: RequestQueue) -> APIRouter:
    """Return the API's router. Include it before anything that is mounted at the root."""
    models = Models(runtime)
    service = Service(models, queue)
    router = APIRouter(route_class=Route, dependencies=[Depends(_only_if(switch))])

    @router.api_route("/v1/models", methods=READING)
    async def list_models(http: HttpRequest) -> Response:
        listed = await to_thread.run_sync(models.list)  # it looks at the disk
        return JsonReply({**listed, "data": [_for_client(http, one) for one in listed["data"]]})

    @router.api_route("/v1/models/{name:path}", methods=READING)
    async def one_model(http: HttpRequest, name: str) -> Response:
        return JsonReply(_for_client(http, await to_thread.run_sync(models.one, name)))

    @router.post("/v1/models/unload")
    async def unload(http: HttpRequest) -> Response:
        body = await read(http, UnloadBody, {})
        ids = await models.unload(body.model)
        return JsonReply({"unloaded": ids[0] if ids else None, "models": ids})

    @router.post("/v1/chat/completions")
    async def chat_completions(http: HttpRequest) -> Response:
        body = await read(http, ChatBody, REFUSED)
        dialect = ChatDialect(bool(body.logprobs))
        return await _generate(service, http, body, chat_requests, dialect)

    @router.post("/v1/completions")
    async def completions(http: HttpRequest) -> Response:
        body = await read(http, CompletionBody, REFUSED_IN_COMPLETIONS)
        dialect = TextDialect(body.logprobs)
        return await _generate(service, http, body, completion_requests, dialect)

    if not switch.pages:

        @router.api_route("/", methods=READING)
        async def root() -> Response:
            return PlainTextResponse(_RUNNING)

    @router.api_route("/health", methods=READING)
    async def health() -> Response:
        # llama.cpp's clients read it before they send anything.
        models.find(None)
        return JsonReply({"status": "ok"})

    @router.api_route("/metrics", methods=READING)
    async def metrics() -> Response:
        return Response(queue.meter.page(), media_type=CONTENT_TYPE)

    @router.api_route("/v1/openapi.json", methods=READING)
    async def openapi() -> Response:
        return JsonReply(document.build())

    responses.add_routes(router, service)
    anthropic.add_routes(router, service)
    ollama.add_routes(router, service)
    text.add_routes(router, service)
    embeddings.add_routes(router, service)

    async def anything_else(http: HttpRequest) -> Response:
        raise unanswered(http, router.routes, _ENDPOINTS[form_of(http.scope)])

    elsewhere = ("/health", METRICS, *LLAMA_CPP)
    for path in ("/v1", "/v1/{path:path}", "/api/{path:path}", *elsewhere):
        router.add_api_route(path, anything_else, route_class_override=AnyMethod)
    return router


def _for_client(http: HttpRequest, entry: dict[str, Any]) -> dict[str, Any]:
    """Return a model's entry without our ``capabilities`` for Anthropic's clients, which read another
    object by that name."""
    ours = form_of(http.scope) is not Form.ANTHROPIC
    return {name: value for name, value in entry.items() if ours or name != "capabilities"}


_RUNNING = "Ollama is running\n\nThis is Foretoken, with Ollama's, OpenAI's and Anthropic's API.\n"
"""Ollama's clients look for the first words."""
_ENDPOINTS = {
    Form.OPENAI: "Available: GET /v1/models, POST /v1/chat/completions, /v1/completions, "
    "/v1/responses, /v1/messages, /v1/embeddings and /v1/rerank. GET /v1/openapi.json describes "
    "them all.",
    Form.ANTHROPIC: "Available of Anthropic's protocol: POST /v1/messages, POST "
    "/v1/messages/count_tokens and GET /v1/models.",
    Form.OLLAMA: "Available of Ollama's protocol: chat, generate, embed, pull, tags, show, ps and "
    "version.",
}


def _only_if(switch: ApiSwitch) -> Callable[[], None]:
    """Return a dependency that refuses requests while the API is off."""

    def switched_on() -> None:
        if not switch.on:
            raise ApiError(
                404,
                "The API is off. Turn it on on the Server page, or start Foretoken with --api.",
                code="api_off",
            )

    return switched_on


async def _generate(
    service: Service,
    http: HttpRequest,
    body: Completing,
    convert: Convert[Completing],
    dialect: Dialect,
) -> Response:
    several = (body.n or 1) * (len(body.prompt) if isinstance(body, CompletionBody) else 1) > 1
    if body.return_events and (not body.stream or several):
        raise InvalidRequest(
            "return_events",
            "return_events needs one streamed reply. Send stream true and n 1, or leave it out.",
        )
    loaded, ticket = await service.admit(body, convert)
    job = Job(body, loaded, dialect)
    if body.stream:
        return Stream(_chunks(ticket, job), ticket.close, error_event, end=DONE)
    return await send_whole(http, _whole(ticket, job), ticket.close)


DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class Job:
    """What an answer has beside its replies."""

    body: ChatBody | CompletionBody
    loaded: Loaded
    dialect: Dialect
    created: int = field(default_factory=lambda: int(time.time()))
    token: str = field(default_factory=lambda: secrets.token_hex(12))

    @property
    def n(self) -> int:
        """Choices of each prompt."""
        return self.body.n or 1

    def head(self, kind: str) -> Json:
        """Return the first fields of every object of one answer."""
        return {
            "id": f"{self.dialect.prefix}-{self.token}",
            "object": kind,
            "created": self.created,
            "model": self.loaded.id,
        }

    def answers(self, ticket: Ticket) -> list[Answer]:
        """Return an answer for each generation, without events yet."""
        calls = self.loaded.capabilities.calls
        detailed = self.body.spec_decode_metrics == "detailed"
        return [Answer(each.request, calls, keeps_rounds=detailed) for each in ticket.generations]


async def _whole(ticket: Ticket, job: Job) -> Json:
    answers = job.answers(ticket)
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
    answers, options = job.answers(ticket), job.body.stream_options
    head, left = job.head(job.dialect.part), len(answers)
    include_usage = options is not None and options.include_usage
    no_usage = {"usage": None} if include_usage else {}
    async with aclosing(ticket.events()) as events:
        async for index, event in events:
            if isinstance(event, Queued):
                yield comment(f"waiting, {event.ahead} ahead")
            for choice in _choices(event, answers[index], job.dialect):
                left -= bool(choice["finish_reason"])
                extra = {} if left else metrics.measured(answers)
                choices = [{"index": index, **choice}]
                yield data({**head, "choices": choices, **no_usage, **extra})
            if job.body.return_events:
                yield data({**head, "choices": [], **no_usage, "event": trace.to_json(event)})
    if include_usage:
        usage = metrics.usage(answers, job.n)
        yield data({**head, "choices": [], "usage": usage, **metrics.measured(answers)})


def _choices(event: Event, answer: Answer, dialect: Dialect) -> Iterator[Json]:
    """Add ``event`` to ``answer``; yield the choices that a stream sends, without their index."""
    answer.add(event)
    match event:
        case Started():
            yield from dialect.opening()
        case Emitted():
            yield from dialect.added(answer, event.tokens)
        case Finished():
            yield from dialect.added(answer, None)
            yield dialect.ended(str(chat_reason(answer))) | stop_found(answer)
        case _:
            pass
