"""Documents packed into rows, and the blocks that training reads."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from tests.tools.pip.conftest import FakeMaterial, document
from tools.pip.data import IGNORE, OPENING_TOKENS, BlockMaker, batches, opening, split_long
from tools.pip.recipe import RowsStage
from tools.pip.tokenizer import Document, Encoder

ROWS = RowsStage(lengths=(32, 64), micro_tokens=128, block_tokens=1024)


def test_packing_keeps_every_document_whole_and_its_labels_right() -> None:
    rng = random.Random(1)
    lengths = [rng.randrange(4, 65 if number % 4 == 0 else 20) for number in range(80)]
    documents = [document(length, first=rng.randrange(300)) for length in lengths]
    made = batches(documents, ROWS, pad=0, rng=rng)
    found = [entry for part in made for entry in unpack(part)]
    expected = [(entry.tokens, entry.learned) for entry in documents]
    assert all(entry in expected for entry in found)
    assert len(found) >= 60  # a few short ones may be left over
    assert {part.tokens.shape for part in made} == {(4, 32), (2, 64)}


def test_long_plain_text_is_cut_with_a_beginning_each() -> None:
    whole = Document([7, *range(10, 30)], [False] + [True] * 20)
    parts = split_long(whole, 9)
    assert all(part.tokens[0] == 7 and len(part.tokens) <= 9 for part in parts)
    assert [token for part in parts for token in part.tokens[1:]] == whole.tokens[1:]


def test_a_block_depends_on_seed_and_index_alone(tokenizer: Tokenizer) -> None:
    def tokens(seed: int, index: int) -> list[list[int]]:
        maker = BlockMaker(FakeMaterial(), Encoder(tokenizer), ROWS, seed)  # type: ignore[arg-type]
        return [part.tokens.tolist() for part in maker.block(index, 0.5)]

    assert tokens(1, 4) == tokens(1, 4)
    assert tokens(1, 4) != tokens(1, 5)
    assert tokens(1, 4) != tokens(2, 4)


def test_an_opening_ends_in_the_first_tokens_of_the_reply() -> None:
    whole = Document(list(range(100)), [False] * 10 + [True] * 90)
    short = opening(whole)
    assert short.tokens == list(range(10 + OPENING_TOKENS))
    assert sum(short.learned) == OPENING_TOKENS


def unpack(part: Any) -> list[tuple[list[int], list[bool]]]:
    """(tokens, learned) of every document in a batch, found by its numbers and labels."""
    found = []
    for tokens, labels, numbers in zip(part.tokens, part.labels, part.documents, strict=True):
        for number in range(numbers.max() + 1):
            at = np.flatnonzero(numbers == number)
            assert labels[at[-1]] == IGNORE
            assert all(labels[i] in (IGNORE, tokens[i + 1]) for i in at[:-1])
            learned = [False, *(bool(label != IGNORE) for label in labels[at[:-1]])]
            found.append((tokens[at].tolist(), learned))
    return found
