"""The texts that the edits are asked for."""

from __future__ import annotations

import random
from dataclasses import replace

from .. import source_texts
from ..source_texts import Source
from .marks import numbered


def about_person(rng: random.Random) -> Source:
    """A text that names a person."""
    return _story(rng, "A")


def about_place(rng: random.Random) -> Source:
    """A text that names a town."""
    return _story(rng, "P")


def about_thing(rng: random.Random) -> Source:
    """A text that names a thing."""
    return _story(rng, "K")


def _story(rng: random.Random, about: str) -> Source:
    doc = rng.choice(("note", "letter", "tale", "minutes"))
    count = rng.choice((2, 3, 3, 4, 4, 5))
    return (
        source_texts.letter(rng, count, about)
        if doc == "letter"
        else source_texts.prose(rng, doc, count, about)
    )


def any_text(rng: random.Random) -> Source:
    """A text of any kind."""
    roll = rng.random()
    if roll < 0.5:
        return _story(rng, rng.choice("ABPK"))
    if roll < 0.65:
        return source_texts.prose(rng, "recipe", rng.randint(2, 4))
    if roll < 0.75:
        return source_texts.config(rng, rng.randint(2, 5)).source(rng)
    return lines(rng)


def short_text(rng: random.Random) -> Source:
    """A text of less than 200 characters."""
    source = any_text(rng)
    return source if len(source.text) < 200 else short_text(rng)


def lines(rng: random.Random) -> Source:
    """Something in lines: a list, values, a recipe, minutes or settings."""
    roll = rng.random()
    if roll < 0.5:
        return source_texts.item_list(rng, rng.randint(3, 6))
    if roll < 0.55:
        return source_texts.rows(rng, rng.randint(2, 4))
    if roll < 0.7:
        return source_texts.config(rng, rng.randint(2, 5)).source(rng)
    doc = rng.choice(("recipe", "minutes", "note"))
    return replace(source_texts.prose(rng, doc, rng.randint(2, 4)), by_line=True, mark="")


def plain_list(rng: random.Random) -> Source:
    """A list without marks."""
    return source_texts.item_list(rng, rng.randint(3, 6))


def numbered_lines(rng: random.Random) -> Source:
    """Something in lines, with numbers before them."""
    return numbered(replace(lines(rng), mark=""), rng.choice(".)"))


def marked_lines(rng: random.Random) -> Source:
    """Something in lines, with dashes or stars before them."""
    return replace(lines(rng), mark=rng.choice(("- ", "- ", "* ")))


def sentences(rng: random.Random) -> Source:
    """A paragraph."""
    doc = rng.choice(("note", "tale", "minutes", "recipe"))
    return replace(
        source_texts.prose(rng, doc, rng.randint(2, 4), rng.choice("AP")), by_line=False, mark=""
    )


def units_text(rng: random.Random) -> Source:
    """Something in lines, or a paragraph."""
    return lines(rng) if rng.random() < 0.6 else sentences(rng)


def message_text(rng: random.Random) -> Source:
    """A note, to which a greeting and a sign-off can be added."""
    return source_texts.prose(rng, "note", rng.randint(2, 4), rng.choice("AP"))


def settings(rng: random.Random) -> Source:
    """A file of settings."""
    return source_texts.config(rng, rng.randint(2, 5)).source(rng)
