"""Convert requests of Dynamo's frontend to the engine's.

Fields as in ``lib/llm/src/protocols/common.rs`` and ``common/preprocessor.rs`` of ai-dynamo/dynamo
(1.6.1): token ids of the prompt, and options, most of them null. Options that this engine does not have
are refused by name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from app.server.answer import logprob
from app.server.fields.schemas import in_words
from app.server.fields.structured import StructuredOutputsBody, grammar_of
from app.server.monitoring.metrics import summed_drafting, timings
from app.server.requests import sampling_from
from engine.errors import ForetokenError, InvalidRequest
from engine.events import Emitted, Event, Failed, Finished, Token
from engine.reply import ReplyState
from engine.request import Request, Speculation
from engine.stats import Statistics
from engine.values.grammar import Grammar

_NEUTRAL: Mapping[str, Mapping[str, Collection[object]]] = {
    "sampling_options": {
        "n": (1,),
        "best_of": (1,),
        "use_beam_search": (False,),
        "length_penalty": (1,),
        "allowed_token_ids": (),
        "bad_words_token_ids": (),
    },
    "stop_conditions": {"min_tokens": (0,), "max_thinking_tokens": ()},
    "output_options": {"prompt_logprobs": ()},
}
"""Options that this engine does not have, and their values that have no effect."""

_OTHER_INPUT = ("prompt_embeds", "multi_modal_data", "prefill_result", "encoder_result")
_GUIDED = ("json", "regex", "choice", "grammar")


@dataclass(frozen=True, slots=True)
class ConvertedRequest:
    """``logprobs``: how many top tokens come with each token's log probability; None: neither.

    ``with_text``: send the engine's text with the tokens. Otherwise the frontend decodes them, since it
    wants special tokens or stop strings, which the engine's text never has.

    ``starts_reply``: the prompt ends with a chat's generation prompt. Any other may contain tokens of the
    reply from a worker that died: the frontend appends them to the prompt and does not say so.
    """

    request: Request
    logprobs: int | None
    with_text: bool
    starts_reply: bool = False


def convert_request(
    body: Mapping[str, Any],
    speculation: Speculation,
    eos: Collection[int],
    generation_prompt: tuple[int, ...] = (),
) -> ConvertedRequest:
    """Return the engine's request. ``eos`` and ``generation_prompt`` as in ``ModelCard``.

    Raises InvalidRequest for what this engine does not support.
    """
    _refuse_unsupported(body, eos)
    stops, output = _part(body, "stop_conditions"), _part(body, "output_options")
    sampling = _part(body, "sampling_options")
    logprobs = output.get("logprobs")
    request = Request(
        token_ids=tuple(body["token_ids"]),
        sampling=sampling_from(sampling),
        speculation=speculation,
        max_tokens=stops.get("max_tokens"),
        stop=tuple(stops.get("stop") or ()),
        ignore_eos=bool(stops.get("ignore_eos")),
        top_logprobs=logprobs or 0,
        grammar=_grammar(sampling.get("guided_decoding")),
    )
    with_text = output.get("skip_special_tokens") is not False
    prompt = request.token_ids or ()
    return ConvertedRequest(
        request,
        logprobs,
        with_text and not sampling.get("include_stop_str_in_output"),
        bool(generation_prompt) and prompt[-len(generation_prompt) :] == generation_prompt,
    )


def _part(body: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return body.get(name) or {}


def _refuse_unsupported(body: Mapping[str, Any], eos: Collection[int]) -> None:
    for part, neutral in _NEUTRAL.items():
        for name, value in _part(body, part).items():
            if value and name in neutral and value not in neutral[name]:
                raise InvalidRequest(
                    name,
                    f"{name} is {value!r}, which this worker does not support. Leave it out.",
                )
    for name in _OTHER_INPUT:
        if body.get(name):
            raise InvalidRequest(name, f"{name} is given, but this worker supports text only.")
    other = set(_part(body, "stop_conditions").get("stop_token_ids") or ()) - set(eos)
    if other:
        raise InvalidRequest(
            "stop_token_ids",
            f"stop_token_ids has {min(other)}; this worker stops only at the model's own "
            "end tokens and at stop strings. Send its text as a stop string.",
        )


def _grammar(guided: Mapping[str, Any] | None) -> Grammar | None:
    """Return the grammar of ``guided_decoding``, whose fields are vLLM's ``structured_outputs``."""
    values = {name: value for name, value in (guided or {}).items() if value is not None}
    values.pop("backend", None)  # the grammar library; here always the same
    if not values:
        return None
    unknown = values.keys() - set(_GUIDED)
    if unknown:
        raise InvalidRequest(
            "guided_decoding",
            f"guided_decoding has {', '.join(sorted(unknown))}; this worker supports "
            f"{', '.join(_GUIDED)}.",
        )
    try:
        return grammar_of(None, StructuredOutputsBody.model_validate(values))
    except ValidationError as error:
        raise InvalidRequest(
            "guided_decoding", f"guided_decoding is invalid: {in_words(error.errors()[0])}."
        ) from error


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
