"""Frozen, validated values that several layers share: sampling, messages, tools, grammars, prompts."""

from __future__ import annotations

from engine.errors import InvalidRequest

MAX_DEPTH = 15
"""Most tokens that a round drafts."""
MAX_ROWS = MAX_DEPTH + 1
"""With the pending token: the rows that every kernel verifies in one pass, with the bits of one row."""


def require(condition: bool, name: str, message: str) -> None:
    """Raise InvalidRequest, "NAME MESSAGE", unless ``condition`` holds."""
    if not condition:
        raise InvalidRequest(name, f"{name} {message}")
