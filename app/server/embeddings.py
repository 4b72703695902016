"""The routes of embeddings and ranks, OpenAI's and Ollama's, their bodies and their computation.

Relevance is that of Qwen3-Reranker, the probability of "yes" as the next word of its prompt (source: the
model's card). Other rerankers are encoders, which this engine does not run.
"""

from __future__ import annotations

import array
import asyncio
import base64
import math
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Annotated, Any, Literal, TypeVar, TypeVarTuple

from anyio import to_thread
from fastapi import APIRouter
from pydantic import Field
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from app.server.errors import ApiError, queue_full
from app.server.fields.schemas import Prompts, checked, read
from app.server.fields.structured import Body
from app.server.ollama.schemas import untagged
from app.server.request_queue import MAX_WAITING
from app.server.requests import Service
from app.server.sending import Json, send_whole
from engine.api import Engine, Loaded, Tokenizer
from engine.errors import ContextExceeded, InvalidRequest
from engine.values import CHARACTERS_PER_TOKEN

MOST_TEXTS = 2048
"""Texts of a request, at most, as in OpenAI's API."""

Dimensions = Annotated[int, Field(ge=1)]


class EmbeddingsBody(Body):
    """OpenAI's fields. ``dimensions``: so many of the first, for models that were trained for that."""

    model: str | None = None
    input: Annotated[Prompts, Field(min_length=1, max_length=MOST_TEXTS)]
    dimensions: Dimensions | None = None
    encoding_format: Literal["float", "base64"] | None = None


class DocumentBody(Body):
    text: str


class RerankBody(Body):
    """Cohere's and Jina's fields, which vLLM and llama.cpp have too. ``instruction`` is the model's."""

    model: str | None = None
    query: str
    documents: Annotated[list[str | DocumentBody], Field(min_length=1, max_length=MOST_TEXTS)]
    top_n: Annotated[int, Field(ge=1)] | None = None
    return_documents: bool | None = None
    instruction: str | None = None

    @property
    def texts(self) -> list[str]:
        return [one if isinstance(one, str) else one.text for one in self.documents]


class OllamaEmbedBody(Body):
    """Ollama cuts texts that are too long unless ``truncate`` is false."""

    model: str | None = None
    input: Any = None
    truncate: bool | None = None
    dimensions: Dimensions | None = None


class OllamaEmbeddingsBody(Body):
    """The older form, with one text."""

    model: str | None = None
    prompt: str


Given = TypeVarTuple("Given")
Result = TypeVar("Result")


def add_routes(router: APIRouter, service: Service) -> None:
    queue = TextQueue(service)

    @router.post("/v1/embeddings")
    async def embeddings(http: HttpRequest) -> Response:
        body = await read(http, EmbeddingsBody, {})
        return await send_whole(http, _embedded(queue, body))

    @router.post("/v1/rerank")
    @router.post("/v1/reranking")
    @router.post("/rerank")
    @router.post("/reranking")
    async def rerank(http: HttpRequest) -> Response:
        body = await read(http, RerankBody, {})
        return await send_whole(http, _ranked(queue, body))

    @router.post("/api/embed")
    async def ollama_embed(http: HttpRequest) -> Response:
        body = await read(http, OllamaEmbedBody, {})
        return await send_whole(http, _embedded_for_ollama(queue, body))

    @router.post("/api/embeddings")
    async def ollama_embeddings(http: HttpRequest) -> Response:
        body = await read(http, OllamaEmbeddingsBody, {})

        async def work() -> Json:
            name = untagged(body.model)
            _, (vector,), _ = await queue.vectors(name, [body.prompt], truncate=True)
            return {"embedding": vector}

        return await send_whole(http, work())


async def _embedded(queue: TextQueue, body: EmbeddingsBody) -> Json:
    loaded, found, tokens = await queue.vectors(body.model, body.input, dimensions=body.dimensions)
    packed = body.encoding_format == "base64"
    data = [
        {"object": "embedding", "index": at, "embedding": _packed(one) if packed else one}
        for at, one in enumerate(found)
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": loaded.id, "usage": usage}


def _packed(vector: list[float]) -> str:
    """Return a vector as 32-bit floats in base64, the form that OpenAI's client asks for."""
    return base64.b64encode(array.array("f", vector).tobytes()).decode("ascii")


async def _embedded_for_ollama(queue: TextQueue, body: OllamaEmbedBody) -> Json:
    began, inputs = perf_counter_ns(), list[str | list[int]]()
    if body.input not in (None, "", []):  # else Ollama only loads the model
        inputs = checked(EmbeddingsBody, {"input": body.input}).input
    loaded, found, tokens = await queue.vectors(
        untagged(body.model),
        inputs,
        dimensions=body.dimensions,
        truncate=body.truncate is not False,
    )
    return {
        "model": body.model or loaded.id,
        "embeddings": found,
        "total_duration": perf_counter_ns() - began,
        "load_duration": 0,
        "prompt_eval_count": tokens,
    }


async def _ranked(queue: TextQueue, body: RerankBody) -> Json:
    tokens = 0
    results: list[Json] = []
    async with queue.turn(body.model) as (loaded, tokenizer, engine):
        reranker = await _in_thread(Reranker.of, loaded, tokenizer)
        for at, text in enumerate(body.texts):
            prompt = await _in_thread(reranker.prompt, body.query, text, body.instruction)
            score = await _in_thread(reranker.score, engine, prompt)
            shown = {"document": {"text": text}} if body.return_documents else {}
            results.append({"index": at, "relevance_score": score, **shown})
            tokens += len(prompt)
    results.sort(key=lambda result: -result["relevance_score"])
    return {
        "id": f"rerank-{secrets.token_hex(12)}",
        "model": loaded.id,
        "results": results[: body.top_n],
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }


async def _in_thread(function: Callable[[*Given], Result], *given: *Given) -> Result:
    """Return what ``function`` returns in a thread. If cancelled, wait for the thread first: while it
    works or waits in the engine, no other request may take the turn."""
    working = asyncio.ensure_future(to_thread.run_sync(function, *given))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait([working])
        raise


class TextQueue:
    """Lets one request for vectors or ranks work at a time. Each of its texts waits for replies, so that
    many such requests would hold all threads."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._lock, self._waiting = asyncio.Lock(), 0

    @asynccontextmanager
    async def turn(self, model: str | None) -> AsyncIterator[tuple[Loaded, Tokenizer, Engine]]:
        """Wait for the turn; yield what ``model`` means, its tokenizer and its engine. Raises a 429 if
        too many wait, and as ``Service.tokenizing``."""
        if self._waiting >= MAX_WAITING:
            raise queue_full(self._waiting, "requests")
        self._waiting += 1
        try:
            async with self._lock, self._service.tokenizing(model) as (loaded, tokenizer):
                yield loaded, tokenizer, self._service.queue.engine.of(loaded)
        finally:
            self._waiting -= 1

    async def vectors(
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
        async with self.turn(model) as (loaded, tokenizer, engine):
            for one in inputs:
                try:
                    tokens = await _in_thread(_tokens, one, tokenizer, loaded.context, truncate)
                    vectors.append(await _in_thread(_vector, engine, tokens, dimensions))
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


INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query"
_BEFORE = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the "
    'Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
)
_AFTER = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
_NAME = "qwen3-reranker"


@dataclass(frozen=True, slots=True)
class Reranker:
    """A reranker: its tokens of "no" and "yes", those around what it judges, and the room for that."""

    tokenizer: Tokenizer
    choices: tuple[int, int]
    before: tuple[int, ...]
    after: tuple[int, ...]
    room: int

    @classmethod
    def of(cls, loaded: Loaded, tokenizer: Tokenizer) -> Reranker:
        """Return that of the loaded model. Raises ApiError for a model that is none."""
        no, yes = tokenizer.named("no"), tokenizer.named("yes")
        names = (loaded.target_name, loaded.target_id, loaded.name)
        known = any(_NAME in name.lower().replace(" ", "-").replace("_", "-") for name in names)
        if no is None or yes is None or not known:
            raise ApiError(
                400,
                f"The model {loaded.id!r} is not a reranker. Load Qwen3-Reranker; its name must contain "
                "these words.",
                code="unsupported_value",
                param="model",
            )

        before, after = tokenizer.encode(_BEFORE), tokenizer.encode(_AFTER)
        room = loaded.context - len(before) - len(after)
        return cls(tokenizer, (no, yes), before, after, room)

    def prompt(self, query: str, document: str, instruction: str | None) -> tuple[int, ...]:
        """Return the tokens of the prompt on one document, whose end is cut if it is too long. Raises
        InvalidRequest for a query that leaves it no room."""
        asked = f"<Instruct>: {instruction or INSTRUCTION}\n<Query>: {query}\n<Document>: "
        tokens = self._tokens(asked + document)
        if len(tokens) >= self.room and len(self._tokens(asked)) >= self.room:
            raise InvalidRequest(
                "query",
                f"query, with its instruction, does not fit: the context has room for {self.room:,} "
                "tokens of it and a document. Shorten it, or load the model with a longer context.",
            )
        return (*self.before, *tokens, *self.after)

    def _tokens(self, text: str) -> tuple[int, ...]:
        """Return the tokens for which there is room."""
        room = max(0, self.room)
        return self.tokenizer.encode(text[: CHARACTERS_PER_TOKEN * room], control=False)[:room]

    def score(self, engine: Engine, prompt: Sequence[int]) -> float:
        """Return the relevance, from 0 to 1."""
        no, yes = engine.next_logits(prompt, self.choices)
        return 1 / (1 + math.exp(min(no - yes, 700)))
