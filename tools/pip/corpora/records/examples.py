"""Examples with records: a first request of one kind, and perhaps some changes."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from ..example import Example, chat
from .conversions import convert_turn
from .follow_ups import follow_up
from .lists import list_turn
from .objects import pairs_turn, prose_turn
from .states import Turn, check_of, render
from .tables import array_turn, table_turn

FOLLOW_UP_SHARE = 0.15
CHANGES_SHARE = 0.85  # so that a chat that is about changes has two of them on average
LONGEST_CHAT = 1400  # letters, after which no further turn is added
FIRST_TURNS: dict[str, Callable[[random.Random, bool], Turn]] = {
    "prose": prose_turn,
    "pairs": pairs_turn,
    "array": array_turn,
    "table": table_turn,
    "list": list_turn,
    "convert": convert_turn,
}
WEIGHTS = {"prose": 34, "pairs": 20, "array": 9, "table": 16, "list": 14, "convert": 12}


def generate(rng: random.Random, held_out: bool) -> Example:
    """One example with records; `held_out` draws the wordings that training never shows."""
    kind = rng.choices(tuple(WEIGHTS), weights=tuple(WEIGHTS.values()))[0]
    return _example(rng, held_out, kind, FOLLOW_UP_SHARE)


def generate_changes(rng: random.Random, held_out: bool) -> Example:
    """A JSON record and some changes to it: what training needs more often than people ask for it."""
    return _example(rng, held_out, rng.choice(("prose", "pairs")), CHANGES_SHARE)


def _example(rng: random.Random, held_out: bool, kind: str, follow_up_share: float) -> Example:
    turns = [FIRST_TURNS[kind](rng, held_out)]
    while len(turns) < 4 and rng.random() < follow_up_share and _length(turns) < LONGEST_CHAT:
        later = follow_up(rng, held_out, turns[-1].state)
        turns += [later] if later else []
    said = [text for turn in turns for text in (turn.request, render(turn.state))]
    return Example(f"records.{kind}", chat(*said), check_of(turns[-1].state))


def _length(turns: Sequence[Turn]) -> int:
    return sum(len(turn.request) + len(render(turn.state)) for turn in turns)
