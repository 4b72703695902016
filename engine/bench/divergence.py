"""Explain why two replies differ that should not: the first differing token, and its cause.

Lossless speculation changes no word, but for one thing: where a model's two likely tokens are as good
as equal, another order of summation may turn the choice. So the target is asked anew what it would have
written there, by one pass over all that both replies share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from engine.api import Engine, TopToken
from engine.bench.answering import Answer
from engine.bench.race import Race
from engine.decoding.context import common_prefix
from engine.stats import percent

TIE = 16 * 2.0**-8
"""Scores closer than this may change places by rounding: it is the rounding of a logit of 16 in bfloat16,
which keeps eight bits. Elsewhere rounding is finer."""


class Cause(StrEnum):
    """The cause of a divergence."""

    TIE = "numerical tie"
    BUG = "bug"


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where the replies of turn ``turn`` (from 0) diverge: both tokens' texts, None for a reply
    that had ended.

    ``candidates`` are the target's two most likely tokens there, best first.
    """

    turn: int
    position: int
    base: str | None
    rival: str | None
    candidates: tuple[TopToken, ...]
    cause: Cause

    def __str__(self) -> str:
        """Describe the divergence in sentences."""
        (first, second), texts = self.candidates, [_shown(self.base), _shown(self.rival)]
        turn = f" of turn {self.turn + 1}" if self.turn else ""
        place = (
            f"First at token {self.position + 1}{turn}: {texts[0]} against {texts[1]}. The "
            f"target's top two there are {first.text!r} ({percent(first.p, 1)}) and {second.text!r} "
            f"({percent(second.p, 1)})"
        )
        if self.cause is Cause.TIE:
            return f"{place}: a tie within rounding error."
        return f"{place}: not a tie, so this is a bug. Please report it."


def find(engine: Engine, base: Answer, rival: Answer) -> Divergence | None:
    """Return where two answers to one prompt diverge, and why.

    None where they do not, or where the engine tells no tokens. Raises ForetokenError where the engine
    cannot say what it would have written.
    """
    place = first_difference(base.tokens, rival.tokens)
    if place is None:
        return None
    turn, position = place
    candidates = engine.top_tokens(base.requests[turn], base.tokens[turn][:position], 2)
    ids = [token_at(answer.tokens[turn], position) for answer in (base, rival)]
    return Divergence(
        turn=turn,
        position=position,
        base=_text(base, turn, position, candidates),
        rival=_text(rival, turn, position, candidates),
        candidates=candidates,
        cause=_cause(ids, candidates),
    )


def of_race(engine: Engine, race: Race) -> Divergence | None:
    """Return the divergence of the first pair whose words differ and must not. Raises as ``find``."""
    if not race.contest.promises_words:
        return None
    differing = next((pair for pair in race.pairs if not pair.same_words), None)
    return None if differing is None else find(engine, differing.base, differing.rival)


def first_difference(
    ours: Sequence[Sequence[int]], theirs: Sequence[Sequence[int]]
) -> tuple[int, int] | None:
    """Turn and position, from 0, of the first token that is not the same in both."""
    for turn, (mine, yours) in enumerate(zip(ours, theirs, strict=True)):
        if mine != yours:
            return turn, common_prefix(mine, yours)
    return None


def _cause(ids: Sequence[int | None], candidates: Sequence[TopToken]) -> Cause:
    """Return the cause: a tie only if each reply has one of the two top tokens; an end has no id here."""
    first, second = candidates
    close = first.score - second.score <= TIE
    token_ids = {one for one in ids if one is not None}
    return Cause.TIE if close and token_ids <= {first.id, second.id} else Cause.BUG


def token_at(tokens: Sequence[int], position: int) -> int | None:
    """Return the token at ``position``; None behind the end."""
    return tokens[position] if position < len(tokens) else None


def _text(answer: Answer, turn: int, position: int, candidates: Sequence[TopToken]) -> str | None:
    """Return a token as views show it: a reply's own pieces are empty inside a character."""
    token = token_at(answer.tokens[turn], position)
    text = next((one.text for one in candidates if one.id == token), None)
    if token is None or text is not None:
        return text
    tokens = answer.replies[turn].tokens or []
    return tokens[position].text if position < len(tokens) else f"<{token}>"


def _shown(text: str | None) -> str:
    return "the end" if text is None else repr(text)
