"""Ollama's protocol, for the many programs that speak no other: chat, generate, tags, show, ps, version.

Replies are lines of JSON, and durations nanoseconds. Errors are ``{"error": "..."}``.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from time import perf_counter_ns
from typing import Annotated, Any, Literal

from anyio import to_thread
from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from app.server.answer import Answer
from app.server.counter import Ticket
from app.server.disconnect import unless_disconnected
from app.server.errors import CLIENT_LEFT, METHODS, READING, ApiError, translate
from app.server.models import Described
from app.server.payload import JsonReply, encode
from app.server.reading import read
from app.server.requests import chat_requests, completion_requests
from app.server.schemas import (
    MAX_MESSAGES,
    ChatBody,
    CompletionBody,
    GenerationBody,
    SpeculationBody,
    checked,
)
from app.server.service import Service
from app.server.streaming import EventStream
from app.server.unsupported import NO_TOOLS, is_nothing, refuse_fields
from engine.events import Emitted, Finished

Json = dict[str, Any]

TAG = ":latest"
"""What Ollama's clients put behind a name without one."""
_NO_LIMIT = (-1, -2)
"""``num_predict``: as long as it gets, and until the context is full."""


class _Body(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")


class OllamaOptions(_Body):
    """Those that act here; others are ignored, as unknown fields are everywhere."""

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    seed: int | None = None
    num_predict: int | None = None
    stop: str | list[str] | None = None
    repeat_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None


class OllamaMessage(_Body):
    role: str
    content: str = ""
    images: list[Any] | None = None
    tool_calls: list[Any] | None = None


class OllamaBody(_Body):
    """What both ways to ask have in common. Ollama streams unless told otherwise."""

    model: str | None = None
    stream: bool | None = None
    format: Literal["json", ""] | dict[str, Any] | None = None
    options: OllamaOptions | None = None
    speculation: SpeculationBody | None = None


class OllamaChatBody(OllamaBody):
    messages: Annotated[list[OllamaMessage], Field(max_length=MAX_MESSAGES)] = []


class OllamaGenerateBody(OllamaBody):
    prompt: str = ""
    system: str | None = None
    raw: bool | None = None


class OllamaShowBody(_Body):
    model: str | None = None
    name: str | None = None


_REFUSED = {
    **NO_TOOLS,
    "think": ("thinking as a text of its own", is_nothing),
    "images": ("images", is_nothing),
    "template": ("templates other than the model's own", is_nothing),
    "context": ("going on from tokens; send the conversation to /api/chat", is_nothing),
}


def add_routes(router: APIRouter, service: Service) -> None:
    """The routes of this dialect."""
    models = service.models

    @router.post("/api/chat")
    async def chat(http: HttpRequest) -> Response:
        job = _Job("message", lambda text: {"role": "assistant", "content": text})
        body, raw = await read(http, OllamaChatBody)
        refuse_fields(raw, _REFUSED)
        for message in body.messages:
            if message.images:
                raise ApiError(400, "images are not supported.", code="unsupported_value")
        if not body.messages:
            return await _only_load(service, body, job)
        messages = [
            {"role": one.role, "content": one.content, "tool_calls": one.tool_calls}
            for one in body.messages
        ]
        asked = checked(ChatBody, {**_fields(body), "messages": messages})
        return await _answer(service, http, body, job, asked)

    @router.post("/api/generate")
    async def generate(http: HttpRequest) -> Response:
        job = _Job("response", lambda text: text)
        body, raw = await read(http, OllamaGenerateBody)
        refuse_fields(raw, _REFUSED)
        if not body.prompt:
            return await _only_load(service, body, job)
        asked: GenerationBody
        if body.raw:
            asked = checked(
                CompletionBody, {"max_tokens": -1, **_fields(body), "prompt": body.prompt}
            )
        else:
            system = [{"role": "system", "content": body.system}] if body.system else []
            messages = [*system, {"role": "user", "content": body.prompt}]
            asked = checked(ChatBody, {**_fields(body), "messages": messages})
        return await _answer(service, http, body, job, asked)

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
        body, _ = await read(http, OllamaShowBody)
        name = _untagged(body.model or body.name)
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
                "parameters": "",
                "template": "",
                "details": entry["details"],
                "model_info": info,
                "capabilities": ["completion"],
                "modified_at": entry["modified_at"],
            }
        )

    @router.api_route("/api/version", methods=READING)
    async def program_version() -> Response:
        return JsonReply({"version": version("foretoken")})

    @router.api_route("/api/{path:path}", methods=METHODS)
    async def anything_else(http: HttpRequest) -> Response:
        raise ApiError(
            404,
            f"There is no {http.method} {http.url.path} here. Of Ollama's protocol there are chat, "
            "generate, tags, show, ps and version.",
            code="unknown_endpoint",
        )


@dataclass(frozen=True, slots=True)
class _Job:
    """How a reply is worded: its text stands under ``key``, as ``says`` makes it."""

    key: str
    says: Callable[[str], Any]
    arrived: int = field(default_factory=perf_counter_ns)

    def line(self, model: str, text: str, **more: Any) -> Json:
        return {
            "model": model,
            "created_at": _now(),
            self.key: self.says(text),
            "done": False,
            **more,
        }

    def end(self, model: str, text: str, answer: Answer, loaded_at: int) -> Json:
        """The last line, with what the reply took, in nanoseconds."""
        told = answer.reply.statistics
        return self.line(
            model,
            text,
            done=True,
            done_reason=answer.reply.reason,
            total_duration=perf_counter_ns() - self.arrived,
            load_duration=loaded_at - self.arrived,
            prompt_eval_count=told.prompt_tokens,
            prompt_eval_duration=round(told.prefill_s * 1e9),
            eval_count=told.completion_tokens,
            eval_duration=round(told.decode_s * 1e9),
        )


async def _answer(
    service: Service, http: HttpRequest, body: OllamaBody, job: _Job, asked: GenerationBody
) -> Response:
    if isinstance(asked, ChatBody):
        loaded, ticket = await service.admit(asked, chat_requests)
    else:
        assert isinstance(asked, CompletionBody)
        loaded, ticket = await service.admit(asked, completion_requests)
    model, ready = body.model or loaded.id, perf_counter_ns()
    if body.stream is not False:
        lines = _lines(ticket, job, model, ready)
        return EventStream(lines, ticket.close, _framed, "application/x-ndjson")

    async def whole() -> Json:
        answer = Answer(ticket.generations[0].request)
        async for event in ticket.events_of(ticket.generations[0]):
            answer.add(event)
        return job.end(model, answer.reply.text, answer, ready)

    try:
        told = await unless_disconnected(http.receive, whole())
    finally:
        ticket.close()
    return Response(status_code=CLIENT_LEFT) if told is None else JsonReply(told)


async def _lines(ticket: Ticket, job: _Job, model: str, ready: int) -> AsyncGenerator[bytes, None]:
    (generation,) = ticket.generations
    answer = Answer(generation.request)
    async with aclosing(ticket.events_of(generation)) as events:
        async for event in events:
            answer.add(event)
            text = event.text if isinstance(event, Emitted) else ""
            text = event.tail if isinstance(event, Finished) else text
            if text:
                yield _line(job.line(model, text))
    yield _line(job.end(model, "", answer, ready))


async def _framed(lines: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    try:
        async for line in lines:
            yield line
    except Exception as error:
        yield _line({"error": translate(error).message})


async def _only_load(service: Service, body: OllamaBody, job: _Job) -> Response:
    """What Ollama does where nothing is asked: the model is brought into memory."""
    async with service.models.using(_untagged(body.model)) as loaded:
        model = body.model or loaded.id
    return JsonReply(job.line(model, "", done=True, done_reason="load"))


def _fields(body: OllamaBody) -> Json:
    """The fields of the other dialects that these options mean."""
    options = body.options or OllamaOptions()
    given = options.model_dump(exclude_none=True)
    if "repeat_penalty" in given:
        given["repetition_penalty"] = given.pop("repeat_penalty")
    limit = given.pop("num_predict", -1)
    given["max_tokens"] = -1 if limit in _NO_LIMIT else limit
    given["model"] = _untagged(body.model)
    if body.format:
        schema = body.format
        outputs = {"json_object": True} if schema == "json" else {"json": schema}
        given["structured_outputs"] = outputs
    if body.speculation is not None:
        given["speculation"] = body.speculation.model_dump(exclude_none=True)
    return given


def _untagged(model: str | None) -> str | None:
    return None if model is None else model.removesuffix(TAG)


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
            "parameter_size": f"{one.parameters / 1e9:.1f}B",
            "quantization_level": one.quantization,
        },
    }


def _line(value: Json) -> bytes:
    return encode(value) + b"\n"


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
