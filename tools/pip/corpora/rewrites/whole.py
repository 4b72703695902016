"""Edits of the whole text alike: its case, or nothing at all."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from ..phrasings import Phrasings
from ..source_texts import Source
from .edit import SAY, Edit, Editor, mapped


def cased(wordings: Phrasings, change: Callable[[str], str]) -> Editor:
    """An editor that changes the case of every letter; None for a text that is so already."""

    def edit(rng: random.Random, held_out: bool, source: Source) -> Edit | None:
        result = mapped(source, change)
        return None if result == source else Edit(wordings.pick(rng, held_out), result)

    return edit


def title(text: str) -> str:
    """The text with a capital at the start of every word."""
    return re.sub(r"(?<!\S)\W*\w", lambda found: found[0].upper(), text)


def repeat(rng: random.Random, held_out: bool, source: Source) -> Edit:
    """The text as it is."""
    return Edit(SAY["repeat"].pick(rng, held_out), source)
