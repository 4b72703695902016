"""Facts of all domains under any of their names, and how people say them."""

from __future__ import annotations

import random

from .. import words
from .domains import DOMAINS
from .states import Json, as_json

_BOOLEAN_WORDS = (("yes", "no"), ("yes", "no"), ("true", "false"))


def loose_facts(rng: random.Random) -> tuple[str, dict[str, Json]]:
    """Some fields of one domain, or of several, under one of their names."""
    domain = rng.choice(DOMAINS)
    if rng.random() < 0.8:
        fields = rng.sample(list(domain.fields), rng.randint(2, min(5, len(domain.fields))))
        return domain.noun, {
            domain.key_for(rng, key): as_json(domain.fields[key].make(rng)) for key in fields
        }
    found: dict[str, Json] = {}
    for other in rng.sample(DOMAINS, rng.randint(2, 4)):
        key = rng.choice(list(other.fields))
        found[other.key_for(rng, key)] = as_json(other.fields[key].make(rng))
    return ("record", found) if len(found) > 1 else loose_facts(rng)


def any_fact(rng: random.Random) -> tuple[str, Json]:
    """A key and a single value from any domain."""
    domain = rng.choice(DOMAINS)
    key = rng.choice(list(domain.flat))
    return domain.key_for(rng, key), as_json(domain.fields[key].make(rng))


def spoken(rng: random.Random, value: Json) -> str:
    """A value as it is told beside its key."""
    if isinstance(value, bool):
        return rng.choice(_BOOLEAN_WORDS)[0 if value else 1]
    return words.joined([str(one) for one in value]) if isinstance(value, list) else str(value)


def spoken_key(rng: random.Random, key: str) -> str:
    """The key as it is or in words: `due_date` or `due date`."""
    return key if rng.random() < 0.4 else key.replace("_", " ")
