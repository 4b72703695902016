"""Bit equality (design.md, level 3) as checks that any model of the engine must pass.

A position's logits may depend on the text before it and on nothing else: not on how many rows are
computed together, nor on what was rolled back, nor on how the prompt was cut.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch

from engine.models.base import BatchModel, Entry, HiddenStateModel, Model, TreeModel
from engine.models.hidden_states import NORMED, AuxHiddenStates, entering
from engine.models.sequence_state import SequenceState

_ROOM = 512  # positions in the caches; every text here is shorter
_MOST_ROWS = 16
_TREES = 6


def check_rows(model: Model, text: Sequence[int], start: int) -> None:
    """1 to 16 rows behind ``start`` have the bits of rows computed alone. Raises AssertionError.

    ``text`` reaches 16 tokens beyond ``start``.
    """
    state, other = model.new_state(_ROOM), model.new_state(_ROOM)
    model.forward(text[:start], state, last=0)
    model.forward(text[:start], other, last=0)
    behind = text[start : start + _MOST_ROWS]
    alone = torch.cat([model.forward([token], other, last=1) for token in behind])
    for rows in range(1, _MOST_ROWS + 1):
        together = model.forward(behind[:rows], state, last=rows, final=False)
        state.commit(())
        assert torch.equal(together, alone[:rows]), f"{rows} rows behind {start} differ"


def go_back(model: Model, state: SequenceState, text: Sequence[int], length: int) -> None:
    """Rewind to ``length`` tokens of ``text``, or as far as the state can and read the rest again."""
    reached = state.reachable(length)
    state.rewind(reached)
    if reached < length:
        model.forward(text[reached:length], state, last=0)


def check_rollback(model: Model, text: Sequence[int], rejected: Sequence[Sequence[int]]) -> None:
    """Rounds whose drafts (``rejected``, 15 tokens each) all failed leave no trace in later logits.

    ``text`` has 20 tokens more than the prompt that is prefilled first. Raises AssertionError.
    """
    used, fresh = model.new_state(_ROOM), model.new_state(_ROOM)
    start = len(text) - 20
    model.forward(text[:start], used, last=0)
    for drafted in rejected:
        at = used.length
        model.forward([text[at], *drafted], used, last=len(drafted) + 1, final=False)
        used.commit([0])
    at = used.length
    model.forward(text[:at], fresh, last=0)
    rest = text[at:]
    assert torch.equal(
        model.forward(rest, used, last=len(rest)), model.forward(rest, fresh, last=len(rest))
    ), "a rollback changed later logits"


def check_parts(model: Model, text: Sequence[int], sizes: Sequence[int]) -> None:
    """The last ten rows have the same bits however the prompt before them was cut.

    A follow-up finds tokens in the cache that were decoded, not prefilled. At most 10 parts have one
    size; what comes before them is one part. Raises AssertionError.
    """
    prompt, last = text[:-10], text[-10:]
    expected = None
    for size in sizes:
        cache, begin = model.new_state(_ROOM), max(len(prompt) - 10 * size, 0)
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
    assert isinstance(model, TreeModel) and isinstance(model, HiddenStateModel)
    chance = random.Random(seed)
    aux_layers = (*entering(0, model.info.layers), NORMED)
    cache, alone = model.new_state(_ROOM, aux_layers), model.new_state(_ROOM, aux_layers)
    model.forward(text, cache, last=0)
    model.forward(text, alone, last=0)
    for _ in range(_TREES):
        rows = chance.randint(2, _MOST_ROWS)
        parents = [-1, *(chance.randrange(max(0, row - 4), row) for row in range(1, rows))]
        tokens = [chance.randrange(model.info.vocabulary) for _ in range(rows)]
        start = cache.length
        together = model.forward_tree(tokens, parents, cache)
        assert cache.length == start
        for row in range(rows):
            branch = _ancestors(parents, row)
            each_token = [tokens[each] for each in branch]
            expected = model.forward(each_token, alone, last=1, final=False)
            assert torch.equal(together[row : row + 1], expected), f"row {row} of {parents} differs"
            alone.commit(())
        kept = _ancestors(parents, chance.randrange(rows))
        cache.commit(kept)
        model.forward([tokens[each] for each in kept], alone, last=0)
        assert cache.length == alone.length
        assert torch.equal(_rows(cache.aux, cache.length), _rows(alone.aux, cache.length))


def check_together(model: Model, seed: int) -> None:
    """Rows of several sequences in one pass have the bits they have alone: logits, caches' and hidden
    states, of texts of all lengths, chains and trees, beside a part of somebody's prompt.

    Raises AssertionError.
    """
    assert isinstance(model, BatchModel) and isinstance(model, HiddenStateModel)
    chance = random.Random(seed)
    aux_layers = (*entering(0, model.info.layers), NORMED)

    def text(count: int) -> list[int]:
        return [chance.randrange(model.info.vocabulary) for _ in range(count)]

    lengths = [0, 1, 15, 16, 17, 63, 64, 200, *(chance.randrange(300) for _ in range(4))]
    caches = [
        (model.new_state(_ROOM, aux_layers), model.new_state(_ROOM, aux_layers)) for _ in lengths
    ]
    for length, both in zip(lengths, caches, strict=True):
        tokens = text(length)
        for cache in both:
            if tokens:
                model.forward(tokens, cache, last=0)
    for _ in range(8):
        parts, room = list[Entry](), _MOST_ROWS
        chosen = chance.sample(range(len(caches)), chance.randint(2, len(caches)))
        reader = chosen.pop()
        for at in chosen:
            rows = chance.choice((1, 1, 1, 2, 5))
            if rows > room:
                break
            room -= rows
            parents = None
            if rows > 2 and chance.random() < 0.5:
                parents = [-1, *(chance.randrange(row) for row in range(1, rows))]
            parts.append(Entry(text(rows), caches[at][0], parents))
        left = _ROOM - caches[reader][0].length - 100
        most = model.batch_rows - _MOST_ROWS if chance.random() < 0.5 else 3
        read = text(max(1, min(most, left)))
        parts.insert(chance.randint(0, len(parts)), Entry(read, caches[reader][0], final=True))
        twins = {id(cache): alone for cache, alone in caches}
        for part, logits in zip(parts, model.forward_batch(parts), strict=True):
            alone = twins[id(part.state)]
            _check_part(model, part, logits, alone)
            kept = chance.randint(1, len(part.tokens))
            if not part.final:
                path = _ancestors(part.parents, kept - 1) if part.parents else range(kept)
                part.state.commit(path)
                alone.commit(path)
    for together, alone in caches:
        assert together.length == alone.length
        aux = _rows(together.aux, together.length)
        assert torch.equal(aux, _rows(alone.aux, alone.length))
        if together.length + 1 < _ROOM:
            last = [model.forward([7], cache, last=1) for cache in (together, alone)]
            assert torch.equal(*last), "a shared pass left something else in a cache"


def _check_part(model: Model, part: Entry, logits: torch.Tensor, alone: SequenceState) -> None:
    if part.parents is not None:
        assert isinstance(model, TreeModel)
        expected = model.forward_tree(part.tokens, part.parents, alone)
    else:
        rows = len(part.tokens) * (not part.final)
        expected = model.forward(part.tokens, alone, last=rows, final=part.final)
    assert torch.equal(logits, expected), f"{len(part.tokens)} rows differ beside others"


def _ancestors(parents: Sequence[int], row: int) -> list[int]:
    """Rows from the root down to ``row``."""
    found = []
    while row >= 0:
        found.append(row)
        row = parents[row]
    return found[::-1]


def _rows(aux: AuxHiddenStates | None, length: int) -> torch.Tensor:
    assert aux is not None
    return aux.rows[:, :length]
