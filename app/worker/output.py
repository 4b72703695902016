"""Convert a reply's events to the chunks that Dynamo's frontend reads (``LLMEngineOutput`` of 1.6.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.server.dialects import logprob
from app.server.monitoring.metrics import summed_drafting, timings
from app.worker.request_conversion import ConvertedRequest
from engine.errors import ForetokenError
from engine.events import Emitted, Event, Failed, Finished, Token
from engine.reply import ReplyState
from engine.stats import Statistics

Chunk = dict[str, Any]


class OutputChunks:
    """One reply, chunk by chunk."""

    def __init__(self, request: ConvertedRequest) -> None:
        self._request = request
        self._reply = ReplyState()

    def add(self, event: Event) -> Chunk | None:
        """Return the event's chunk, if it has one. Raises ForetokenError for a reply that failed."""
        self._reply.add(event)
        match event:
            case Emitted():
                return self._emitted(event)
            case Finished():
                return self._finished(event)
            case Failed():
                raise ForetokenError(event.message)
            case _:
                return None

    def _emitted(self, event: Emitted) -> Chunk:
        tokens = event.tokens or ()
        chunk = self._chunk([token.id for token in tokens], event.text)
        if self._request.with_text:
            chunk["tokens"] = [token.text for token in tokens]
        if self._request.logprobs is not None:
            chunk["log_probs"] = [logprob(token.p) for token in tokens]
            if self._request.logprobs:
                chunk["top_logprobs"] = [_top_tokens(token) for token in tokens]
        return chunk

    def _finished(self, event: Finished) -> Chunk:
        statistics = self._reply.statistics
        usage = {
            "prompt_tokens": statistics.prompt_tokens,
            "completion_tokens": statistics.completion_tokens,
            "total_tokens": statistics.prompt_tokens + statistics.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": statistics.reused_tokens},
        }
        return self._chunk([], event.tail) | {
            "finish_reason": str(event.reason),
            # The frontend counts too, but prefers the worker's count of the prompt.
            **({"completion_usage": usage} if self._request.starts_reply else {}),
            "engine_data": {
                "seed": self._reply.seed,
                "timings": timings(statistics),
                **self._rounds(statistics),
            },
        }

    def _rounds(self, statistics: Statistics) -> Chunk:
        """Return the rounds, as vLLM tells them, for who reads more than counts of tokens."""
        if not statistics.drafted:
            return {}
        deepest = len(statistics.accepted_at)
        return {"metrics": {"speculative_decoding": summed_drafting(statistics, deepest)}}

    def _chunk(self, tokens: Sequence[int], text: str) -> Chunk:
        chunk: Chunk = {"token_ids": list(tokens), "index": 0}
        return chunk | ({"text": text} if self._request.with_text else {})


def _top_tokens(token: Token) -> list[dict[str, Any]]:
    """Return a position's top tokens, the most likely first."""
    return [
        {
            "rank": rank,
            "token_id": other.id,
            "token": other.text,
            "logprob": logprob(other.p),
            "bytes": list(other.text.encode()),
        }
        for rank, other in enumerate(token.top_logprobs, start=1)
    ]
