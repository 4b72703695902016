"""The routes of embeddings and ranks, OpenAI's and Ollama's."""

from __future__ import annotations

import array
import base64
import secrets
from time import perf_counter_ns
from typing import Any

from anyio import to_thread
from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from app.server.embeddings.rerank import Reranker
from app.server.embeddings.schemas import (
    EmbeddingsBody,
    OllamaEmbedBody,
    OllamaEmbeddingsBody,
    RerankBody,
)
from app.server.embeddings.vectors import TextQueue, Vectors
from app.server.fields.schemas import checked
from app.server.ollama.conversion import untagged
from app.server.requests import Service
from app.server.transport.reading import read
from app.server.transport.sending import send_whole

Json = dict[str, Any]


def add_routes(router: APIRouter, service: Service) -> None:
    """Add the routes of this API."""
    queue = TextQueue()
    vectors = Vectors(service, queue)

    @router.post("/v1/embeddings")
    async def embeddings(http: HttpRequest) -> Response:
        body = await read(http, EmbeddingsBody, {})
        return await _send(http, _embedded(vectors, body))

    @router.post("/v1/rerank")
    @router.post("/v1/reranking")
    @router.post("/rerank")
    @router.post("/reranking")
    async def rerank(http: HttpRequest) -> Response:
        body = await read(http, RerankBody, {})
        return await _send(http, _ranked(service, queue, body))

    @router.post("/api/embed")
    async def ollama_embed(http: HttpRequest) -> Response:
        body = await read(http, OllamaEmbedBody, {})
        return await _send(http, _embedded_for_ollama(vectors, body))

    @router.post("/api/embeddings")
    async def ollama_embeddings(http: HttpRequest) -> Response:
        body = await read(http, OllamaEmbeddingsBody, {})

        async def work() -> Json:
            _, (vector,), _ = await vectors.of(untagged(body.model), [body.prompt], truncate=True)
            return {"embedding": vector}

        return await _send(http, work())


async def _send(http: HttpRequest, work: Any) -> Response:
    """Send the result of ``work``, which ends if the client leaves."""
    return await send_whole(http, work, lambda: None)


async def _embedded(vectors: Vectors, body: EmbeddingsBody) -> Json:
    loaded, found, tokens = await vectors.of(body.model, body.input, dimensions=body.dimensions)
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


async def _embedded_for_ollama(vectors: Vectors, body: OllamaEmbedBody) -> Json:
    began = perf_counter_ns()
    if body.input in (None, "", []):  # Ollama loads the model
        loaded, found, tokens = await vectors.of(untagged(body.model), [])
    else:
        inputs = checked(EmbeddingsBody, {"input": body.input}).input
        loaded, found, tokens = await vectors.of(
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


async def _ranked(service: Service, queue: TextQueue, body: RerankBody) -> Json:
    tokens = 0
    results: list[Json] = []
    async with queue.turn(), service.tokenizing(body.model) as (loaded, tokenizer):
        engine = service.counter.engine.of(loaded)
        reranker = await to_thread.run_sync(Reranker.of, loaded, tokenizer)
        for at, text in enumerate(body.texts):
            prompt = await to_thread.run_sync(reranker.prompt, body.query, text, body.instruction)
            score = await to_thread.run_sync(reranker.score, engine, prompt)
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
