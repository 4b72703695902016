"""How a reply is asked of a server and read: a generator of the engine's events for each way of
speaking."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, Protocol, TypeVar

import openai

from engine import trace
from engine.errors import InvalidRequest
from engine.events import Emitted, Event, Failed, Finished, FinishReason, Started
from engine.remote.body import body_of
from engine.remote.connection import Client
from engine.remote.errors import ended_early, protocol_error, retry_delay
from engine.remote.kinds import Kind
from engine.remote.reading import Reading
from engine.remote.reply_usage import counted
from engine.remote.server_metrics import metrics_of
from engine.request import Request

log = logging.getLogger(__name__)

T = TypeVar("T")
Json = Mapping[str, Any]


class Dialect(Protocol):
    """Asks one model of one server."""

    def events(self, request: Request) -> AsyncGenerator[Event, None]:
        """From Started to Finished. Raises what openai and httpx2 raise, and ForetokenError."""


class Completions:
    """OpenAI's protocol, in the words of each kind."""

    def __init__(self, client: Client, kind: Kind, model: str) -> None:
        self._client, self._kind, self._model = client, kind, model
        self._openai = client.openai
        if kind is Kind.LM_STUDIO:  # the same protocol, with what it counted
            self._openai = client.speaking(f"{client.address.root}/api/v0")

    async def events(self, request: Request) -> AsyncGenerator[Event, None]:
        counters = metrics_of(self._client, self._kind, self._model)
        await _read(counters.before())
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
        found = counted(reading)
        more = await _read(counters.behind(found))
        yield Finished(reading.reason, "", reading.text, None, more or found)


class ForetokenEvents:
    """Another Foretoken, whose own events come over the wire as they are."""

    def __init__(self, client: Client, model: str) -> None:
        self._client, self._model = client, model

    async def events(self, request: Request) -> AsyncGenerator[Event, None]:
        stream = await open_stream(
            self._client.openai, self._model, body_of(request, Kind.FORETOKEN)
        )
        ended = False
        async with aclosing(_objects(stream)) as chunks:
            async for chunk in chunks:
                # What follows the end says the same in other words.
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
            raise ended_early(self._client.address)  # nobody here did that
        return event


def started(model: str, request: Request) -> Started:
    """That a server has taken a request, of which it tells nothing itself."""
    drafting = request.speculation
    return Started(model, drafting.proposer, str(drafting.acceptance), None, request.sampling.seed)


async def _read(reading: Awaitable[T]) -> T | None:
    """What counters say; None where they cannot be read: the reply is there all the same."""
    try:
        return await reading
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        log.warning("a server's counters cannot be read: %r", error)
        return None


async def open_stream(
    client: openai.AsyncOpenAI, model: str, body: Json
) -> openai.AsyncStream[Any]:
    """The stream of a reply, asked for again where that may help."""
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
    """The chunks as they came. Raises AttributeError for what is no object."""
    async with stream:
        async for chunk in stream:
            yield chunk.to_dict(mode="python", warnings=False)


def _refuse_other_types(client: Client, stream: openai.AsyncStream[Any]) -> None:
    """Raises ServerError for what was no stream of events at all, as a page is none."""
    kind = stream.response.headers.get("content-type", "")
    if "text/event-stream" not in kind:
        raise protocol_error(client.address, kind or "no content type")
