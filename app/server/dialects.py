"""How the two kinds of completion word the same answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

from app.server.answer import Answer
from engine.events import Piece

NEVER = -9999.0
"""OpenAI's logarithm of a probability that is zero as far as the number format can tell."""


class Dialect(Protocol):
    """What differs between chat and text completions. Choices come without their index."""

    prefix: str
    whole: str
    part: str

    def opening(self) -> dict[str, Any] | None:
        """What a stream's choice begins with."""

    def said(self, text: str, pieces: Sequence[Piece], offset: int) -> dict[str, Any]:
        """Some of a stream's text; ``offset`` characters came before ``pieces``."""

    def ended(self, reason: str) -> dict[str, Any]:
        """A stream's last choice."""

    def choice(self, answer: Answer) -> dict[str, Any]:
        """All of an answer."""


class ChatDialect:
    """``/v1/chat/completions``."""

    prefix, whole, part = "chatcmpl", "chat.completion", "chat.completion.chunk"

    def __init__(self, logprobs: bool) -> None:
        self._wanted = logprobs

    def opening(self) -> dict[str, Any] | None:
        return self._delta({"role": "assistant", "content": ""})

    def said(self, text: str, pieces: Sequence[Piece], offset: int) -> dict[str, Any]:
        return self._delta({"content": text}) | {"logprobs": self._logprobs(pieces)}

    def ended(self, reason: str) -> dict[str, Any]:
        return self._delta({}) | {"finish_reason": reason}

    def choice(self, answer: Answer) -> dict[str, Any]:
        return {
            "message": {"role": "assistant", "content": answer.text, "refusal": None},
            "logprobs": self._logprobs(answer.pieces),
            "finish_reason": answer.reason,
        }

    def _delta(self, delta: dict[str, Any]) -> dict[str, Any]:
        return {"delta": delta, "logprobs": None, "finish_reason": None}

    def _logprobs(self, pieces: Sequence[Piece]) -> dict[str, Any] | None:
        if not self._wanted:
            return None
        content = [
            {
                "token": piece.text,
                "logprob": logprob(piece),
                "bytes": list(piece.text.encode()),
                "top_logprobs": [],
            }
            for piece in pieces
        ]
        return {"content": content, "refusal": None}


class TextDialect:
    """``/v1/completions``."""

    prefix, whole, part = "cmpl", "text_completion", "text_completion"

    def __init__(self, logprobs: bool) -> None:
        self._wanted = logprobs

    def opening(self) -> dict[str, Any] | None:
        return None

    def said(self, text: str, pieces: Sequence[Piece], offset: int) -> dict[str, Any]:
        return self._choice(text, self._logprobs(pieces, offset), None)

    def ended(self, reason: str) -> dict[str, Any]:
        return self._choice("", None, reason)

    def choice(self, answer: Answer) -> dict[str, Any]:
        return self._choice(answer.text, self._logprobs(answer.pieces, 0), answer.reason)

    def _choice(
        self, text: str, logprobs: dict[str, Any] | None, reason: str | None
    ) -> dict[str, Any]:
        return {"text": text, "logprobs": logprobs, "finish_reason": reason}

    def _logprobs(self, pieces: Sequence[Piece], offset: int) -> dict[str, Any] | None:
        if not self._wanted:
            return None
        offsets = []
        for piece in pieces:
            offsets.append(offset)
            offset += len(piece.text)
        return {
            "tokens": [piece.text for piece in pieces],
            "token_logprobs": [logprob(piece) for piece in pieces],
            "top_logprobs": None,
            "text_offset": offsets,
        }


def logprob(piece: Piece) -> float | None:
    """The target's probability of the token, after penalties, temperature and truncation."""
    if piece.p is None:
        return None
    return math.log(piece.p) if piece.p > 0 else NEVER
