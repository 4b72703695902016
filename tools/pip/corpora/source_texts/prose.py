"""Notes, tales, minutes, recipes and letters."""

from __future__ import annotations

import random

from .. import words
from .sentences import BANKS, fill
from .source import Source, make_cast

_GREETINGS = ("Dear {}", "Hello {}", "Hi {}", "Good morning {}", "Good evening {}")
_CLOSINGS = (
    "Best wishes",
    "Kind regards",
    "Yours",
    "See you soon",
    "With love",
    "Many thanks",
    "Take care",
    "Greetings",
)


def prose(rng: random.Random, doc: str, count: int, about: str = "A") -> Source:
    """A note, tale or minutes of `count` sentences, as one paragraph or one per line."""
    cast = make_cast(rng)
    sentences = [fill(rng, template, cast) for template in BANKS[doc].draw(rng, count, about)]
    by_line = rng.random() < {"note": 0.3, "tale": 0.1, "minutes": 0.7, "recipe": 0.8}[doc]
    mark = "- " if doc == "minutes" and by_line and rng.random() < 0.3 else ""
    return Source(doc, tuple(sentences), cast, by_line, mark)


def letter(rng: random.Random, count: int, about: str = "A") -> Source:
    """A letter in lines: greeting, a paragraph of `count` sentences, closing and name."""
    cast = make_cast(rng)
    body = " ".join(
        fill(rng, template, cast) for template in BANKS["letter"].draw(rng, count, about)
    )
    opening = rng.choice(_GREETINGS).format(words.first_name(rng))
    doc = rng.choice(("letter", "letter", "message", "email"))
    return Source(
        doc,
        (f"{opening},", body, f"{rng.choice(_CLOSINGS)},", words.first_name(rng)),
        cast,
        by_line=True,
    )


def greeting(rng: random.Random) -> str:
    """A line to open a letter with."""
    return rng.choice(_GREETINGS).format(words.first_name(rng)) + ","


def closing(rng: random.Random) -> str:
    """A line to end a letter with."""
    return f"{rng.choice(_CLOSINGS)}, {words.first_name(rng)}"
