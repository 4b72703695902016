"""The routes of Anthropic's Messages API."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from anyio import to_thread
from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from app.server.anthropic.conversion import NAMES, chat_of
from app.server.anthropic.schemas import REFUSED_IN_MESSAGES, CountBody, MessagesBody
from app.server.anthropic.stream import Job, error_event, stream, whole
from app.server.fields.renaming import renamed
from app.server.requests import Service, chat_requests
from app.server.transport.reading import read
from app.server.transport.sending import JsonReply, Stream, send_whole
from app.web.error_forms import MESSAGES
from engine.errors import ContextExceeded


@contextmanager
def _as_anthropic_says_it() -> Iterator[None]:
    """Let errors name Anthropic's fields. By these words for a prompt that is too long its clients know
    that they must shorten the conversation, and by how much."""
    try:
        with renamed(NAMES):
            yield
    except ContextExceeded as error:
        told = f"prompt is too long: {error.tokens} tokens > {error.context} maximum. {error}"
        error.args = (told,)
        raise


def add_routes(router: APIRouter, service: Service) -> None:
    """Add the routes of this API."""

    @router.post(MESSAGES)
    async def create(http: HttpRequest) -> Response:
        body = await read(http, MessagesBody, REFUSED_IN_MESSAGES)
        with _as_anthropic_says_it():
            chat = await to_thread.run_sync(chat_of, body)  # it may read documents
            loaded, ticket = await service.admit(chat, chat_requests)
        detailed = body.spec_decode_metrics == "detailed"
        job = Job(loaded=loaded, detailed=detailed, omits_thought=body.omits_thought)
        if body.stream:
            return Stream(stream(ticket, job), ticket.close, error_event)
        return await send_whole(http, whole(ticket, job), ticket.close)

    @router.post(f"{MESSAGES}/count_tokens")
    async def count_tokens(http: HttpRequest) -> Response:
        body = await read(http, CountBody, REFUSED_IN_MESSAGES)
        with _as_anthropic_says_it():
            chat = await to_thread.run_sync(chat_of, body)
            tokens = await service.of_prompt(chat, chat_requests, lambda t, r: t.prompt(r))
        return JsonReply({"input_tokens": len(tokens)})
