"""The routes of Ollama's protocol, and the form of its replies."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from time import perf_counter_ns, time
from typing import Any

from anyio import to_thread
from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from app.server.answer import Answer, chat_logprobs
from app.server.errors import READING, missing, renamed, translate, unsupported
from app.server.fields.schemas import ChatBody, read
from app.server.models import ModelDescription
from app.server.ollama.pull import Pull, wanted
from app.server.ollama.schemas import (
    REFUSED_IN_CHAT,
    REFUSED_IN_TEXT,
    OllamaBody,
    OllamaChatBody,
    OllamaGenerateBody,
    OllamaPullBody,
    OllamaShowBody,
    chat_of,
    names_in,
    text_of,
    untagged,
)
from app.server.request_queue import Ticket
from app.server.requests import Service, chat_requests, completion_requests
from app.server.sending import Json, JsonReply, Stream, encode, send_whole
from app.server.text import Fim, InfillBody, infill_requests
from engine.events import Emitted, Token
from engine.loading.inventory import pooling_of, template_and_tokens
from engine.thoughts import choices_of
from engine.tool_calls.reading import Content, Thought
from engine.values.sampling import Sampling

DEFAULT = Sampling().temperature
_OLLAMA = "0.12.11"
"""The version of Ollama whose protocol this is. Programs refuse old ones."""
_NEVER_S = 2**63 / 1e9
"""Until what never ends, in seconds, as in Go: Ollama's clients read a time, and without one show
"Stopping"."""
_START = "Start it with --load-on-demand."


def add_routes(router: APIRouter, service: Service) -> None:
    models, held = service.models, Counter[str]()

    @router.post("/api/chat")
    async def chat(http: HttpRequest) -> Response:
        job = _Job(_chat_fields)
        body = await read(http, OllamaChatBody, REFUSED_IN_CHAT)
        if not body.messages:
            return await _only_load(service, body, job)
        return await _answer(service, http, body, job)

    @router.post("/api/generate")
    async def generate(http: HttpRequest) -> Response:
        job = _Job(_text_fields)
        body = await read(http, OllamaGenerateBody, REFUSED_IN_TEXT)
        if not body.prompt:
            return await _only_load(service, body, job)
        return await _answer(service, http, body, job)

    @router.api_route("/api/tags", methods=READING)
    async def tags() -> Response:
        every_model = await to_thread.run_sync(models.described)  # it looks at the disk
        return JsonReply({"models": [_entry(one) for one in every_model]})

    @router.api_route("/api/ps", methods=READING)
    async def running() -> Response:
        every_model = await to_thread.run_sync(models.described)
        never = time() + _NEVER_S
        entries = [
            {
                **_entry(one),
                "expires_at": _time(never if one.expires is None else min(one.expires, never)),
                "context_length": one.context,
                "size_vram": one.bytes * (one.device != "cpu"),
            }
            for one in every_model
            if one.device is not None
        ]
        return JsonReply({"models": entries})

    @router.post("/api/show")
    async def show(http: HttpRequest) -> Response:
        body = await read(http, OllamaShowBody, {})
        name = untagged(body.model or body.name)
        model = await to_thread.run_sync(models.describe, name)
        info = {
            "general.architecture": "foretoken",
            "general.parameter_count": model.parameters,
            "foretoken.context_length": model.context,
        }
        entry = _entry(model)
        template, abilities = await to_thread.run_sync(_template_and_abilities, model)
        return JsonReply(
            {
                "modelfile": "",
                "parameters": f"{'num_ctx':<30} {model.context}\n{'temperature':<30} {DEFAULT:g}",
                "template": template,
                "details": entry["details"],
                "model_info": info,
                "capabilities": abilities,
                "modified_at": entry["modified_at"],
            }
        )

    @router.post("/api/pull")
    async def pull(http: HttpRequest) -> Response:
        body = await read(http, OllamaPullBody, {})
        name = untagged(body.model or body.name)
        if not name:
            raise missing("model")
        if not models.may_unload:
            raise unsupported("model", "downloads by requests here", _START)
        runtime = models.runtime
        work = Pull(runtime, await to_thread.run_sync(wanted, runtime, name), held)
        if body.stream is not False:
            return _streamed(work.lines(), work.close)

        async def last() -> Json:
            async for line in work.lines():
                done = line
            return done

        return await send_whole(http, last(), work.close)

    @router.api_route("/api/version", methods=READING)
    async def program_version() -> Response:
        return JsonReply({"version": _OLLAMA, "foretoken": version("foretoken")})


@dataclass(frozen=True, slots=True)
class _Job:
    """The form of a reply. ``fields`` makes a line's fields of text, calls and a thought."""

    fields: Callable[..., Json]
    arrived: int = field(default_factory=perf_counter_ns)

    def line(
        self, model: str, text: str, calls: Sequence[Json] = (), thought: str = "", **more: Any
    ) -> Json:
        return {
            "model": model,
            "created_at": _time(time()),
            **self.fields(text, calls, thought),
            "done": False,
            **more,
        }

    def end(self, model: str, answer: Answer, loaded_at: int, *, whole: bool, **more: Any) -> Json:
        """Return the last line, with durations in nanoseconds; ``whole``: it is the only one."""
        text, thought = (answer.content, answer.thought) if whole else ("", "")
        calls = _calls(answer, 0) if whole else ()
        statistics = answer.reply.statistics
        return self.line(
            model,
            text,
            calls,
            thought,
            done=True,
            done_reason=answer.reply.reason,
            total_duration=perf_counter_ns() - self.arrived,
            load_duration=loaded_at - self.arrived,
            prompt_eval_count=statistics.prompt_tokens,
            prompt_eval_duration=round(statistics.prefill_s * 1e9),
            eval_count=statistics.completion_tokens,
            eval_duration=round(statistics.decode_s * 1e9),
            **more,
        )


def _chat_fields(text: str, calls: Sequence[Json], thought: str) -> Json:
    message: Json = {"role": "assistant", "content": text}
    message |= {"thinking": thought} if thought else {}
    return {"message": message | {"tool_calls": list(calls)} if calls else message}


def _text_fields(text: str, calls: Sequence[Json], thought: str) -> Json:
    return {"response": text} | ({"thinking": thought} if thought else {})


def _logprobs(wanted: bool | None, tokens: Sequence[Token] | None) -> Json:
    """Return the field with the tokens' log probabilities, as in Ollama since 0.12.11: without empty
    lists."""
    if not wanted or not tokens:
        return {}
    entries = ({k: v for k, v in each.items() if v != []} for each in chat_logprobs(tokens))
    return {"logprobs": list(entries)}


def _calls(answer: Answer, first: int, end: int | None = None) -> list[Json]:
    """Return a reply's calls from ``first`` to ``end``. In Ollama's form arguments are objects, so an
    incomplete call is left out."""
    return [
        {"id": call.id, "function": {"index": at, "name": call.name, "arguments": arguments}}
        for at, call in enumerate(answer.called[first:end], first)
        if (arguments := call.object) is not None
    ]


async def _answer(
    service: Service, http: HttpRequest, body: OllamaChatBody | OllamaGenerateBody, job: _Job
) -> Response:
    _check_unloads(service, body)
    with renamed(names_in(body)):
        converted = chat_of(body) if isinstance(body, OllamaChatBody) else text_of(body)
        if isinstance(converted, ChatBody):
            convert = partial(chat_requests, answers_name_calls=False)  # its clients send no ids
            loaded, ticket = await service.admit(converted, convert)
        elif isinstance(converted, InfillBody):
            loaded, ticket = await service.admit(converted, infill_requests)
        else:
            loaded, ticket = await service.admit(converted, completion_requests)
    model, ready = body.model or loaded.id, perf_counter_ns()
    answer = Answer(ticket.only.request, loaded.capabilities.calls)

    def close() -> None:
        ticket.close()
        if body.unloads:
            service.models.unload_soon(loaded)
        elif body.kept_s is not None and service.models.may_unload:
            service.models.keep(loaded, body.kept_s)

    if body.stream is not False:
        return _streamed(_lines(ticket, answer, job, model, ready, body.logprobs), close)

    async def whole() -> Json:
        await answer.follow(ticket.events_of(ticket.only))
        logprobs = _logprobs(body.logprobs, answer.reply.tokens)
        return job.end(model, answer, ready, whole=True, **logprobs)

    return await send_whole(http, whole(), close)


async def _lines(
    ticket: Ticket, answer: Answer, job: _Job, model: str, ready: int, logprobs: bool | None
) -> AsyncGenerator[Json, None]:
    """Yield text as it comes, and each call when it is complete; ``logprobs``: with those of tokens."""
    sent = 0  # calls
    async for event in answer.each(ticket.events_of(ticket.only)):
        more = _logprobs(logprobs, event.tokens if isinstance(event, Emitted) else None)
        text = "".join(part.text for part in answer.parts if isinstance(part, Content))
        thought = "".join(part.text for part in answer.parts if isinstance(part, Thought))
        if text or thought or more:
            yield job.line(model, text, thought=thought, **more)
        if (complete := len(answer.called) - 1) > sent:
            yield job.line(model, "", _calls(answer, sent, complete))
            sent = complete
    if calls := _calls(answer, sent):
        yield job.line(model, "", calls)
    yield job.end(model, answer, ready, whole=False)


def _check_unloads(service: Service, body: OllamaBody) -> None:
    if body.unloads and not service.models.may_unload:
        raise unsupported("keep_alive", "unloading a model that was loaded here by hand", _START)


async def _only_load(service: Service, body: OllamaBody, job: _Job) -> Response:
    """Load or unload the model, as Ollama does for a request without a prompt."""
    _check_unloads(service, body)
    if body.unloads:
        await service.models.unload(untagged(body.model))
        return JsonReply(job.line(body.model or "", "", done=True, done_reason="unload"))
    async with service.models.using(untagged(body.model)) as loaded:
        model = body.model or loaded.id
    if body.kept_s is not None and service.models.may_unload:
        service.models.keep(loaded, body.kept_s)
    return JsonReply(job.line(model, "", done=True, done_reason="load"))


def _entry(one: ModelDescription) -> Json:
    count = one.parameters
    return {
        "name": one.id,
        "model": one.id,
        "modified_at": _time(one.modified),
        "size": one.bytes,
        # Of name and size: reading all weights would take minutes.
        "digest": hashlib.sha256(f"{one.id} {one.bytes}".encode()).hexdigest(),
        "details": {
            "parent_model": "",
            "format": "gguf" if one.is_gguf else "safetensors",
            "family": "",
            "families": [],
            "parameter_size": f"{count / 1e9:.1f}B" if count >= 1e9 else f"{count / 1e6:.1f}M",
            "quantization_level": one.quantization,
        },
    }


def _template_and_abilities(model: ModelDescription) -> tuple[str, list[str]]:
    """Return a model's template, and what clients may ask of it. Reads its files."""
    template, tokens = template_and_tokens(model.place) if model.place else ("", {})
    if model.place and pooling_of(model.place):
        return template, ["embedding"]
    abilities = {
        "completion": True,
        "tools": model.calls,
        "vision": model.sees,
        "insert": Fim.of(tokens.get),
        "thinking": choices_of(template) or "<think>" in template,
    }
    return template, [name for name, has in abilities.items() if has]


def _streamed(lines: AsyncGenerator[Json, None], close: Callable[[], None]) -> Response:
    encoded = (_line(line) async for line in lines)
    return Stream(encoded, close, _error_line, media_type="application/x-ndjson")


def _error_line(failure: Exception) -> bytes:
    return _line({"error": translate(failure).message})


def _line(value: Json) -> bytes:
    return encode(value) + b"\n"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
