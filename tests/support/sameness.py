"""Bit equality (design.md, level 3) as checks that any model of the engine must pass.

A position's logits may depend on the text before it and on nothing else: not on how many rows are
computed together, nor on what was rolled back, nor on how the prompt was cut.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import cast

import torch

from engine.models.base import Model, TappableModel, TreeCache, TreeModel
from engine.models.hidden_states import NORMED, Features, entering

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

    A follow-up finds tokens in the cache that were decoded, not prefilled. At most 20 parts have one
    size; what comes before them is one part. Raises AssertionError.
    """
    prompt, last = text[:-10], text[-10:]
    expected = None
    for size in sizes:
        cache, begin = model.new_cache(_ROOM), max(len(prompt) - 20 * size, 0)
        if begin:
            model.forward(prompt[:begin], cache, last=0)
        for at in range(begin, len(prompt), size):
            model.forward(prompt[at : at + size], cache, last=0)
        found = model.forward(last, cache, last=10)
        expected = found if expected is None else expected
        assert torch.equal(found, expected), f"prefilled {size} at a time"


def check_tree(model: Model, text: Sequence[int], seed: int) -> None:
    """A row of a tree has the bits of its branch alone, before and after some of the tree is kept.

    Logits and hidden states; random trees of up to 16 rows behind ``text``, one after the other.
    Raises AssertionError.
    """
    assert isinstance(model, TreeModel) and isinstance(model, TappableModel)
    chance = random.Random(seed)
    taps = (*entering(0, model.info.layers), NORMED)
    cache, alone = model.new_cache(_ROOM, taps), model.new_cache(_ROOM, taps)
    model.forward(text, cache, last=0)
    model.forward(text, alone, last=0)
    for _ in range(6):
        rows = chance.randint(2, _MOST_ROWS)
        parents = [-1, *(chance.randrange(max(0, row - 4), row) for row in range(1, rows))]
        tokens = [chance.randrange(model.info.vocabulary) for _ in range(rows)]
        start = cache.length
        together = model.forward_tree(tokens, parents, cache)
        assert cache.length == start
        for row in range(rows):
            branch = _ancestors(parents, row)
            expected = model.forward([tokens[each] for each in branch], alone, last=1)
            assert torch.equal(together[row : row + 1], expected), f"row {row} of {parents} differs"
            alone.crop(start)
        kept = _ancestors(parents, chance.randrange(rows))
        cast(TreeCache, cache).commit(kept)
        model.forward([tokens[each] for each in kept], alone, last=0)
        assert cache.length == alone.length
        assert torch.equal(_rows(cache.features, cache.length), _rows(alone.features, cache.length))


def _ancestors(parents: Sequence[int], row: int) -> list[int]:
    """Rows from the root down to ``row``."""
    found = []
    while row >= 0:
        found.append(row)
        row = parents[row]
    return found[::-1]


def _rows(features: Features | None, length: int) -> torch.Tensor:
    assert features is not None
    return features.rows[:, :length]
