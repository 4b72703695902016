"""The routes of the Responses API."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from app.server.errors import CLIENT_LEFT, READING
from app.server.fields.unsupported import unsupported
from app.server.monitoring.counter import Ticket
from app.server.requests import Drafting, response_requests
from app.server.responses.items import conversation_of, resolved
from app.server.responses.job import Job
from app.server.responses.paging import page
from app.server.responses.response_store import Json, ResponseStore
from app.server.responses.schemas import REFUSED_IN_RESPONSES, ResponseBody
from app.server.responses.stream import events, framed
from app.server.service import Service
from app.server.transport.disconnect import unless_disconnected
from app.server.transport.payload import JsonReply
from app.server.transport.reading import read
from app.server.transport.streaming import EventStream
from engine.request import Request
from engine.values.messages import Message


def add_routes(router: APIRouter, service: Service) -> None:
    """The routes of this dialect."""
    responses = ResponseStore()

    @router.post("/v1/responses")
    async def create(http: HttpRequest) -> Response:
        body = await read(http, ResponseBody, REFUSED_IN_RESPONSES)
        before: tuple[Message, ...] = ()
        if body.previous_response_id is not None:
            before = responses.get(body.previous_response_id, "previous_response_id").messages
        items = resolved(body.items, responses.item)
        conversation = conversation_of(items, before)

        def ask(body: ResponseBody, pair: Drafting) -> tuple[Request, ...]:
            return response_requests(body, pair, conversation)

        loaded, ticket = await service.admit(body, ask)
        job = Job(body, loaded, items, conversation, responses)
        if body.stream:
            return EventStream(events(ticket, job), ticket.close, framed=framed)
        try:
            whole = await unless_disconnected(http.receive, _whole(ticket, job))
        finally:
            ticket.close()
        return Response(status_code=CLIENT_LEFT) if whole is None else JsonReply(whole)

    @router.api_route("/v1/responses/{name}", methods=READING)
    async def retrieve(name: str, stream: str = "false") -> Response:
        if stream != "false":
            raise unsupported("stream", "telling a response again as a stream")
        return JsonReply(responses.get(name).response)

    @router.api_route("/v1/responses/{name}/input_items", methods=READING)
    async def input_items(name: str, http: HttpRequest) -> Response:
        return JsonReply(page(responses.get(name).input, http.query_params))

    @router.delete("/v1/responses/{name}")
    async def delete(name: str) -> Response:
        responses.remove(name)
        return JsonReply({"id": name, "object": "response", "deleted": True})


async def _whole(ticket: Ticket, job: Job) -> Json:
    (generation,) = ticket.generations
    answer = job.answer(generation.request)
    async for event in ticket.events_of(generation):
        answer.add(event)
    return job.end(answer)
