"""Ollama's own protocol: lines of JSON, with durations that its OpenAI-compatible one lacks.

As of its docs/api.md of 2025-10.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

import httpx2
import openai

from engine.events import Counted, Emitted, Event, Finished, FinishReason
from engine.files import parse_json
from engine.remote.body import encoded, message_of, sampling_of
from engine.remote.connection import Client
from engine.remote.dialects import started, with_retries
from engine.remote.errors import ended_early, stream_error
from engine.remote.kinds import TRAITS, Kind
from engine.remote.reading import Json, Reading
from engine.remote.statistics import seconds, whole
from engine.request import Request
from engine.values.grammar import GrammarKind
from engine.values.messages import Message

_NANOSECOND = 1e-9


class OllamaChat:
    """``/api/chat``, and ``/api/generate`` for text completion."""

    def __init__(self, client: Client, model: str) -> None:
        self._client, self._model = client, model

    async def events(self, request: Request) -> AsyncGenerator[Event, None]:
        began = time.perf_counter()
        answer = await with_retries(lambda: self._open(request))
        try:
            yield started(self._model, request)
            reading, last = Reading(), None
            async with aclosing(self._lines(answer)) as lines:
                async for line in lines:
                    text = "".join(_text_of(reading, line))
                    reading.text += text
                    if text:
                        yield Emitted(text=text, at=time.perf_counter() - began)
                    if line.get("done"):
                        last = line
                        break
            if last is None:
                raise ended_early(self._client.address)
            cut = last.get("done_reason") == "length"
            reason = FinishReason.LENGTH if cut else FinishReason.STOP
            yield Finished(reason, "", reading.text, None, _counted(last))
        finally:
            await answer.aclose()

    async def _open(self, request: Request) -> httpx2.Response:
        chat = bool(request.messages)
        http = self._client.http
        asked = http.build_request(
            "POST",
            f"{self._client.address.root}/api/{'chat' if chat else 'generate'}",
            json={"model": self._model, "stream": True, **_body(request)},
        )
        try:
            answer = await http.send(asked, stream=True)
        except httpx2.TimeoutException as error:
            raise openai.APITimeoutError(request=asked) from error
        except httpx2.TransportError as error:
            raise openai.APIConnectionError(request=asked) from error
        if answer.status_code != httpx2.codes.OK:
            await answer.aread()
            await answer.aclose()
            try:
                body: object = parse_json(answer.content)
            except ValueError:
                body = answer.text
            raise openai.APIStatusError("refused", response=answer, body=body)
        return answer

    async def _lines(self, answer: httpx2.Response) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the lines. Raise ServerError for an error among them, ValueError for invalid JSON."""
        async with aclosing(_split(answer.aiter_bytes())) as lines:
            async for line in lines:
                if not line.strip():
                    continue
                parsed = parse_json(line)
                if "error" in parsed:
                    raise stream_error(self._client.address, str(parsed["error"]))
                yield parsed


async def _split(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Yield the lines. httpx2's own end at U+0085 too, which may stand in a text."""
    begun = bytearray()
    async for chunk in chunks:
        begun += chunk
        if b"\n" in chunk:
            *lines, rest = begun.split(b"\n")
            for line in lines:
                yield bytes(line)
            begun = rest
    yield bytes(begun)


def _text_of(reading: Reading, line: Json) -> list[str]:
    """Return what a line adds to the text."""
    message = line.get("message")
    calls: Sequence[Json] = ()
    if not isinstance(message, dict):
        thought, content = line.get("thinking"), line.get("response")
    else:
        thought, content = message.get("thinking"), message.get("content")
        calls = message.get("tool_calls") or ()
    found = [*reading.thought(thought or ""), *reading.content(content or "")]
    for index, call in enumerate(calls):
        function = call["function"]
        arguments = json.dumps(function.get("arguments") or {}, ensure_ascii=False)
        named = {"name": function["name"], "arguments": arguments}
        found += reading.called({"index": index, "function": named})
    return [*found, *(reading.end() if line.get("done") else ())]


def _body(request: Request) -> dict[str, Any]:
    options = sampling_of(request, TRAITS[Kind.OLLAMA].sampling, says_all=True)
    options["num_predict"] = -1 if request.max_tokens is None else request.max_tokens
    if request.stop:
        options["stop"] = list(request.stop)
    body: dict[str, Any] = {"options": options}
    if request.grammar is not None:
        schema = request.grammar.kind is GrammarKind.JSON_SCHEMA
        body["format"] = json.loads(request.grammar.text) if schema else "json"
    if not request.messages:
        return body | {"prompt": request.prompt, "raw": True}
    if request.thinking:
        switch = {"off": False, "on": True}
        body["think"] = switch.get(request.thinking, request.thinking)
    if request.tools:
        body["tools"] = [tool.definition for tool in request.tools]
    return body | {"messages": [_message(each) for each in request.messages]}


def _message(message: Message) -> dict[str, Any]:
    body = message_of(message)
    body["content"] = message.content
    if message.images:
        body["images"] = [encoded(image) for image in message.images]
    for call, sent in zip(message.tool_calls, body.get("tool_calls", ()), strict=True):
        # Ollama takes only objects; truncated arguments are wrapped as text.
        parsed = call.object
        sent["function"]["arguments"] = {"arguments": call.arguments} if parsed is None else parsed
    if "reasoning_content" in body:
        body["thinking"] = body.pop("reasoning_content")
    if "name" in body:
        body["tool_name"] = body.pop("name")
    body.pop("tool_call_id", None)
    return body


def _counted(last: Json) -> Counted:
    return Counted(
        prompt_tokens=whole(last.get("prompt_eval_count")),
        completion_tokens=whole(last.get("eval_count")),
        prefill_s=seconds(last.get("prompt_eval_duration"), _NANOSECOND),
        decode_s=seconds(last.get("eval_duration"), _NANOSECOND),
    )
