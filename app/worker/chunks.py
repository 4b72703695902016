"""A reply's events as the chunks that Dynamo's frontend reads (``LLMEngineOutput`` of 1.6.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.server.dialects import logprob
from app.server.monitoring.metrics import timings
from app.worker.asked import Asked
from engine.errors import ForetokenError
from engine.events import Emitted, Event, Failed, Finished, Token
from engine.reply import ReplyState

Chunk = dict[str, Any]


class Chunks:
    """One reply, told chunk by chunk."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._reply = ReplyState()

    def of(self, event: Event) -> Chunk | None:
        """What is told of ``event``, if anything. Raises ForetokenError for a reply that failed."""
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
        if self._asked.worded:
            chunk["tokens"] = [token.text for token in tokens]
        if self._asked.logprobs is not None:
            chunk["log_probs"] = [logprob(token.p) for token in tokens]
            if self._asked.logprobs:
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
            # The frontend counts too, and takes the worker's word for the prompt where it has it.
            **({"completion_usage": usage} if self._asked.whole else {}),
            "engine_data": {"seed": self._reply.seed, "timings": timings(statistics)},
        }

    def _chunk(self, tokens: Sequence[int], text: str) -> Chunk:
        worded = {"text": text} if self._asked.worded else {}
        return {"token_ids": list(tokens), "index": 0, **worded}


def _top_tokens(token: Token) -> list[dict[str, Any]]:
    """The top tokens in a token's place, the likeliest first."""
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
