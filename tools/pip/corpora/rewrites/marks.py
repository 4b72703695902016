"""Edits of what stands before and between lines: numbers, bullets, commas, line breaks."""

from __future__ import annotations

import random
from dataclasses import replace

from ..source_texts import Source
from .edit import SAY, Edit, is_list


def numbers(rng: random.Random, held_out: bool, source: Source) -> Edit | None:
    """Plain or marked lines become numbered ones."""
    if not is_list(source) or source.units[0].startswith("1"):
        return None
    wording = (SAY["bullets_to_numbers"] if source.mark else SAY["numbers"]).pick(rng, held_out)
    return Edit(wording, numbered(source, ")" if "1)" in wording else "."))


def numbered(source: Source, sign: str) -> Source:
    """The source with numbers before its lines: `1.` or `1)`."""
    units = [f"{number}{sign} {unit}" for number, unit in enumerate(source.units, 1)]
    return replace(source, units=tuple(units), mark="")


def is_numbered(source: Source) -> bool:
    """Whether the lines have numbers already."""
    return source.units[0].startswith(("1. ", "1) "))


def numbers_to_bullets(rng: random.Random, held_out: bool, source: Source) -> Edit | None:
    """Numbered lines become marked ones."""
    if not is_list(source) or not is_numbered(source):
        return None
    units = [unit.split(" ", 1)[1] for unit in source.units]
    return Edit(
        SAY["numbers_to_bullets"].pick(rng, held_out),
        replace(source, units=tuple(units), mark="- "),
    )


def bullets(rng: random.Random, held_out: bool, source: Source) -> Edit | None:
    """Plain lines become marked ones."""
    if not is_list(source) or source.mark or is_numbered(source):
        return None
    wording = SAY["bullets"].pick(rng, held_out)
    return Edit(wording, replace(source, mark="* " if '"* "' in wording else "- "))


def unmark(rng: random.Random, held_out: bool, source: Source) -> Edit | None:
    """Marked lines become plain ones."""
    if not source.mark:
        return None
    sign = "stars" if source.mark == "* " else rng.choice(("dashes", "bullets", "bullet marks"))
    return Edit(
        SAY["unmark"].pick(rng, held_out).format(this="{this}", sign=sign), replace(source, mark="")
    )


def commas(rng: random.Random, held_out: bool, source: Source) -> Edit | None:
    """A list in lines becomes one line, its items parted by commas."""
    if not is_list(source) or "list" not in source.doc or "," in source.text:
        return None
    line = ", ".join(source.units)
    return Edit(SAY["commas"].pick(rng, held_out), replace(source, units=(line,), mark=""))


def one_per_line(rng: random.Random, held_out: bool, source: Source) -> Edit | None:
    """The sentences of a paragraph become lines."""
    if source.by_line or len(source.units) < 2:
        return None
    return Edit(SAY["one_per_line"].pick(rng, held_out), replace(source, by_line=True))
