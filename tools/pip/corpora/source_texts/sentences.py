"""Sentences from the templates of `sentences.yaml`: their slots are filled from the word banks and the cast."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from .. import words, yaml_file
from .source import Cast

SLOT = re.compile(r"\{(\w+)\}")
_CURRENCIES = ("euros", "euros", "dollars", "crowns", "pounds")


def amount(rng: random.Random) -> str:
    """A price with its currency: `12.95 euros`."""
    value = str(rng.randint(2, 950)) if rng.random() < 0.6 else f"{words.price(rng):.2f}"
    return f"{value} {rng.choice(_CURRENCIES)}"


Maker = Callable[[random.Random, Cast], str]
MAKERS: dict[str, Maker] = {
    "A": lambda rng, cast: cast.person,
    "B": lambda rng, cast: cast.other,
    "P": lambda rng, cast: cast.place,
    "K": lambda rng, cast: cast.thing,
    "o": lambda rng, cast: words.thing(rng),
    "os": lambda rng, cast: words.plural(words.thing(rng)),
    "b": lambda rng, cast: rng.choice(words.BUILDINGS),
    "adj": lambda rng, cast: rng.choice(words.ADJECTIVES),
    "colour": lambda rng, cast: rng.choice(words.COLOURS),
    "animal": lambda rng, cast: rng.choice(words.ANIMALS),
    "plant": lambda rng, cast: rng.choice(words.GARDEN[:24]),
    "food": lambda rng, cast: rng.choice(words.INGREDIENTS),
    "job": lambda rng, cast: rng.choice(words.JOBS),
    "hobby": lambda rng, cast: rng.choice(words.HOBBIES),
    "topic": lambda rng, cast: rng.choice(words.SUBJECTS),
    "spot": lambda rng, cast: rng.choice(words.SPOTS),
    "adv": lambda rng, cast: rng.choice(words.ADVERBS),
    "vp": lambda rng, cast: rng.choice(words.VERBS_PAST),
    "vb": lambda rng, cast: rng.choice(words.VERBS_BASE),
    "n": lambda rng, cast: str(rng.randint(2, 24)),
    "number": lambda rng, cast: str(rng.randint(1, 199)),
    "temp": lambda rng, cast: str(rng.randrange(120, 250, 10)),
    "eur": lambda rng, cast: amount(rng),
    "day": lambda rng, cast: rng.choice(words.WEEKDAYS),
    "month": lambda rng, cast: rng.choice(words.MONTHS),
    "date": lambda rng, cast: words.day_of_year(rng),
    "time": lambda rng, cast: words.clock_time(rng),
    "street": lambda rng, cast: words.street(rng),
    "code": lambda rng, cast: words.code(rng),
    "phone": lambda rng, cast: words.phone(rng),
}


@dataclass(frozen=True)
class Bank:
    """The sentence templates of one kind of text."""

    templates: tuple[str, ...]

    @cached_property
    def with_slot(self) -> dict[str, tuple[str, ...]]:
        """The templates that mention a slot, by slot."""
        return {
            slot: tuple(one for one in self.templates if f"{{{slot}}}" in one)
            for slot in ("A", "B", "P", "K")
        }

    def draw(self, rng: random.Random, count: int, about: str) -> list[str]:
        """`count` different templates, two of which mention the slot `about`, where the bank has such."""
        known = self.with_slot[about]
        chosen = rng.sample(known, 2) if len(known) > 1 else []
        while len(chosen) < count:
            template = rng.choice(self.templates)
            if template not in chosen:
                chosen.append(template)
        rng.shuffle(chosen)
        return chosen


BANKS = {
    doc: Bank(tuple(lines.splitlines()))
    for doc, lines in yaml_file.read(Path(__file__).with_suffix(".yaml")).items()
}
"""The templates by what a text is called."""


def fill(rng: random.Random, template: str, cast: Cast) -> str:
    """The template as a sentence, its first letter a capital."""
    pieces = _pieces(template)
    filled = "".join(
        piece if index % 2 == 0 else MAKERS[piece](rng, cast) for index, piece in enumerate(pieces)
    )
    sentence = words.fix_articles(filled)
    return sentence[:1].upper() + sentence[1:]


@cache
def _pieces(template: str) -> tuple[str, ...]:
    """Literal text and slot names in turn, literal first."""
    return tuple(SLOT.split(template))


def fill_but(rng: random.Random, template: str, cast: Cast, blanks: dict[str, str]) -> str:
    """The template as a sentence with the slots of `blanks` left open."""
    kept = SLOT.sub(lambda slot: f"\0{slot[1]}\0" if slot[1] in blanks else slot[0], template)
    sentence = fill(rng, kept, cast)
    return re.sub("\0(\\w+)\0", lambda slot: blanks[slot[1]], sentence)
