"""Frozen, validated values that several layers share: sampling, messages, tools, grammars, prompts."""

from __future__ import annotations

import json
from collections.abc import Sized
from dataclasses import dataclass

from engine.errors import InvalidRequest

MAX_DEPTH = 15
"""Most tokens that a round drafts."""
MAX_ROWS = MAX_DEPTH + 1
"""Rows of a verification with the pending token; a row's bits do not depend on their number."""
MAX_STEP_ROWS = 4 * MAX_ROWS
"""Rows of one step of the compiled kernels, as in rows.h."""
RECENT_ROWS = 2 * MAX_ROWS
"""Rows whose inputs a recurrent layer keeps, to replay them after a rejection."""
MAX_TOP_LOGPROBS = 20
"""Most top tokens returned for each position, as in OpenAI's API."""
CHARACTERS_PER_TOKEN = 8
"""Characters per token of the context that may fit it: about twice those of prose and code."""

LEAST_CONTEXT = 32
"""Tokens: in fewer no chat template leaves room for a message and a reply."""

CHECKPOINT_MB = 256
"""The memory of a sequence's saved recurrent states, unless the user sets it."""


_SHOWN = 80
"""Characters of a value in a message."""
_NOUNS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def noun(kind: type) -> str:
    """Return what a value of ``kind`` is called in messages for people."""
    return _NOUNS.get(kind, kind.__name__)


def shown(value: object) -> str:
    """Return a value from a file or a request as a message shows it: as JSON, and shortened."""
    if value is None:
        return "missing"
    if isinstance(value, str):
        text = repr(value[: _SHOWN + 1])
    else:
        if isinstance(value, list):
            value = value[:_SHOWN]  # it may be as long as a body
        try:
            text = json.dumps(value, ensure_ascii=False, default=str)
        except (TypeError, ValueError, RecursionError):
            text = str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} …"


def require(condition: bool, name: str, message: str) -> None:
    """Raise InvalidRequest, "NAME MESSAGE", unless ``condition`` holds."""
    if not condition:
        raise InvalidRequest(name, f"{name} {message}")


def require_range(name: str, value: float | None, least: float, most: float | None = None) -> None:
    """Raise InvalidRequest unless ``value`` is None or lies between these bounds."""
    within = value is None or (least <= value and (most is None or value <= most))
    require(
        within,
        name,
        f"is {value}; it must be {least} {'or more' if most is None else f'to {most}'}.",
    )


def require_at_most(name: str, values: Sized, most: int, noun: str) -> None:
    """Raise InvalidRequest for more than ``most`` of what ``noun`` calls ``values``."""
    require(len(values) <= most, name, f"has {len(values)} {noun} (at most {most}).")


TopTokens = tuple[tuple[int, float], ...]
"""Tokens with their probabilities, best first, none at 0."""


@dataclass(frozen=True, slots=True)
class RoundResult:
    """The result of a round that ran on a device.

    tokens           the accepted ones, then the target's own
    chain            all drafted tokens, also of a tree
    parents          of each of them, as in ``Tree``
    p, q             of each drafted token, accepted or not; p after a rejected one is undefined, q is
                     None where nobody computed it
    next_p           p of the last token
    draft_s, total_s the device's seconds for drafting and for the round
    top_tokens       the target's most likely tokens in the place of each of ``tokens``, if asked for
    """

    accepted: int
    tokens: tuple[int, ...]
    chain: tuple[int, ...]
    parents: tuple[int, ...]
    p: tuple[float, ...]
    q: tuple[float | None, ...]
    next_p: float
    draft_s: float
    total_s: float
    top_tokens: tuple[TopTokens, ...] = ()
