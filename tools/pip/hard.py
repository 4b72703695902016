"""Trains on what the model does not know yet: documents that it would get wrong, and a few others.

Late in training nearly every reply is known, and a known reply has next to no gradient, though it
costs as much as another. Looking at a document (a forward pass) is a third of learning from it, so most
of the time goes where something is left to learn (selective backpropagation: Jiang et al., "Accelerating
Deep Learning by Focusing on the Biggest Losers", arXiv 1910.00762). Some known documents stay in, so
that nothing known is lost.

A document without one right reply, a tale or a dialogue, is unsure at many positions. More of it would
not help: it counts as known.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch

from tools.pip.data import IGNORE, Batch, batches
from tools.pip.network import Network, place
from tools.pip.recipe import RowsStage
from tools.pip.tokenizer import Document

UNSURE = 0.6
"""A position whose token has less than this probability is one that the model may get wrong."""
MOST_UNSURE = 8
"""Unsure positions of a document with one right reply; beyond them no reply is the right one."""
_PACKED_AT_ONCE = 8  # batches, so that documents find rows that they fit in


@dataclass(slots=True)
class Tally:
    """How many documents were looked at, and how many of them were learned from."""

    looked: int = 0
    learned: int = 0


def hard(
    stream: Iterator[Batch],
    network: Network,
    rows: RowsStage,
    pad: int,
    known_share: Callable[[], float],
    tally: Tally,
) -> Iterator[Batch]:
    """Batches of the hard documents of ``stream``, and of ``known_share()`` of the rest.

    A share of 1 lets batches through as they are. Which of the known stay in is drawn from the batch's
    own tokens, so the same stream and weights give the same batches.
    """
    kept: list[Document] = []
    for made in stream:
        share = known_share()
        if share >= 1.0:
            yield made
            continue
        unsure = _unsure(network, made)
        rng = random.Random(made.tokens.tobytes())
        for document, count in zip(documents_of(made), unsure, strict=True):
            tally.looked += 1
            if 0 < count <= MOST_UNSURE or rng.random() < share:
                tally.learned += 1
                kept.append(document)
        if sum(len(document.tokens) for document in kept) >= _PACKED_AT_ONCE * rows.micro_tokens:
            yield from batches(kept, rows, pad, rng)
            kept = []


def documents_of(made: Batch) -> list[Document]:
    """The documents of a batch, row after row; the inverse of packing."""
    found = []
    for tokens, labels, numbers in zip(made.tokens, made.labels, made.documents, strict=True):
        for number in range(int(numbers.max()) + 1):
            here = np.flatnonzero(numbers == number)
            learned = [False, *(labels[here[:-1]] != IGNORE).tolist()]
            found.append(Document(tokens[here].tolist(), learned))
    return found


def _unsure(network: Network, made: Batch) -> list[int]:
    """How many positions of each document are unsure, in the order of ``documents_of``."""
    inputs = place(made, network.device, network.dtype)
    with torch.no_grad():
        chances = network.chances(inputs).cpu()
    unsure = inputs.learned.cpu()[chances < UNSURE].numpy()
    row, place_in_row = np.divmod(unsure, made.tokens.shape[1])
    counts = np.zeros((len(made.tokens), int(made.documents.max()) + 1), np.int64)
    np.add.at(counts, (row, made.documents[row, place_in_row]), 1)
    return [
        int(count)
        for line, numbers in zip(counts, made.documents, strict=True)
        for count in line[: int(numbers.max()) + 1]
    ]
