"""Send a request to a server and yield the engine's events: one class for each protocol."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, TypeVar

import openai

from engine import trace
from engine.errors import MALFORMED, InvalidRequest
from engine.events import Emitted, Event, Failed, Finished, FinishReason, Started
from engine.remote.body import body_of
from engine.remote.connection import Client
from engine.remote.errors import ended_early, protocol_error, retry_delay
from engine.remote.kinds import Kind
from engine.remote.reading import Reading
from engine.remote.statistics import counted, metrics_of
from engine.request import Request

log = logging.getLogger(__name__)

T = TypeVar("T")
Json = Mapping[str, Any]
Events = Callable[[Request], AsyncGenerator[Event, None]]
"""Yields events from Started to Finished. Raises as openai and httpx2 do, and ForetokenError."""


class Completions:
    """OpenAI's protocol, in the words of each kind."""

    def __init__(self, client: Client, kind: Kind, model: str) -> None:
        self._client, self._kind, self._model = client, kind, model
        self._openai = client.openai
        if kind is Kind.LM_STUDIO:  # the same protocol, with what it counted
            self._openai = client.speaking(f"{client.address.root}/api/v0")

    async def events(self, request: Request) -> AsyncGenerator[Event, None]:
        metrics = metrics_of(self._client, self._kind, self._model)
        await _or_none(metrics.before())
        began = time.perf_counter()
        stream = await open_stream(self._openai, self._model, body_of(request, self._kind))
        yield started(self._model, request)
        reading = Reading()
        async with aclosing(_objects(stream)) as chunks:
            async for chunk in chunks:
                text = reading.add(chunk)
                if text:
                    yield Emitted(text=text, at=time.perf_counter() - began)
        if reading.reason is None:
            _refuse_other_types(self._client, stream)
            raise ended_early(self._client.address)
        usage = counted(reading)
        more = await _or_none(metrics.after(usage))
        found = reading.stop_string
        yield Finished(reading.reason, "", reading.text, None, more or usage, found)


class ForetokenEvents:
    """Another Foretoken, which sends the engine's own events."""

    def __init__(self, client: Client, model: str) -> None:
        self._client, self._model = client, model

    async def events(self, request: Request) -> AsyncGenerator[Event, None]:
        stream = await open_stream(
            self._client.openai, self._model, body_of(request, Kind.FORETOKEN)
        )
        ended = False
        async with aclosing(_objects(stream)) as chunks:
            async for chunk in chunks:
                # The chunks after the end repeat it in OpenAI's protocol.
                if "event" in chunk and not ended:
                    event = self._read(chunk["event"])
                    ended = isinstance(event, Finished | Failed)
                    yield event
        if not ended:
            _refuse_other_types(self._client, stream)
            raise ended_early(self._client.address)

    def _read(self, value: Any) -> Event:
        try:
            event = trace.from_json(value, f"What {self._client.address.place} sent")
        except InvalidRequest as error:
            raise protocol_error(self._client.address, str(error), begun=True) from error
        if isinstance(event, Finished) and event.reason is FinishReason.CANCELLED:
            raise ended_early(self._client.address)  # not cancelled by us
        return event


def started(model: str, request: Request) -> Started:
    """Return the event that a server has accepted a request."""
    drafting = request.speculation
    return Started(model, drafting.proposer, str(drafting.acceptance), None, request.sampling.seed)


async def _or_none(reading: Awaitable[T]) -> T | None:
    """Await metrics; return None if they cannot be read, which spoils no reply."""
    try:
        return await reading
    except MALFORMED as error:
        log.warning("a server's counters cannot be read: %r", error)
        return None


async def open_stream(
    client: openai.AsyncOpenAI, model: str, body: Json
) -> openai.AsyncStream[Any]:
    """Open the stream of a reply, with retries."""
    rest = dict(body)
    if "messages" in rest:
        messages = rest.pop("messages")
        return await with_retries(
            lambda: client.chat.completions.create(
                model=model, messages=messages, stream=True, extra_body=rest
            )
        )
    prompt = rest.pop("prompt")
    return await with_retries(
        lambda: client.completions.create(model=model, prompt=prompt, stream=True, extra_body=rest)
    )


async def with_retries(ask: Callable[[], Awaitable[T]]) -> T:
    """The answer; raises what the last try raised, and at once what waiting cannot mend."""
    attempt = 0
    while True:
        try:
            return await ask()
        except openai.OpenAIError as error:
            seconds = retry_delay(error, attempt)
            if seconds is None:
                raise
        await asyncio.sleep(seconds)
        attempt += 1


async def _objects(stream: openai.AsyncStream[Any]) -> AsyncGenerator[Json, None]:
    """Yield the chunks as they came. Raise AttributeError for anything but an object."""
    async with stream:
        async for chunk in stream:
            yield chunk.to_dict(mode="python", warnings=False)


def _refuse_other_types(client: Client, stream: openai.AsyncStream[Any]) -> None:
    """Raise ServerError if the answer is no stream of events, for example a page."""
    kind = stream.response.headers.get("content-type", "")
    if "text/event-stream" not in kind:
        raise protocol_error(client.address, kind or "no content type")
