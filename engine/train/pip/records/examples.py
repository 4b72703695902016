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
    turns = [FIRST_TURNS[kind](rng, held_out)]
    while len(turns) < 4 and rng.random() < FOLLOW_UP_SHARE and _length(turns) < LONGEST_CHAT:
        later = follow_up(rng, held_out, turns[-1].state)
        turns += [later] if later else []
    said = [text for turn in turns for text in (turn.request, render(turn.state))]
    return Example(f"records.{kind}", chat(*said), check_of(turns[-1].state))


def _length(turns: Sequence[Turn]) -> int:
    return sum(len(turn.request) + len(render(turn.state)) for turn in turns)
