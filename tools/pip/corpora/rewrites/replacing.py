"""Edits that put one name, word or value in place of another."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from .. import source_texts, words
from ..source_texts import Source
from .edit import SAY, Edit, fresh, mapped


def rename_person(rng: random.Random, held_out: bool, source: Source) -> Edit | None:
    """Another first name for the person whom the text is about."""
    old = source.cast.person
    if not _has_word(source.text, old):
        return None
    new = fresh(rng, words.first_name, source.text)
    wording = SAY["rename_person"].pick(rng, held_out).format(this="{this}", old=old, new=new)
    renamed = mapped(source, lambda unit: _swapped(unit, old, new))
    return Edit(wording, replace(renamed, cast=replace(source.cast, person=new)))


def rename_place(rng: random.Random, held_out: bool, source: Source) -> Edit | None:
    """Another name for the town that the text is about."""
    old = source.cast.place
    if not _has_word(source.text, old):
        return None
    new = fresh(rng, words.place, source.text)
    wording = SAY["rename_place"].pick(rng, held_out).format(this="{this}", old=old, new=new)
    renamed = mapped(source, lambda unit: _swapped(unit, old, new))
    return Edit(wording, replace(renamed, cast=replace(source.cast, place=new)))


def replace_word(rng: random.Random, held_out: bool, source: Source) -> Edit | None:
    """Another thing in place of the one that the text is about, with the same article."""
    old, text = source.cast.thing, source.text.lower()
    if not _has_word(source.text, old) or text.count(old) != len(
        re.findall(rf"\b{re.escape(old)}\b", source.text)
    ):
        return None
    new = fresh(rng, words.thing, source.text)
    if words.takes_an(old) != words.takes_an(new):
        return None
    wording = SAY["replace_word"].pick(rng, held_out).format(this="{this}", old=old, new=new)
    replaced = mapped(source, lambda unit: _swapped(unit, old, new))
    return Edit(wording, replace(replaced, cast=replace(source.cast, thing=new)))


def _swapped(text: str, old: str, new: str) -> str:
    """Text with a whole word or phrase replaced everywhere."""
    return re.sub(rf"(?<!\w){re.escape(old)}(?!\w)", lambda _: new, text)


def _has_word(text: str, word: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None


@dataclass(frozen=True)
class _ValueKind:
    label: str
    pattern: re.Pattern[str]
    make: Callable[[random.Random], str]


_VALUE_KINDS = (
    _ValueKind(
        "price",
        re.compile(r"\b\d+(?:\.\d\d)? (?:euros|dollars|crowns|pounds)\b"),
        source_texts.amount,
    ),
    _ValueKind("date", re.compile(rf"\b\d+ (?:{'|'.join(words.MONTHS)})\b"), words.day_of_year),
    _ValueKind("time", re.compile(r"\b\d+:\d\d\b"), words.clock_time),
    _ValueKind("day", re.compile("|".join(words.WEEKDAYS)), lambda rng: rng.choice(words.WEEKDAYS)),
    _ValueKind("phone number", re.compile(r"\b\d{3}-\d{4}\b"), words.phone),
    _ValueKind("code", re.compile(r"\b[A-Z]{1,2}-\d+\b"), words.code),
)
_PLAIN_NUMBER = _ValueKind(
    "number",
    re.compile(r"(?<![\d.:-])\d+(?![\d.:-])(?! (?:euros|dollars|crowns|pounds|[A-Z]))"),
    lambda rng: str(rng.randint(2, 60)),
)


def change_value(rng: random.Random, held_out: bool, source: Source) -> Edit | None:
    """A price, date, time, day or number that stands once in the text, told with its old value."""
    found = [
        (kind, value)
        for kind in (*_VALUE_KINDS, _PLAIN_NUMBER)
        for value in set(kind.pattern.findall(source.text))
    ]
    found = sorted(
        ((kind, value) for kind, value in found if source.text.count(value) == 1),
        key=lambda one: one[1],
    )
    if not found:
        return None
    kind, old = rng.choice(found)
    new = fresh(rng, kind.make, source.text)
    wording = (
        SAY["change_value"]
        .pick(rng, held_out)
        .format(this="{this}", old=old, new=new, label=kind.label)
    )
    return Edit(wording, mapped(source, lambda unit: unit.replace(old, new)))
