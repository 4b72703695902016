"""Engines take turns, prompt by prompt, so that a machine that drifts slows all of them alike."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.bench.real.reports.summary import words
from engine.errors import PeerFailed
from tools.peers.base import PLAIN, Case, Contender, Entrant, Reply


@dataclass(frozen=True, slots=True)
class Row:
    """One engine in one setting, over all prompts.

    ``ratio``: to our engine in the same setting, or to our plain decoding where we have none such.
    ``equal_words``: every reply has the tokens of our plain decoding; None where none are compared.
    """

    entrant: Entrant
    weights: str
    tokens_per_s: float
    ratio: float
    equal_words: bool | None


@dataclass(frozen=True, slots=True)
class Absence:
    """An engine that was not measured, and why."""

    engine: str
    reason: str


def run(
    contenders: Sequence[Contender],
    prompts: Sequence[Sequence[int]],
    case: Case,
    limit: int,
    repeats: int,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[list[Row], list[Absence]]:
    """Every prompt through every contender; the first is our plain decoding, which sets the words.

    Of the repeats of a prompt the one of median speed counts. A contender that fails on the way has
    no row but an absence.
    """
    answers = {contender: [list[Reply]() for _ in prompts] for contender in contenders}
    fallen: dict[Contender, str] = {}
    turns = list(itertools.product(range(repeats), enumerate(prompts)))
    for done, (repeat, (number, prompt)) in enumerate(turns):
        on_progress(done, len(turns))
        turned = (number + repeat) % len(contenders)
        for contender in (*contenders[turned:], *contenders[:turned]):
            if contender in fallen:
                continue
            try:
                answers[contender][number].append(contender.answer(prompt, limit))
            except PeerFailed as error:
                fallen[contender] = f"{contender.entrant.setting}: {error}"
    on_progress(len(turns), len(turns))
    absences = [Absence(contender.entrant.engine, reason) for contender, reason in fallen.items()]
    left = {contender: mine for contender, mine in answers.items() if contender not in fallen}
    return _rows(left, case), absences


def _rows(answers: Mapping[Contender, Sequence[Sequence[Reply]]], case: Case) -> list[Row]:
    entrants = [contender.entrant for contender in answers]
    speeds = [_speed([_median(several) for several in mine]) for mine in answers.values()]
    ours = [_words(several[0].tokens, case.eos) for several in next(iter(answers.values()))]
    return [
        Row(
            entrant=entrant,
            weights=case.name,
            tokens_per_s=speed,
            ratio=_ratio(entrant, speed, entrants, speeds),
            equal_words=_equal(mine, ours, case.eos),
        )
        for entrant, speed, mine in zip(entrants, speeds, answers.values(), strict=True)
    ]


def as_json(rows: Sequence[Row], absent: Sequence[Absence]) -> dict[str, Any]:
    """The stable keys that scripts rely on."""
    return {
        "results": [
            {
                "engine": row.entrant.engine,
                "setting": row.entrant.setting,
                "detail": row.entrant.detail,
                "weights": row.weights,
                "quantization": row.entrant.quantization,
                "source": row.entrant.source.value,
                "tokens_per_s": row.tokens_per_s,
                "ratio_to_ours": row.ratio,
                "equal_words": row.equal_words,
            }
            for row in rows
        ],
        "absent": [{"engine": one.engine, "reason": one.reason} for one in absent],
    }


def _words(tokens: tuple[int, ...] | None, eos: Collection[int]) -> tuple[int, ...] | None:
    return None if tokens is None else words(tokens, eos)


def _equal(
    mine: Sequence[Sequence[Reply]],
    ours: Sequence[tuple[int, ...] | None],
    eos: Collection[int],
) -> bool | None:
    said = [[_words(reply.tokens, eos) for reply in several] for several in mine]
    if any(one is None for several in said for one in several):
        return None
    return all(one == its for several, its in zip(said, ours, strict=True) for one in several)


def _median(several: Sequence[Reply]) -> Reply:
    return sorted(several, key=lambda reply: _speed([reply]))[len(several) // 2]


def _speed(replies: Sequence[Reply]) -> float:
    """Tokens a second of several replies as one."""
    seconds = sum(reply.seconds for reply in replies)
    return sum(reply.decoded for reply in replies) / seconds if seconds else 0.0


def _ratio(
    entrant: Entrant, speed: float, entrants: Sequence[Entrant], speeds: Sequence[float]
) -> float:
    ours = {
        other.setting: its
        for other, its in zip(entrants, speeds, strict=True)
        if other.engine == entrants[0].engine
    }
    measure = ours.get(entrant.setting) or ours[PLAIN]
    return speed / measure if measure else 0.0
