"""Bit equality (design.md, level 3) as checks that any model of the engine must pass.

A position's logits may depend on the text before it and on nothing else: not on how many rows are
computed together, nor on what was rolled back, nor on how the prompt was cut.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from engine.models.base import Model

_ROOM = 512  # positions in the caches; every text here is shorter
_MOST_ROWS = 16


def check_rows(model: Model, text: Sequence[int], start: int) -> None:
    """1 to 16 rows behind ``start`` have the bits of rows computed alone. Raises AssertionError.

    ``text`` reaches 16 tokens beyond ``start``.
    """
    cache = model.new_cache(_ROOM)
    model.forward(text[:start], cache, last=0)
    behind = text[start : start + _MOST_ROWS]
    alone = torch.cat([model.forward([token], cache, last=1) for token in behind])
    for rows in range(1, _MOST_ROWS + 1):
        cache.crop(start)
        together = model.forward(behind[:rows], cache, last=rows)
        assert torch.equal(together, alone[:rows]), f"{rows} rows behind {start} differ"


def check_rollback(model: Model, text: Sequence[int], rejected: Sequence[Sequence[int]]) -> None:
    """Rounds whose drafts (``rejected``, 15 tokens each) all failed leave no trace in later logits.

    ``text`` has 20 tokens more than the prompt that is prefilled first. Raises AssertionError.
    """
    used, fresh = model.new_cache(_ROOM), model.new_cache(_ROOM)
    start = len(text) - 20
    model.forward(text[:start], used, last=0)
    for drafted in rejected:
        at = used.length
        model.forward([text[at], *drafted], used, last=len(drafted) + 1)
        used.crop(at + 1)
    at = used.length
    model.forward(text[:at], fresh, last=0)
    rest = text[at:]
    assert torch.equal(
        model.forward(rest, used, last=len(rest)), model.forward(rest, fresh, last=len(rest))
    ), "a rollback changed later logits"


def check_parts(model: Model, text: Sequence[int], sizes: Sequence[int]) -> None:
    """The last ten rows have the same bits however the prompt before them was cut.

    A follow-up finds tokens in the cache that were decoded, not prefilled. Raises AssertionError.
    """
    prompt, last = text[:-10], text[-10:]
    expected = None
    for size in sizes:
        cache = model.new_cache(_ROOM)
        for at in range(0, len(prompt), size):
            model.forward(prompt[at : at + size], cache, last=0)
        found = model.forward(last, cache, last=10)
        expected = found if expected is None else expected
        assert torch.equal(found, expected), f"prefilled {size} at a time"
