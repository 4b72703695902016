"""A kind of thing that records describe, and how the facts of one are told in a sentence."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from .. import words

Scalar = str | int | float | bool
Value = Scalar | list[str]
Maker = Callable[[random.Random], Value]
_LISTS = {"ingredients", "tags", "colours", "contents", "toys"}
_SLOT = re.compile(r"\{(\w+)(?:\?([^|}]*)\|([^}]*))?\}")


@dataclass(frozen=True)
class Field:
    """A fact: how its value is made, and by which other names people call it."""

    make: Maker
    synonyms: tuple[str, ...] = ()


@dataclass(frozen=True)
class Domain:
    """A kind of thing that records describe."""

    noun: str
    plural: str
    fields: Mapping[str, Field]
    sentences: tuple[str, ...]

    @property
    def flat(self) -> dict[str, Field]:
        """The fields with a single value."""
        return {key: field for key, field in self.fields.items() if key not in _LISTS}

    def key_for(self, rng: random.Random, field: str) -> str:
        """The field's own key, or one of the other names for it."""
        synonyms = self.fields[field].synonyms
        free = [name for name in synonyms if name not in self.fields]
        return rng.choice(free) if free and rng.random() < 0.15 else field


def told_fields(sentence: str) -> tuple[str, ...]:
    """The fields that a sentence tells, in order."""
    return tuple(dict.fromkeys(slot[0] for slot in _parts(sentence)))


def tell(sentence: str, record: Mapping[str, Value]) -> str:
    """The sentence with the facts of the record in it."""

    def spoken(slot: re.Match[str]) -> str:
        value = record[slot[1]]
        if isinstance(value, bool):
            return str(slot[2] if value else slot[3])
        return words.joined(value) if isinstance(value, list) else str(value)

    return words.fix_articles(_SLOT.sub(spoken, sentence))


@cache
def _parts(sentence: str) -> tuple[tuple[str, str, str], ...]:
    return tuple(_SLOT.findall(sentence))


def scalar(value: object) -> Scalar:
    """The value of a field of `Domain.flat`."""
    assert isinstance(value, str | int | float | bool)
    return value
