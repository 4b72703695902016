"""The speed that follows from step times and an acceptance, and the depth at which it is best.

tokens/s = expected tokens of a round / (time to draft + time to verify)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.stats import expected_tokens
from engine.values import MAX_DEPTH


@dataclass(frozen=True, slots=True)
class Pace:
    """A round that drafts ``depth``: so many tokens on average in so many seconds."""

    depth: int
    tokens: float
    seconds: float

    @property
    def tokens_per_s(self) -> float:
        return self.tokens / self.seconds


def pace(verify_s: Mapping[int, float], draft_s: float, acceptance: float, depth: int) -> Pace:
    """``verify_s``: seconds of a target's step by rows; ``draft_s``: of one draft step."""
    return Pace(depth, expected_tokens(acceptance, depth), depth * draft_s + verify_s[1 + depth])


def best_pace(verify_s: Mapping[int, float], draft_s: float, acceptance: float) -> Pace:
    """The fastest of all depths from 1 on for which the step was measured."""
    depths = [depth for depth in range(1, MAX_DEPTH + 1) if 1 + depth in verify_s]
    paces = [pace(verify_s, draft_s, acceptance, depth) for depth in depths]
    return max(paces, key=lambda one: one.tokens_per_s)
