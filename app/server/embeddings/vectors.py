"""Embeddings of texts, in turn with other requests of this kind."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from anyio import to_thread

from app.server.errors import queue_full
from app.server.monitoring.counter import MAX_WAITING
from app.server.requests import Service
from engine.api import Engine, Loaded, Tokenizer
from engine.errors import ContextExceeded, InvalidRequest
from engine.values import CHARACTERS_PER_TOKEN


class TextQueue:
    """Lets one request for vectors or ranks work at a time. Each of its texts waits for replies, so that
    many such requests would hold all threads."""

    def __init__(self) -> None:
        self._lock, self._waiting = asyncio.Lock(), 0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for the turn. Raises a 429 if too many wait."""
        if self._waiting >= MAX_WAITING:
            raise queue_full(self._waiting, "requests")
        self._waiting += 1
        try:
            async with self._lock:
                yield
        finally:
            self._waiting -= 1


class Vectors:
    """The embeddings of one server's model."""

    def __init__(self, service: Service, queue: TextQueue) -> None:
        self._service, self._queue = service, queue

    async def of(
        self,
        model: str | None,
        inputs: Sequence[str | list[int]],
        *,
        dimensions: int | None = None,
        truncate: bool = False,
    ) -> tuple[Loaded, list[list[float]], int]:
        """Return the model, a vector for each input, and how many tokens all of them have.

        ``truncate``: cut what the context does not hold. Raises ApiError and the engine's errors.
        """
        vectors, count = [], 0
        async with self._queue.turn(), self._service.tokenizing(model) as (loaded, tokenizer):
            engine, length = self._service.counter.engine.of(loaded), loaded.context
            for one in inputs:
                try:
                    tokens = await to_thread.run_sync(_tokens, one, tokenizer, length, truncate)
                    vectors.append(await to_thread.run_sync(_vector, engine, tokens, dimensions))
                except ContextExceeded as error:
                    error.field = "input"
                    raise
                count += len(tokens)
        return loaded, vectors, count


def _tokens(
    one: str | list[int], tokenizer: Tokenizer, context: int, truncate: bool
) -> Sequence[int]:
    if not isinstance(one, str):
        return one
    if truncate:
        tokens = tokenizer.encode(one[: CHARACTERS_PER_TOKEN * context], special=True)
        # The last one, which many of these models read, stays.
        return tokens if len(tokens) <= context else (*tokens[: context - 1], tokens[-1])
    return tokenizer.encode(one, special=True)


def _vector(engine: Engine, tokens: Sequence[int], dimensions: int | None) -> list[float]:
    vector = list(engine.embed(tokens))
    if dimensions is None:
        return vector
    if dimensions > len(vector):
        raise InvalidRequest(
            "dimensions", f"dimensions is {dimensions}; this model's vectors have {len(vector)}."
        )
    cut = vector[:dimensions]
    length = math.hypot(*cut) or 1.0
    return [value / length for value in cut]
