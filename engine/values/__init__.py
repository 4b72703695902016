"""Frozen, validated values that several layers share: sampling, messages, tools, grammars, prompts."""

from __future__ import annotations

from dataclasses import dataclass

from engine.errors import InvalidRequest

MAX_DEPTH = 15
"""Most tokens that a round drafts."""
MAX_ROWS = MAX_DEPTH + 1
"""Rows of a verification with the pending token; a row's bits do not depend on their number."""
RECENT_ROWS = 2 * MAX_ROWS
"""Rows whose inputs a recurrent layer keeps, to replay them after a rejection."""
CHECKPOINT_MB = 256
"""The memory of a sequence's saved recurrent states, unless the user sets it."""


def require(condition: bool, name: str, message: str) -> None:
    """Raise InvalidRequest, "NAME MESSAGE", unless ``condition`` holds."""
    if not condition:
        raise InvalidRequest(name, f"{name} {message}")


@dataclass(frozen=True, slots=True)
class RoundResult:
    """The result of a round that ran on a device.

    tokens           the accepted ones, then the target's own
    chain            all drafted tokens
    p, q             of each drafted token, accepted or not; p after the first rejected one is undefined
    next_p           p of the last token
    draft_s, total_s the device's seconds for drafting and for the round
    """

    accepted: int
    tokens: tuple[int, ...]
    chain: tuple[int, ...]
    p: tuple[float, ...]
    q: tuple[float, ...]
    next_p: float
    draft_s: float
    total_s: float
