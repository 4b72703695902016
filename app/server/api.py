"""The routes. Each reads a body, asks the engine and words the answer; nothing is kept between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from fastapi import APIRouter, Depends
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from app.defaults import Defaults
from app.runtime import Runtime
from app.server.counter import Counter
from app.server.dialects import ChatDialect, Dialect, TextDialect
from app.server.errors import ApiError, Route
from app.server.models import Models
from app.server.payload import JsonReply
from app.server.replying import Job, reply
from app.server.requests import Drafting, chat_requests, completion_requests, named_as_in
from app.server.schemas import ChatBody, CompletionBody, GenerationBody, parse
from app.server.unsupported import refuse
from app.switch import ApiSwitch
from engine.request import Request

LARGEST_BODY = 16 * 2**20
"""Bytes; the longest context a model may have is far below this."""
BODY_S = 30.0
"""Seconds for all of a body."""

METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]

Body = TypeVar("Body", bound=GenerationBody)
Ask = Callable[[Body, Drafting], tuple[Request, ...]]


def create_api(runtime: Runtime, switch: ApiSwitch, counter: Counter) -> APIRouter:
    """The API as a router, to be included before anything that is mounted at the root."""
    models = Models(runtime)
    defaults = Defaults(runtime.data_dir)

    def switched_on() -> None:
        if not switch.on:
            raise ApiError(
                404,
                "The API is switched off. Switch it on on the Server page, or start Foretoken "
                "with --api.",
                code="api_off",
            )

    router = APIRouter(route_class=Route, dependencies=[Depends(switched_on)])

    @router.get("/v1/models")
    async def list_models() -> Response:
        return JsonReply(models.list())

    @router.get("/v1/models/{name:path}")
    async def one_model(name: str) -> Response:
        return JsonReply(models.one(name))

    @router.post("/v1/chat/completions")
    async def chat_completions(http: HttpRequest) -> Response:
        body = await read(http, ChatBody)
        dialect = ChatDialect(bool(body.logprobs))
        return await generate(http, body, chat_requests, dialect, bool(body.logprobs))

    @router.post("/v1/completions")
    async def completions(http: HttpRequest) -> Response:
        body = await read(http, CompletionBody)
        dialect = TextDialect(body.logprobs is not None)
        return await generate(http, body, completion_requests, dialect, body.logprobs is not None)

    @router.get("/health")
    async def health() -> Response:
        # What llama.cpp's clients ask before they send anything.
        models.find(None)
        return JsonReply({"status": "ok"})

    @router.api_route("/v1", methods=METHODS)
    @router.api_route("/v1/{path:path}", methods=METHODS)
    async def anything_else(http: HttpRequest) -> Response:
        raise ApiError(
            404,
            f"There is no {http.method} {http.url.path}. There are GET /v1/models, "
            "POST /v1/chat/completions and POST /v1/completions.",
            code="unknown_endpoint",
        )

    async def generate(
        http: HttpRequest, body: Body, ask: Ask[Body], dialect: Dialect, logprobs: bool
    ) -> Response:
        loaded = models.find(body.model)
        with named_as_in(body):
            pair = Drafting(loaded, defaults.speculation(loaded))
            ticket = await counter.admit(ask(body, pair))
        options = body.stream_options
        job = Job(
            dialect=dialect,
            model=loaded.id,
            n=body.n or 1,
            stream=bool(body.stream),
            include_usage=bool(options and options.include_usage),
            logprobs=logprobs,
        )
        return await reply(http, ticket, job)

    return router


async def read(http: HttpRequest, kind: type[Body]) -> Body:
    """The request's body, whatever content type it claims. Raises a 400, 408 or 413."""
    try:
        async with asyncio.timeout(BODY_S):
            raw = await _whole(http)
    except TimeoutError:
        raise ApiError(
            408,
            f"The body did not come within {BODY_S:g} seconds. Send the request again.",
            code="request_timeout",
            hang_up=True,
        ) from None
    body = parse(kind, raw)
    refuse(raw)
    return body


async def _whole(http: HttpRequest) -> bytes:
    raw = bytearray()
    async for part in http.stream():
        raw += part
        if len(raw) > LARGEST_BODY:
            raise ApiError(
                413, f"The body is larger than {LARGEST_BODY >> 20} MiB.", code="too_large"
            )
    return bytes(raw)
