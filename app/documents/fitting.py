"""Which pages of documents fit a model's context. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

ROOM = 0.75
"""The share of the context that is filled at most once something was left out: the reply takes the rest,
and not every message after it has to leave out more."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """The tokens of an attachment's pages, or of its text as one. ``chosen``: the pages that the user
    wants; None: as many as fit."""

    tokens: Sequence[int]
    paged: bool
    chosen: frozenset[int] | None = None

    def given(self, left_out: Sequence[int]) -> int:
        """Return the tokens that are given without these pages."""
        out = set(left_out)
        return sum(count for n, count in enumerate(self.tokens, 1) if n not in out)


@dataclass(frozen=True, slots=True)
class Fit:
    """The pages of each attachment that are left out, and the tokens that are still too many."""

    left_out: Sequence[tuple[int, ...]]
    over: int


def fitted(files: Sequence[Weighed], context: int, used: int) -> Fit:
    """Return what to leave out so that ``used`` tokens and files fill ``ROOM`` of ``context`` at most.

    Pages go from the end of whichever document is longest at the time; its first page stays. Where the
    user chose the pages, these are kept. A ``context`` of 0 is not known: nothing is left out.
    """
    ends = [len(each.tokens) for each in files]
    total = sum(each.given(_out(each, end)) for each, end in zip(files, ends, strict=True))
    room = int(ROOM * context) - used
    lengths = [sum(each.tokens) for each in files]
    free = [n for n, each in enumerate(files) if each.paged and each.chosen is None]
    while context and total > room:
        longer = [n for n in free if ends[n] > 1]
        if not longer:
            break
        longest = max(longer, key=lambda n: lengths[n])
        last = files[longest].tokens[ends[longest] - 1]
        ends[longest] -= 1
        lengths[longest] -= last
        total -= last
    return Fit(
        tuple(_out(each, end) for each, end in zip(files, ends, strict=True)),
        total + used - context if context else 0,
    )


def _out(file: Weighed, end: int) -> tuple[int, ...]:
    numbers = range(1, len(file.tokens) + 1)
    if file.chosen is not None:
        return tuple(n for n in numbers if n not in file.chosen)
    return tuple(n for n in numbers if n > end)


def pages_in(choice: str, count: int) -> frozenset[int]:
    """Return the pages of ``count`` that a text names, as "1-5, 12" or "7-"; none for any other text."""
    found: set[int] = set()
    for part in re.split(r"[,;\s]+", re.sub(r"\s*[-–]\s*", "-", choice.strip())):
        span = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6})?)?", part)
        if span is None:
            return frozenset()
        first = int(span[1])
        last = first if "-" not in part else int(span[2] or count)
        found |= set(range(first, min(last, count) + 1))
    return frozenset(n for n in found if 1 <= n <= count)
