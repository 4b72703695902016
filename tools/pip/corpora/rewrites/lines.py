"""Edits that add, drop or reorder lines and sentences."""

from __future__ import annotations

import random
from dataclasses import replace

from .. import source_texts, words
from ..source_texts import Source
from .edit import SAY, Edit, fresh, is_list, unit_of

_COUNTS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight")


def reverse(rng: random.Random, held_out: bool, source: Source) -> Edit | None:
    """The lines in reverse order."""
    if not is_list(source):
        return None
    wording = SAY["reverse"].pick(rng, held_out).format(this="{this}", unit=unit_of(source))
    return Edit(wording, source.with_units(source.units[::-1]))


def keep_first(rng: random.Random, held_out: bool, source: Source) -> Edit | None:
    """The first lines or sentences, at least two, and not all of them."""
    if len(source.units) < 3:
        return None
    count = rng.randint(2, min(len(source.units) - 1, len(_COUNTS) - 1))
    wording = (
        SAY["keep_first"]
        .pick(rng, held_out)
        .format(this="{this}", count=_COUNTS[count], unit=unit_of(source) + "s")
    )
    return Edit(wording, source.with_units(source.units[:count]))


def add_first(rng: random.Random, held_out: bool, source: Source) -> Edit:
    """One more line or sentence at the top."""
    new = _new_unit(rng, source)
    wording = (
        SAY["add_first"].pick(rng, held_out).format(this="{this}", unit=unit_of(source), new=new)
    )
    return Edit(wording, source.with_units((new, *source.units)))


def add_last(rng: random.Random, held_out: bool, source: Source) -> Edit:
    """One more line or sentence at the end."""
    new = _new_unit(rng, source)
    wording = (
        SAY["add_last"].pick(rng, held_out).format(this="{this}", unit=unit_of(source), new=new)
    )
    return Edit(wording, source.with_units((*source.units, new)))


def _new_unit(rng: random.Random, source: Source) -> str:
    """A line to add to a list, or a sentence without quotation marks."""
    if "list" in source.doc:
        columns = source.units[0].count(",") + 1
        return ",".join(fresh(rng, words.thing, source.text) for _ in range(columns))
    if source_texts.read_config(source):
        return f"# {words.described(rng)}"
    bank = source_texts.BANKS["recipe" if source.doc == "recipe" else "note"]
    return source_texts.fill(rng, rng.choice(bank.templates), source.cast)


def add_greeting(rng: random.Random, held_out: bool, source: Source) -> Edit:
    """The text as lines, with a greeting before them."""
    line = source_texts.greeting(rng)
    wording = SAY["add_greeting"].pick(rng, held_out).format(this="{this}", new=line)
    return Edit(wording, replace(source, units=(line, *_lines_of(source)), mark="", by_line=True))


def add_sign_off(rng: random.Random, held_out: bool, source: Source) -> Edit:
    """The text as lines, with a sign-off behind them."""
    line = source_texts.closing(rng)
    wording = SAY["add_sign_off"].pick(rng, held_out).format(this="{this}", new=line)
    return Edit(wording, replace(source, units=(*_lines_of(source), line), mark="", by_line=True))


def _lines_of(source: Source) -> list[str]:
    return source.text.split("\n")
