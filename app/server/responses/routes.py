"""The routes of the Responses API."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from app.server.errors import READING, unsupported
from app.server.fields.schemas import read
from app.server.fields.tools import thinking_of, tools_of
from app.server.request_queue import Ticket
from app.server.requests import Drafting, Service, common_fields
from app.server.responses.job import Job, error_event, stream
from app.server.responses.response_store import ResponseStore, page
from app.server.responses.schemas import (
    LOGPROBS,
    REFUSED_IN_RESPONSES,
    ResponseBody,
    conversation_of,
    resolved,
)
from app.server.sending import Json, JsonReply, Stream, send_whole
from engine.errors import InvalidRequest
from engine.request import Request
from engine.values.messages import Message


def add_routes(router: APIRouter, service: Service) -> None:
    responses = ResponseStore()

    @router.post("/v1/responses")
    async def create(http: HttpRequest) -> Response:
        body = await read(http, ResponseBody, REFUSED_IN_RESPONSES)
        before: tuple[Message, ...] = ()
        if body.previous_response_id is not None:
            before = responses.get(body.previous_response_id, "previous_response_id").messages
        items = resolved(body.items, responses.item)
        conversation = conversation_of(items, before)
        convert = partial(_requests, conversation=conversation)
        loaded, ticket = await service.admit(body, convert)
        job = Job(body, loaded, items, conversation, responses)
        if body.stream:
            return Stream(stream(ticket, job), ticket.close, error_event)
        return await send_whole(http, _whole(ticket, job), ticket.close)

    @router.api_route("/v1/responses/{name}", methods=READING)
    async def retrieve(name: str, http: HttpRequest) -> Response:
        if http.query_params.get("stream", "false") != "false":
            raise unsupported("stream", "streaming a stored response")
        return JsonReply(responses.get(name).response)

    @router.api_route("/v1/responses/{name}/input_items", methods=READING)
    async def input_items(name: str, http: HttpRequest) -> Response:
        return JsonReply(page(responses.get(name).input, http.query_params))

    @router.delete("/v1/responses/{name}")
    async def delete(name: str) -> Response:
        responses.remove(name)
        return JsonReply({"id": name, "object": "response", "deleted": True})


def _requests(
    body: ResponseBody, pair: Drafting, conversation: tuple[Message, ...]
) -> tuple[Request, ...]:
    """Return the one request for ``conversation``, under the body's instructions."""
    if body.top_logprobs and LOGPROBS not in (body.include or ()):
        raise InvalidRequest(
            "top_logprobs",
            f'top_logprobs needs include: ["{LOGPROBS}"]. Add it, or leave top_logprobs out.',
        )
    if body.instructions:
        conversation = (Message("system", body.instructions), *conversation)
    common = common_fields(body, pair, body.top_logprobs)
    thinking = thinking_of(body, None if body.reasoning is None else body.reasoning.effort)
    return (Request(messages=conversation, **common, **tools_of(body.offered), **thinking),)


async def _whole(ticket: Ticket, job: Job) -> Json:
    answer = job.answer(ticket.only.request)
    await answer.follow(ticket.events_of(ticket.only))
    return job.end(answer)
