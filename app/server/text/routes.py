"""The routes on tokens and templates."""

from __future__ import annotations

from typing import Any

from anyio import to_thread
from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from app.server.errors import missing
from app.server.requests import Service, chat_requests
from app.server.text import infill
from app.server.text.schemas import DetokenizeBody, TemplateBody, TokenizeBody
from app.server.transport.reading import read
from app.server.transport.sending import JsonReply
from engine.api import Tokenizer

Json = dict[str, Any]


def add_routes(router: APIRouter, service: Service) -> None:
    """Add the routes of this API."""

    @router.post("/tokenize")
    async def tokenize(http: HttpRequest) -> Response:
        body = await read(http, TokenizeBody, {})
        return JsonReply(await _tokenized(service, body))

    @router.post("/detokenize")
    async def detokenize(http: HttpRequest) -> Response:
        body = await read(http, DetokenizeBody, {})
        async with service.tokenizing(body.model) as (_, tokenizer):
            text = await to_thread.run_sync(tokenizer.decode, body.tokens)
        return JsonReply({"content": text, "prompt": text})  # llama.cpp's name, and vLLM's

    @router.post("/apply-template")
    async def apply_template(http: HttpRequest) -> Response:
        body = await read(http, TemplateBody, {})
        text = await service.of_prompt(body.chat, chat_requests, lambda t, r: t.render(r))
        return JsonReply({"prompt": text})

    infill.add_routes(router, service)


async def _tokenized(service: Service, body: TokenizeBody) -> Json:
    """Return the answer in the form of the program whose field the body has."""
    if body.content is None and body.prompt is None and not body.messages:
        raise missing("content")
    if body.messages:
        tokens = await service.of_prompt(body.chat, chat_requests, lambda t, r: t.prompt(r))
    text = body.content if body.prompt is None else body.prompt
    async with service.tokenizing(body.model) as (loaded, tokenizer):

        def work() -> Json:
            ids = tokens if text is None else _encoded(body, text, tokenizer)
            if body.content is not None:
                return {"tokens": _with_pieces(ids, tokenizer) if body.with_pieces else ids}
            return {
                "count": len(ids),
                "max_model_len": loaded.context,
                "tokens": ids,
                "token_strs": [*map(tokenizer.piece, ids)] if body.return_token_strs else None,
            }

        return await to_thread.run_sync(work)


def _encoded(body: TokenizeBody, text: str, tokenizer: Tokenizer) -> tuple[int, ...]:
    """Return the tokens of a text. vLLM adds the special ones around it by default, llama.cpp not."""
    around = body.add_special if body.prompt is None else body.add_special_tokens is not False
    return tokenizer.encode(text, special=bool(around), control=body.parse_special is not False)


def _with_pieces(ids: tuple[int, ...], tokenizer: Tokenizer) -> list[Json]:
    return [{"id": token, "piece": tokenizer.piece(token)} for token in ids]
