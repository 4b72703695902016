"""The routes of Ollama's protocol, and how replies are worded in it."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from time import perf_counter_ns
from typing import Any

from anyio import to_thread
from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from app.server.answer import Answer
from app.server.dialects import chat_logprobs
from app.server.errors import CLIENT_LEFT, READING, translate
from app.server.fields.schemas import ChatBody
from app.server.fields.unsupported import unsupported
from app.server.models import Described
from app.server.monitoring.counter import Ticket
from app.server.ollama.asking import chat_of, named_as_here, text_of, untagged
from app.server.ollama.schemas import (
    REFUSED_IN_CHAT,
    REFUSED_IN_TEXT,
    OllamaBody,
    OllamaChatBody,
    OllamaGenerateBody,
    OllamaShowBody,
)
from app.server.requests import chat_requests, completion_requests
from app.server.service import Service
from app.server.transport.disconnect import unless_disconnected
from app.server.transport.payload import JsonReply, encode
from app.server.transport.reading import read
from app.server.transport.streaming import EventStream
from engine.events import Emitted, Token
from engine.loading.inventory import template_of
from engine.tool_calls.reading import Said, Thought
from engine.values.sampling import Sampling

Json = dict[str, Any]

DEFAULT = Sampling().temperature


def add_routes(router: APIRouter, service: Service) -> None:
    """The routes of this dialect."""
    models = service.models

    @router.post("/api/chat")
    async def chat(http: HttpRequest) -> Response:
        job = _Job(_spoken)
        body = await read(http, OllamaChatBody, REFUSED_IN_CHAT)
        if not body.messages:
            return await _only_load(service, body, job)
        return await _answer(service, http, body, job)

    @router.post("/api/generate")
    async def generate(http: HttpRequest) -> Response:
        job = _Job(_written)
        body = await read(http, OllamaGenerateBody, REFUSED_IN_TEXT)
        if not body.prompt:
            return await _only_load(service, body, job)
        return await _answer(service, http, body, job)

    @router.api_route("/api/tags", methods=READING)
    async def tags() -> Response:
        found = await to_thread.run_sync(models.described)  # it looks at the disk
        return JsonReply({"models": [_entry(one) for one in found]})

    @router.api_route("/api/ps", methods=READING)
    async def running() -> Response:
        found = await to_thread.run_sync(models.described)
        return JsonReply({"models": [_entry(one) for one in found if one.loaded]})

    @router.post("/api/show")
    async def show(http: HttpRequest) -> Response:
        body = await read(http, OllamaShowBody, {})
        name = untagged(body.model or body.name)
        found = await to_thread.run_sync(models.describe, name)
        info = {
            "general.architecture": "foretoken",
            "general.parameter_count": found.parameters,
            "foretoken.context_length": found.context,
        }
        entry = _entry(found)
        return JsonReply(
            {
                "modelfile": "",
                "parameters": f"{'num_ctx':<30} {found.context}\n{'temperature':<30} {DEFAULT:g}",
                "template": await to_thread.run_sync(template_of, found.place)
                if found.place
                else "",
                "details": entry["details"],
                "model_info": info,
                "capabilities": ["completion", *(["tools"] if found.calls else [])],
                "modified_at": entry["modified_at"],
            }
        )

    @router.api_route("/api/version", methods=READING)
    async def program_version() -> Response:
        return JsonReply({"version": version("foretoken")})


@dataclass(frozen=True, slots=True)
class _Job:
    """How a reply is worded: ``says`` makes what a line says of text, calls and a thought."""

    says: Callable[..., Json]
    arrived: int = field(default_factory=perf_counter_ns)

    def line(
        self, model: str, text: str, calls: Sequence[Json] = (), thought: str = "", **more: Any
    ) -> Json:
        return {
            "model": model,
            "created_at": _now(),
            **self.says(text, calls, thought),
            "done": False,
            **more,
        }

    def end(self, model: str, answer: Answer, loaded_at: int, *, whole: bool, **more: Any) -> Json:
        """The last line, with what the reply took, in nanoseconds; ``whole``: it is the only one."""
        text, thought = (answer.said, answer.thought) if whole else ("", "")
        calls = _calls(answer, 0) if whole else ()
        told = answer.reply.statistics
        return self.line(
            model,
            text,
            calls,
            thought,
            done=True,
            done_reason=answer.reply.reason,
            total_duration=perf_counter_ns() - self.arrived,
            load_duration=loaded_at - self.arrived,
            prompt_eval_count=told.prompt_tokens,
            prompt_eval_duration=round(told.prefill_s * 1e9),
            eval_count=told.completion_tokens,
            eval_duration=round(told.decode_s * 1e9),
            **more,
        )


def _spoken(text: str, calls: Sequence[Json], thought: str) -> Json:
    said: Json = {"role": "assistant", "content": text}
    said |= {"thinking": thought} if thought else {}
    return {"message": said | {"tool_calls": list(calls)} if calls else said}


def _written(text: str, calls: Sequence[Json], thought: str) -> Json:
    return {"response": text} | ({"thinking": thought} if thought else {})


def _logprobs(wanted: bool | None, tokens: Sequence[Token] | None) -> Json:
    """The field with the tokens' log probabilities, as Ollama has it since 0.12.11; what is empty in it
    is left out there."""
    if not wanted or not tokens:
        return {}
    entries = ({k: v for k, v in each.items() if v != []} for each in chat_logprobs(tokens))
    return {"logprobs": list(entries)}


def _calls(answer: Answer, first: int, end: int | None = None) -> list[Json]:
    """A reply's calls from the ``first`` up to ``end``, as Ollama has them: their arguments are objects.

    One that was cut is left out, since it has none.
    """
    return [
        {"id": call.id, "function": {"index": at, "name": call.name, "arguments": arguments}}
        for at, call in enumerate(answer.called[first:end], first)
        if (arguments := call.object) is not None
    ]


async def _answer(
    service: Service, http: HttpRequest, body: OllamaChatBody | OllamaGenerateBody, job: _Job
) -> Response:
    _check_unloads(service, body)
    with named_as_here(body):
        asked = chat_of(body) if isinstance(body, OllamaChatBody) else text_of(body)
        if isinstance(asked, ChatBody):
            ask = partial(chat_requests, answers_name_calls=False)  # its clients send no ids
            loaded, ticket = await service.admit(asked, ask)
        else:
            loaded, ticket = await service.admit(asked, completion_requests)
    model, ready = body.model or loaded.id, perf_counter_ns()
    answer = Answer(ticket.generations[0].request, loaded.capabilities.calls)

    def close() -> None:
        ticket.close()
        if body.unloads:
            service.models.unload_soon(loaded)

    if body.stream is not False:
        lines = _lines(ticket, answer, job, model, ready, body.logprobs)
        return EventStream(lines, close, _framed, "application/x-ndjson")

    async def whole() -> Json:
        async for event in ticket.events_of(ticket.generations[0]):
            answer.add(event)
        told = _logprobs(body.logprobs, answer.reply.tokens)
        return job.end(model, answer, ready, whole=True, **told)

    try:
        told = await unless_disconnected(http.receive, whole())
    finally:
        close()
    return Response(status_code=CLIENT_LEFT) if told is None else JsonReply(told)


async def _lines(
    ticket: Ticket, answer: Answer, job: _Job, model: str, ready: int, logprobs: bool | None
) -> AsyncGenerator[bytes, None]:
    """Text as it comes, and each call once it is whole; ``logprobs``: with those of its tokens."""
    (generation,) = ticket.generations
    told = 0  # calls
    async with aclosing(ticket.events_of(generation)) as events:
        async for event in events:
            answer.add(event)
            more = _logprobs(logprobs, event.tokens if isinstance(event, Emitted) else None)
            text = "".join(part.text for part in answer.parts if isinstance(part, Said))
            thought = "".join(part.text for part in answer.parts if isinstance(part, Thought))
            if text or thought or more:
                yield _line(job.line(model, text, thought=thought, **more))
            if (whole := len(answer.called) - 1) > told:
                yield _line(job.line(model, "", _calls(answer, told, whole)))
                told = whole
    if calls := _calls(answer, told):
        yield _line(job.line(model, "", calls))
    yield _line(job.end(model, answer, ready, whole=False))


async def _framed(lines: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    try:
        async for line in lines:
            yield line
    except Exception as error:
        yield _line({"error": translate(error).message})


def _check_unloads(service: Service, body: OllamaBody) -> None:
    if body.unloads and not service.models.may_unload:
        raise unsupported(
            "keep_alive",
            "unloading the model that people chose here: start it with --load-on-demand",
        )


async def _only_load(service: Service, body: OllamaBody, job: _Job) -> Response:
    """What Ollama does where nothing is asked: the model is brought into memory, or out of it."""
    _check_unloads(service, body)
    if body.unloads:
        await service.models.unload(untagged(body.model))
        return JsonReply(job.line(body.model or "", "", done=True, done_reason="unload"))
    async with service.models.using(untagged(body.model)) as loaded:
        model = body.model or loaded.id
    return JsonReply(job.line(model, "", done=True, done_reason="load"))


def _entry(one: Described) -> Json:
    return {
        "name": one.id,
        "model": one.id,
        "modified_at": _time(one.modified),
        "size": one.bytes,
        # Of what it is called and how large it is; to read all of its weights would take minutes.
        "digest": hashlib.sha256(f"{one.id} {one.bytes}".encode()).hexdigest(),
        "details": {
            "parent_model": "",
            "format": "gguf" if one.is_gguf else "safetensors",
            "family": "",
            "families": [],
            "parameter_size": _size(one.parameters),
            "quantization_level": one.quantization,
        },
    }


def _size(parameters: int) -> str:
    """As Ollama writes it: 1.5B, 7.5M."""
    return f"{parameters / 1e9:.1f}B" if parameters >= 1e9 else f"{parameters / 1e6:.1f}M"


def _line(value: Json) -> bytes:
    return encode(value) + b"\n"


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
