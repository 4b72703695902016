"""Word banks for the training texts, and the small grammar that goes with them.

The words stand in `words.yaml`. Names are in part made up on the spot, so that a small model has to copy what it reads.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from pathlib import Path

from tools.pip.corpora import yaml_file


def bank(entry: str | Sequence[str]) -> tuple[str, ...]:
    """The words of one entry of a YAML file: a block of words, or a list where they are of several words."""
    return tuple(entry.split()) if isinstance(entry, str) else tuple(entry)


_BANKS = {
    name: bank(entry) for name, entry in yaml_file.read(Path(__file__).with_suffix(".yaml")).items()
}

FIRST_NAMES = _BANKS["first_names"]
LAST_NAMES = _BANKS["last_names"]
PLACES = _BANKS["places"]
STREETS = _BANKS["streets"]
STREET_ENDS = _BANKS["street_ends"]

HOUSEHOLD = _BANKS["household"]
TOOLS = _BANKS["tools"]
FOODS = _BANKS["foods"]
CLOTHES = _BANKS["clothes"]
TOYS = _BANKS["toys"]
OFFICE = _BANKS["office"]
GARDEN = _BANKS["garden"]
ANIMALS = _BANKS["animals"]
VEHICLES = _BANKS["vehicles"]
BUILDINGS = _BANKS["buildings"]
THINGS: tuple[str, ...] = tuple(
    dict.fromkeys(HOUSEHOLD + TOOLS + FOODS + CLOTHES + TOYS + OFFICE + GARDEN + ANIMALS + VEHICLES)
)
"""Countable things that a person may carry, buy, lose or draw."""
NOUNS: tuple[str, ...] = tuple(dict.fromkeys(THINGS + BUILDINGS))

ADJECTIVES = _BANKS["adjectives"]
COLOURS = _BANKS["colours"]
JOBS = _BANKS["jobs"]
HOBBIES = _BANKS["hobbies"]
INGREDIENTS = _BANKS["ingredients"]
DISHES = _BANKS["dishes"]
SUBJECTS = _BANKS["subjects"]
WEEKDAYS = _BANKS["weekdays"]
MONTHS = _BANKS["months"]

VERBS_PAST = _BANKS["verbs_past"]
VERBS_BASE = _BANKS["verbs_base"]
ADVERBS = _BANKS["adverbs"]
SPOTS = _BANKS["spots"]

_NAME_STARTS = _BANKS["name_starts"]
_NAME_MIDDLES = _BANKS["name_middles"]
_NAME_ENDS = _BANKS["name_ends"]
_PLACE_ENDS = _BANKS["place_ends"]

_IRREGULAR_PLURALS = {
    "knife": "knives", "shelf": "shelves", "scarf": "scarves", "leaf": "leaves", "loaf": "loaves", "wolf": "wolves",
    "calf": "calves", "mouse": "mice", "goose": "geese", "tomato": "tomatoes", "potato": "potatoes", "dice": "dice",
    "deer": "deer", "moose": "moose", "salmon": "salmon", "trout": "trout", "pike": "pike", "mango": "mangoes",
    "cactus": "cactuses", "chassis": "chassis",
}  # fmt: skip
_SOUNDS_LIKE_CONSONANT = ("uni", "use", "uku", "eu", "one")
_ARTICLE = re.compile(r"\b([Aa])n? (?=(\w+))")


def plural(noun: str) -> str:
    """The plural of a noun of the banks."""
    if noun in _IRREGULAR_PLURALS:
        return _IRREGULAR_PLURALS[noun]
    if noun.endswith(("s", "x", "z", "ch", "sh")):
        return noun + "es"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + "s"


def takes_an(word: str) -> bool:
    """Whether the indefinite article before this word is "an"."""
    lower = word.lower()
    if lower.startswith(("hour", "honest", "8", "11", "18")):
        return True
    return lower[:1] in tuple("aeiou") and not lower.startswith(_SOUNDS_LIKE_CONSONANT)


def with_article(phrase: str) -> str:
    """The phrase with "a" or "an" before it."""
    return f"{'an' if takes_an(phrase) else 'a'} {phrase}"


def fix_articles(text: str) -> str:
    """Text with every "a" and "an" fitted to the word that follows."""
    return _ARTICLE.sub(lambda found: found[1] + ("n " if takes_an(found[2]) else " "), text)


def first_name(rng: random.Random) -> str:
    """A first name, every eighth one made up."""
    if rng.random() < 0.875:
        return rng.choice(FIRST_NAMES)
    middle = rng.choice(_NAME_MIDDLES) if rng.random() < 0.5 else ""
    return rng.choice(_NAME_STARTS) + middle + rng.choice(_NAME_ENDS)


def full_name(rng: random.Random) -> str:
    """A first and a last name."""
    return f"{first_name(rng)} {rng.choice(LAST_NAMES)}"


def place(rng: random.Random) -> str:
    """The name of a town, every eighth one made up."""
    if rng.random() < 0.875:
        return rng.choice(PLACES)
    return (
        rng.choice(_NAME_STARTS) + rng.choice(("", "a", "en", "er", "o")) + rng.choice(_PLACE_ENDS)
    )


def street(rng: random.Random) -> str:
    """A street name without a house number."""
    return f"{rng.choice(STREETS)} {rng.choice(STREET_ENDS)}"


def thing(rng: random.Random) -> str:
    """A countable thing, singular, without an article."""
    return rng.choice(THINGS)


def described(rng: random.Random) -> str:
    """A thing with an adjective or a colour: `rusty lamp`."""
    return f"{rng.choice(ADJECTIVES if rng.random() < 0.7 else COLOURS)} {thing(rng)}"


def clock_time(rng: random.Random) -> str:
    """A time of day on the 24 hour clock: `14:30`."""
    return (
        f"{rng.randint(7, 21)}:{rng.choice(('00', '05', '10', '15', '20', '30', '40', '45', '50'))}"
    )


def day_of_year(rng: random.Random) -> str:
    """A day and month: `12 May`."""
    return f"{rng.randint(1, 28)} {rng.choice(MONTHS)}"


def iso_date(rng: random.Random) -> str:
    """A full date: `2025-03-09`."""
    return f"{rng.randint(2019, 2031)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"


def price(rng: random.Random) -> float:
    """An amount with cents that ends in no zero, so that there is one way to write it."""
    return round(rng.randint(1, 89) + rng.choice((25, 35, 45, 49, 55, 65, 75, 85, 95, 99)) / 100, 2)


def code(rng: random.Random) -> str:
    """A mark such as `KD-482`."""
    letters = "".join(rng.choice("ABCDEFGHJKLMNPRSTVWXZ") for _ in range(rng.randint(1, 2)))
    return f"{letters}-{rng.randint(10, 9999)}"


def phone(rng: random.Random) -> str:
    """A telephone number: `555-0134`."""
    return f"{rng.randint(201, 989)}-{rng.randint(0, 9999):04}"


def joined(items: Sequence[str], last: str = "and") -> str:
    """`a, b and c`."""
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} {last} {items[-1]}"
