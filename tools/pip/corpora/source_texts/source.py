"""A text to rewrite, and who and what it is about."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from .. import words


@dataclass(frozen=True)
class Cast:
    """Who and what a text is about; the same in all its sentences."""

    person: str
    other: str
    place: str
    thing: str


def make_cast(rng: random.Random) -> Cast:
    """Two people, a place and a thing that share no word."""
    person, other = words.first_name(rng), words.first_name(rng)
    if person == other:
        return make_cast(rng)
    return Cast(person, other, words.place(rng), words.thing(rng))


@dataclass(frozen=True)
class Source:
    """A text as its units: the lines of a text in lines, or the sentences of a single paragraph.

    `doc` is what a person would call it ("note"). `mark` stands before every line, as "- " in a list.
    """

    doc: str
    units: tuple[str, ...]
    cast: Cast
    by_line: bool
    mark: str = ""

    @property
    def text(self) -> str:
        """The text as people see it."""
        return ("\n" if self.by_line else " ").join(self.mark + unit for unit in self.units)

    def with_units(self, units: list[str] | tuple[str, ...]) -> Source:
        """The same text with other lines or sentences."""
        return replace(self, units=tuple(units))
