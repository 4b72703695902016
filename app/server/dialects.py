"""The formats of an answer in ``/v1/chat/completions`` and ``/v1/completions``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from app.server.answer import Answer
from engine.events import FinishReason, Token
from engine.tool_calls.reading import Arguments, CallStart, Content, Part, Thought

NEVER = -9999.0
"""OpenAI's log probability for a probability of zero."""


class Dialect(Protocol):
    """The differences between chat and text completions. Choices have no index yet."""

    prefix: str
    whole: str
    part: str

    def opening(self) -> dict[str, Any] | None:
        """Return the first choice of a stream, if it has one before the text."""

    def added(self, answer: Answer, tokens: Sequence[Token] | None) -> Iterator[dict[str, Any]]:
        """Yield the choices of a stream for the answer's last event, which brought ``tokens``."""

    def ended(self, reason: str) -> dict[str, Any]:
        """Return the last choice of a stream."""

    def choice(self, answer: Answer) -> dict[str, Any]:
        """Return the choice with the whole answer."""


class ChatDialect:
    """``/v1/chat/completions``."""

    prefix, whole, part = "chatcmpl", "chat.completion", "chat.completion.chunk"

    def __init__(self, logprobs: bool) -> None:
        self._wanted = logprobs

    def opening(self) -> dict[str, Any] | None:
        return self._delta({"role": "assistant", "content": ""})

    def ended(self, reason: str) -> dict[str, Any]:
        return self._delta({}) | {"finish_reason": reason}

    def choice(self, answer: Answer) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": answer.content, "refusal": None}
        if answer.thought:
            message["reasoning_content"] = answer.thought
        if answer.called:
            message["content"] = answer.content or None
            message["tool_calls"] = [
                {"id": call.id, **_call(call.name, call.arguments)} for call in answer.called
            ]
        return {
            "message": message,
            "logprobs": self._logprobs(answer.reply.tokens),
            "finish_reason": chat_reason(answer),
            **stop_found(answer),
        }

    def added(self, answer: Answer, tokens: Sequence[Token] | None) -> Iterator[dict[str, Any]]:
        """Yield choices as ``Dialect`` says; the first part gets all tokens."""
        deltas = [_delta(answer, part) for part in answer.parts]
        for delta in deltas or ([{"content": ""}] if tokens and self._wanted else []):
            yield self._delta(delta) | {"logprobs": self._logprobs(tokens)}
            tokens = None

    def _delta(self, delta: dict[str, Any]) -> dict[str, Any]:
        return {"delta": delta, "logprobs": None, "finish_reason": None}

    def _logprobs(self, tokens: Sequence[Token] | None) -> dict[str, Any] | None:
        if not self._wanted or tokens is None:
            return None
        return {"content": chat_logprobs(tokens), "refusal": None}


class TextDialect:
    """``/v1/completions``."""

    prefix, whole, part = "cmpl", "text_completion", "text_completion"

    def __init__(self, logprobs: int | None) -> None:
        """``logprobs``: how many top tokens come with each token's log probability; None: neither."""
        self._wanted, self._top = logprobs is not None, bool(logprobs)

    def opening(self) -> dict[str, Any] | None:
        return None

    def added(self, answer: Answer, tokens: Sequence[Token] | None) -> Iterator[dict[str, Any]]:
        text = "".join(part.text for part in answer.parts if isinstance(part, Content))
        if text or (tokens and self._wanted):
            yield self._choice(text, self._logprobs(tokens), None)

    def ended(self, reason: str) -> dict[str, Any]:
        return self._choice("", None, reason)

    def choice(self, answer: Answer) -> dict[str, Any]:
        reply = answer.reply
        choice = self._choice(reply.text, self._logprobs(reply.tokens), reply.reason)
        return choice | stop_found(answer)

    def _choice(
        self, text: str, logprobs: dict[str, Any] | None, reason: str | None
    ) -> dict[str, Any]:
        return {"text": text, "logprobs": logprobs, "finish_reason": reason}

    def _logprobs(self, tokens: Sequence[Token] | None) -> dict[str, Any] | None:
        if not self._wanted or tokens is None:
            return None
        return {
            "tokens": [token.text for token in tokens],
            "token_logprobs": [logprob(token.p) for token in tokens],
            "top_logprobs": [_top_logprobs(token) for token in tokens] if self._top else None,
            "text_offset": [token.start for token in tokens],
        }


def chat_reason(answer: Answer) -> str | None:
    """Return the finish reason of a chat's reply."""
    reason = answer.reply.reason
    return "tool_calls" if answer.called and reason is FinishReason.STOP else reason


def stop_found(answer: Answer) -> dict[str, str]:
    """Return the stop string that ended a reply, in vLLM's field, if one did."""
    found = answer.reply.stop_string
    return {} if found is None else {"stop_reason": found}


def _delta(answer: Answer, part: Part) -> dict[str, Any]:
    """Return a chat stream's delta of a part of the reply."""
    match part:
        case Thought(text):
            return {"reasoning_content": text}
        case Content(text):
            return {"content": text}
        case CallStart(index, name):
            opened = {"index": index, "id": answer.called[index].id, **_call(name, "")}
            return {"tool_calls": [opened]}
        case Arguments(index, text):
            return {"tool_calls": [{"index": index, "function": {"arguments": text}}]}


def _call(name: str, arguments: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


def chat_logprobs(tokens: Sequence[Token]) -> list[dict[str, Any]]:
    """Return an entry for each token, as in ``/v1/chat/completions`` and ``/v1/responses``."""
    return [
        {
            **_entry(token.text, token.p),
            "top_logprobs": [_entry(other.text, other.p) for other in token.top_logprobs],
        }
        for token in tokens
    ]


def _entry(text: str, p: float | None) -> dict[str, Any]:
    return {"token": text, "logprob": logprob(p), "bytes": list(text.encode())}


def _top_logprobs(token: Token) -> dict[str, float | None]:
    """Return the log probabilities of a position's top tokens and its own token, by their texts.

    Of tokens with the same text, such as parts of a character, the most likely one counts.
    """
    logprobs: dict[str, float | None] = {}
    for other in token.top_logprobs:
        logprobs.setdefault(other.text, logprob(other.p))
    if token.id not in {other.id for other in token.top_logprobs}:
        logprobs.setdefault(token.text, logprob(token.p))
    return logprobs


def logprob(p: float | None) -> float | None:
    """Return the log of a token's probability in the target, after penalties, temperature, truncation."""
    if p is None:
        return None
    return math.log(p) if p > 0 else NEVER
