"""Lists of items, and lines of comma separated values."""

from __future__ import annotations

import random
from collections.abc import Callable

from .. import words
from .source import Source, make_cast


def items(rng: random.Random, count: int) -> tuple[str, tuple[str, ...]]:
    """`count` items and what their list is called; no two have the same first letter."""
    doc, make = rng.choice(_ITEMS)
    found: dict[str, str] = {}
    while len(found) < count:
        item = make(rng)
        found.setdefault(item[0].lower() if item[0].isalpha() else item.split()[-1][0], item)
    return doc, tuple(found.values())


def item_list(rng: random.Random, count: int) -> Source:
    """A list of `count` items, one per line."""
    doc, found = items(rng, count)
    return Source(doc, found, make_cast(rng), by_line=True)


def rows(rng: random.Random, count: int) -> Source:
    """Lines of comma separated values."""
    makers: list[Callable[[random.Random], str]] = rng.sample(
        (
            words.first_name, words.place, words.thing, words.iso_date, words.code, words.phone,
            lambda rng: str(rng.randint(1, 999)), lambda rng: rng.choice(words.JOBS), words.clock_time,
        ),
        rng.randint(2, 4),
    )  # fmt: skip
    lines = (",".join(make(rng) for make in makers) for _ in range(count))
    return Source("list", tuple(dict.fromkeys(lines)), make_cast(rng), by_line=True)


def _shopping(rng: random.Random) -> str:
    item = words.thing(rng)
    return rng.choice((item, words.plural(item), f"{rng.randint(2, 12)} {words.plural(item)}"))


def _chore(rng: random.Random) -> str:
    deed = f"{rng.choice(words.VERBS_BASE)} the {rng.choice(words.NOUNS)}"
    return rng.choice(
        (deed, f"call {words.first_name(rng)}", f"write to {words.first_name(rng)}", deed)
    )


_ITEMS: tuple[tuple[str, Callable[[random.Random], str]], ...] = (
    ("list", _shopping),
    ("shopping list", _shopping),
    ("list", words.first_name),
    ("list of names", words.first_name),
    ("guest list", words.full_name),
    ("list", words.place),
    ("list of towns", words.place),
    ("list", words.thing),
    ("list of words", lambda rng: rng.choice(words.ADJECTIVES)),
    ("list of colours", lambda rng: rng.choice(words.COLOURS)),
    ("to-do list", _chore),
    ("list", words.described),
    ("list of animals", lambda rng: rng.choice(words.ANIMALS)),
    ("list of jobs", lambda rng: rng.choice(words.JOBS)),
    ("list", lambda rng: f"{rng.choice(words.COLOURS)} {words.thing(rng)}"),
)
