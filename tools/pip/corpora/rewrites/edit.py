"""What an edit is, and what editors share."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from ..phrasings import load
from ..source_texts import Source

SAY = load("rewrites")


@dataclass(frozen=True)
class Edit:
    """An instruction, with `{this}` where the text is named, and the text as it has to become."""

    instruction: str
    result: Source


Editor = Callable[[random.Random, bool, Source], Edit | None]
"""Gives None where the text offers nothing to edit."""


def mapped(source: Source, change: Callable[[str], str]) -> Source:
    """The source with every unit changed."""
    return source.with_units([change(unit) for unit in source.units])


def fresh(rng: random.Random, make: Callable[[random.Random], str], text: str) -> str:
    """A word that the text does not contain."""
    while (word := make(rng)).lower() in text.lower():
        pass
    return word


def unit_of(source: Source) -> str:
    """What a unit of the source is called."""
    return "line" if source.by_line else "sentence"


def is_list(source: Source) -> bool:
    """Whether it is lines of a like kind, with no heading, greeting or name among them."""
    return (
        source.by_line
        and len(source.units) > 1
        and source.doc not in ("letter", "message", "email")
    )
