"""Tokens and templates without a reply, and code between two parts of a file, by a model with tokens for
that: llama.cpp's and vLLM's ``/tokenize``, ``/detokenize``, ``/apply-template`` and ``/infill``."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter
from pydantic import Field
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from app.server.answer import Answer
from app.server.errors import REFUSED, ApiError, Refused, error_event, missing
from app.server.fields.schemas import (
    MAX_IDS,
    MAX_MESSAGES,
    ChatBody,
    GenerationBody,
    MessageBody,
    checked,
    read,
)
from app.server.fields.structured import Body
from app.server.fields.tools import ThinkingBody, ToolsBody
from app.server.monitoring import metrics
from app.server.request_queue import Ticket
from app.server.requests import Drafting, Service, chat_requests, common_fields, tokenizer_of
from app.server.sending import Json, JsonReply, Stream, data, send_whole
from engine.api import Loaded, Tokenizer
from engine.events import Emitted, Finished, FinishReason
from engine.request import Request
from engine.tool_calls.reading import Content
from engine.values import CHARACTERS_PER_TOKEN

MOST_EXTRA = 1024
"""Other files of an infill, at most."""


class TemplateBody(ToolsBody, ThinkingBody):
    """The fields of a chat that make its prompt."""

    model: str | None = None
    messages: Annotated[list[MessageBody], Field(max_length=MAX_MESSAGES)] | None = None
    continue_final_message: bool | None = None

    @property
    def chat(self) -> ChatBody:
        """The chat. Raises ApiError without messages."""
        if not self.messages:
            raise missing("messages")
        names = ChatBody.model_fields.keys() & type(self).model_fields.keys()
        return checked(ChatBody, self.model_dump(include=set(names), exclude_none=True))


class TokenizeBody(TemplateBody):
    """llama.cpp's ``content``, or vLLM's ``prompt`` or ``messages``."""

    content: str | None = None
    prompt: str | None = None
    add_special: bool | None = None
    add_special_tokens: bool | None = None
    parse_special: bool | None = None
    with_pieces: bool | None = None
    return_token_strs: bool | None = None


class DetokenizeBody(Body):
    model: str | None = None
    tokens: Annotated[list[int], Field(max_length=MAX_IDS)]


class ExtraBody(Body):
    """Another file, as context."""

    filename: str | None = None
    text: str


class InfillBody(GenerationBody):
    """llama.cpp's fields. ``prompt`` is more of the text before the cursor."""

    input_prefix: str = ""
    input_suffix: str = ""
    input_extra: Annotated[list[ExtraBody], Field(max_length=MOST_EXTRA)] | None = None
    prompt: str = ""
    n_predict: int | None = None

    @property
    def limit(self) -> int | None:
        return self.max_tokens if self.n_predict is None else self.n_predict

    def engine_names(self) -> dict[str, str]:
        limit = {} if self.n_predict is None else {"max_tokens": "n_predict"}
        return {**super().engine_names(), "messages": "input_prefix", **limit}


_SAMPLERS = ("top_k", "top_p", "min_p", "temperature", "penalties", "infill", "dry", "xtc", "typ_p")
"""Those that llama.cpp has by default, and the one that plugins of editors send."""


def _are_known(samplers: Any) -> bool:
    return not samplers or (
        isinstance(samplers, list) and all(one in _SAMPLERS for one in samplers)
    )


REFUSED_IN_INFILL: Refused = {
    **REFUSED,
    "n": ("several choices", lambda value: value in (None, 1)),
    "samplers": ("other samplers", _are_known),
}


def add_routes(router: APIRouter, service: Service) -> None:
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

    @router.post("/infill")
    async def infill(http: HttpRequest) -> Response:
        body = await read(http, InfillBody, REFUSED_IN_INFILL)
        loaded, ticket = await service.admit(body, infill_requests)
        if body.stream:
            return Stream(_chunks(ticket, loaded), ticket.close, error_event)
        return await send_whole(http, _whole(ticket, loaded), ticket.close)


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
                pieces = [{"id": token, "piece": tokenizer.piece(token)} for token in ids]
                return {"tokens": pieces if body.with_pieces else ids}
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


_FAMILIES = (
    # Qwen2.5-Coder's; CodeGemma's separate files by another name.
    ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|file_sep|>", "<|repo_name|>"),
    ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|file_separator|>", ""),
    # StarCoder's and Granite's.
    ("<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<file_sep>", "<repo_name>"),
    ("<fim_prefix>", "<fim_suffix>", "<fim_middle>", "", ""),
    # DeepSeek-Coder's.
    ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>", "", ""),
)
_ENDS = ("<|fim_pad|>", "<|endoftext|>", "<fim_pad>")
"""Further tokens with which models end what they fill in."""
_PREFIX_SHARE = 0.75
"""How much of the room the text before the cursor may take, if that after it needs the rest."""
_LEAST_REPLY = 256
"""Tokens that are left free for a reply without a limit, if the context has so many."""


@dataclass(frozen=True, slots=True)
class Fim:
    """A model's tokens for filling in the middle. ``file`` and ``repository`` are None if it has none."""

    prefix: int
    suffix: int
    middle: int
    file: int | None
    repository: int | None
    ends: tuple[int, ...]

    @classmethod
    def of(cls, named: Callable[[str], int | None]) -> Fim | None:
        """Return those of a vocabulary, if it has them. ``named``: its token of a name."""
        for family in _FAMILIES:
            ids = [named(name) if name else None for name in family]
            prefix, suffix, middle, file, repository = ids
            missing = [name for name, id in zip(family, ids, strict=True) if name and id is None]
            if prefix is not None and suffix is not None and middle is not None and not missing:
                ends = (id for name in _ENDS if (id := named(name)) is not None)
                others = (id for id in (file, repository) if id is not None)
                return cls(prefix, suffix, middle, file, repository, (*ends, *others))
        return None


def infill_requests(body: InfillBody, pair: Drafting) -> tuple[Request, ...]:
    """Return the one request. Raises ApiError for a model without the tokens, and as ``tokenizer_of``."""
    tokenizer = tokenizer_of(pair.engine)
    fim = Fim.of(tokenizer.named)
    if fim is None:
        raise ApiError(
            400,
            f"The model {pair.loaded.id!r} has no tokens for filling in the middle. Load "
            "one for code, such as Qwen2.5-Coder.",
            code="unsupported_value",
            param="model",
        )
    ids = _prompt(body, pair.loaded.context, tokenizer, fim)
    return (Request(token_ids=ids, end_tokens=fim.ends, **common_fields(body, pair, None)),)


def _prompt(body: InfillBody, context: int, tokenizer: Tokenizer, fim: Fim) -> tuple[int, ...]:
    """Return the prompt. What does not fit the context is left out: of the text before the cursor its
    beginning, of that after it its end, and of other files the first."""
    limit = body.limit if body.limit is not None and body.limit > 0 else _LEAST_REPLY
    room = max(0, context - min(limit, context // 2) - 8)
    near = CHARACTERS_PER_TOKEN * context  # of a long file only this much is encoded
    before = [*tokenizer.encode(body.input_prefix[-near:]), *tokenizer.encode(body.prompt[-near:])]
    after = tokenizer.encode(body.input_suffix[:near])
    most = max(int(room * _PREFIX_SHARE), room - len(after))
    before = before[max(0, len(before) - most) :]
    after = after[: room - len(before)]
    core = (fim.prefix, *before, fim.suffix, *after, fim.middle)
    return (*_others(body.input_extra or (), room - len(core), tokenizer, fim), *core)


def _others(
    extra: Sequence[ExtraBody], room: int, tokenizer: Tokenizer, fim: Fim
) -> tuple[int, ...]:
    """Return other files, the last ones first in importance, in ``room`` tokens."""
    if not extra or fim.file is None:
        return ()
    name = tokenizer.encode("project\n") if fim.repository is not None else ()
    head = () if fim.repository is None else (fim.repository, *name)
    here = (fim.file, *tokenizer.encode("filename\n"))
    room -= len(head) + len(here)
    files: tuple[int, ...] = ()
    for each in reversed(extra):
        if len(each.text) > CHARACTERS_PER_TOKEN * room:
            break
        ids = tokenizer.encode(f"{each.filename or 'tmp'}\n{each.text}")
        if len(files) + len(ids) + 1 > room:
            break
        files = (fim.file, *ids, *files)
    return (*head, *files, *here) if files else ()


async def _whole(ticket: Ticket, loaded: Loaded) -> Json:
    answer = Answer(ticket.only.request)
    await answer.follow(ticket.events_of(ticket.only))
    return _end(answer, loaded, answer.content)


async def _chunks(ticket: Ticket, loaded: Loaded) -> AsyncGenerator[bytes, None]:
    answer = Answer(ticket.only.request)
    async for event in answer.each(ticket.events_of(ticket.only)):
        text = "".join(part.text for part in answer.parts if isinstance(part, Content))
        if text and isinstance(event, Emitted):
            yield data({"index": 0, "content": text, "stop": False})
        elif isinstance(event, Finished):
            yield data(_end(answer, loaded, text))


def _end(answer: Answer, loaded: Loaded, content: str) -> Json:
    """Return the last object, with llama.cpp's names."""
    reply, statistics = answer.reply, answer.reply.statistics
    found = reply.stop_string
    kind = "limit" if reply.reason is FinishReason.LENGTH else "eos" if found is None else "word"
    return {
        "index": 0,
        "content": content,
        "stop": True,
        "model": loaded.id,
        "stop_type": kind,
        "stopping_word": found or "",
        "tokens_predicted": statistics.completion_tokens,
        "tokens_evaluated": statistics.prompt_tokens,
        "tokens_cached": statistics.reused_tokens,
        "truncated": False,
        **metrics.measured([answer]),
    }
