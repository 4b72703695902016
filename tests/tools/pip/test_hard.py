"""Which documents the target goes on learning from."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch

from tests.tools.pip.conftest import document
from tools.pip.data import Batch, batches
from tools.pip.hard import MOST_UNSURE, Tally, documents_of, hard
from tools.pip.recipe import RowsStage
from tools.pip.tokenizer import Document

ROWS = RowsStage(lengths=(32, 64), micro_tokens=128, block_tokens=1024)
KNOWN, NEARLY, HOPELESS = 5, 6, 7
"""First tokens that tell ``Knowing`` how well it knows a document."""


class Knowing:
    """Stands for a network: unsure nowhere, once or everywhere, as a document's first token says."""

    device, dtype = torch.device("cpu"), torch.float32

    def __init__(self, made: Batch) -> None:
        self._made = made

    def chances(self, inputs: Any) -> torch.Tensor:
        tokens, numbers = self._made.tokens, self._made.documents
        found, seen = [], set()
        for position in inputs.learned.tolist():
            row, at = divmod(position, tokens.shape[1])
            start = int(np.flatnonzero(numbers[row] == numbers[row, at])[0])
            kind, first = int(tokens[row, start]), (row, start) not in seen
            seen.add((row, start))
            found.append(0.1 if kind == HOPELESS or (kind == NEARLY and first) else 0.99)
        return torch.tensor(found)


class Each:
    """A network for a stream of batches: each is looked at with the batch at hand."""

    device, dtype = Knowing.device, Knowing.dtype

    def __init__(self, stream: list[Batch]) -> None:
        self._stream = iter(stream)

    def chances(self, inputs: Any) -> torch.Tensor:
        return Knowing(next(self._stream)).chances(inputs)


def made_of(*kinds: int, seed: int = 1) -> list[Batch]:
    rng = random.Random(seed)
    documents = [document(rng.randrange(20, 32), first=20 + n) for n in range(len(kinds))]
    marked = [
        Document([kind, *entry.tokens[1:]], entry.learned)
        for kind, entry in zip(kinds, documents, strict=True)
    ]
    return batches(marked, ROWS, pad=0, rng=rng)


def kept(stream: list[Batch], share: float) -> tuple[list[int], Tally]:
    """First tokens of what is learned from."""
    tally = Tally()
    network: Any = Each(stream)
    made = list(hard(iter(stream), network, ROWS, 0, lambda: share, tally))
    return [entry.tokens[0] for part in made for entry in documents_of(part)], tally


def test_documents_come_back_as_they_were_packed() -> None:
    rng = random.Random(3)
    documents = [document(rng.randrange(4, 60), first=rng.randrange(300)) for _ in range(60)]
    found = [entry for part in batches(documents, ROWS, 0, rng) for entry in documents_of(part)]
    assert len(found) > 40
    assert all(entry in documents for entry in found)


def test_with_a_share_of_one_batches_pass_unseen() -> None:
    stream = made_of(*[KNOWN] * 40)
    network: Any = None  # would fail if it were asked
    assert list(hard(iter(stream), network, ROWS, 0, lambda: 1.0, Tally())) == stream


def test_only_what_is_nearly_known_is_learned_from() -> None:
    stream = made_of(*[KNOWN, NEARLY, HOPELESS] * 200)
    learned = [sum(entry.learned) for part in stream for entry in documents_of(part)]
    assert min(learned) > MOST_UNSURE
    found, tally = kept(stream, 0.0)
    assert set(found) == {NEARLY}
    assert tally.looked == sum(len(documents_of(part)) for part in stream)
    assert len(found) <= tally.learned  # what fills no batch waits for more
    assert tally.learned >= 190


def test_a_share_of_the_known_stays_and_the_same_share_each_time() -> None:
    stream = made_of(*[KNOWN, NEARLY, HOPELESS] * 300)
    found, tally = kept(stream, 0.2)
    known = sum(kind != NEARLY for kind in found)
    assert 60 < known < 180  # of 600
    assert (found, tally) == kept(stream, 0.2)
