"""Batches for training, made in a background process of low priority.

A block is a list of batches made from one seed: a pure function of (seed, index, share of plain text),
so a run that resumes goes on with the same stream. Whole documents are packed, best fit, into rows of a
few fixed lengths: short documents into short rows, because attention over a row costs its length squared.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from engine.errors import ForetokenError
from engine.train.schema import subseed
from tools.pip.corpora import corpus, guide, mixture
from tools.pip.corpora.example import Example
from tools.pip.recipe import RowsStage
from tools.pip.tokenizer import Document, Encoder

IGNORE = -100
OPENING_SHARE = 0.75
"""How many of the guide's single questions come with the beginning of their answer alone."""
OPENING_TOKENS = 12
_WAIT_S = 5.0
_HELD_OUT_EVERY = 64  # one of so many plain texts is never trained on


class DataError(ForetokenError):
    """The training data is not there, or its process failed."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of packed documents.

    tokens     (rows, length) int16, padding at the end of a row
    labels     (rows, length) int16, the token after each one, IGNORE where nothing is learned
    documents  (rows, length) int16, number of the document in its row, -1 for padding
    """

    tokens: npt.NDArray[np.int16]
    labels: npt.NDArray[np.int16]
    documents: npt.NDArray[np.int16]

    @property
    def positions(self) -> int:
        """How many there are, padding included."""
        return self.tokens.size

    @property
    def learned(self) -> int:
        """How many positions teach something."""
        return int((self.labels != IGNORE).sum())


@dataclass(frozen=True, slots=True)
class DataSpec:
    """All that a process needs to make blocks."""

    data: Path
    tokenizer: Path
    rows: RowsStage
    seed: int
    weights: Mapping[str, float] | None


class Material:
    """The examples and plain texts under a data folder, laid out as in ../shared/data."""

    def __init__(self, data: Path, weights: Mapping[str, float] | None = None) -> None:
        paths = mixture.DataPaths(
            tales=_if_there(data / "tales"),
            gsm8k=_if_there(data / "gsm8k" / "train.jsonl"),
            sgd=_if_there(data / "dialogues" / "sgd-train.jsonl"),
            soda=_if_there(data / "dialogues" / "soda-val.txt"),
        )
        self.sources = mixture.sources(paths)
        self.weights = dict(weights) if weights else mixture.available_weights(self.sources)
        texts = list(corpus.documents(data / "tales")) if paths.tales else []
        self.texts = [text for at, text in enumerate(texts) if at % _HELD_OUT_EVERY]
        self.held_out_texts = texts[::_HELD_OUT_EVERY]

    def examples(self, seed: int) -> Iterator[Example]:
        return mixture.examples(seed, self.weights, self.sources)

    def held_out(self, seed: int, each: int) -> dict[str, list[Example]]:
        """`each` examples of every source, in phrasings that training never shows."""
        rng = random.Random(seed)
        return {name: [self.sources[name](rng, True) for _ in range(each)] for name in self.weights}


class BlockMaker:
    """Makes blocks: documents from the material, packed."""

    def __init__(self, material: Material, encoder: Encoder, rows: RowsStage, seed: int) -> None:
        self._material, self._encoder = material, encoder
        self._rows, self._seed = rows, seed

    def block(self, index: int, text_share: float) -> list[Batch]:
        """The batches of block `index`, in mixed order."""
        rng = random.Random(subseed(self._seed, index))
        budget = self._rows.block_tokens
        share = text_share if self._material.texts else 0.0
        documents = self._texts(rng, int(budget * share))
        documents += self._chats(rng, budget - sum(len(entry.tokens) for entry in documents))
        rng.shuffle(documents)
        return batches(documents, self._rows, self._encoder.pad, rng)

    def _texts(self, rng: random.Random, tokens: int) -> list[Document]:
        found: list[Document] = []
        while tokens > 0:
            for piece in split_long(
                self._encoder.texts([rng.choice(self._material.texts)])[0], self._longest
            ):
                found.append(piece)
                tokens -= len(piece.tokens)
        return found

    def _chats(self, rng: random.Random, tokens: int) -> list[Document]:
        stream = self._material.examples(rng.getrandbits(62))
        found: list[Document] = []
        while tokens > 0:
            some = [next(stream) for _ in range(64)]
            encoded = self._encoder.chats([example.messages for example in some])
            for example, whole in zip(some, encoded, strict=True):
                drilled = is_question(example) and rng.random() < OPENING_SHARE
                document = opening(whole) if drilled else whole
                # A chat that does not fit is left out: half a chat would teach a cut reply.
                if len(document.tokens) <= self._longest and tokens > 0:
                    found.append(document)
                    tokens -= len(document.tokens)
        return found

    @property
    def _longest(self) -> int:
        return self._rows.lengths[-1]


def is_question(example: Example) -> bool:
    """One question to the guide and its answer."""
    return example.kind == guide.KIND and sum(m.role == "assistant" for m in example.messages) == 1


def opening(document: Document) -> Document:
    """The document up to the first tokens of its reply.

    Answers of the guide are fixed texts and soon known by heart; what is hard to learn is which one
    a question asks for, and that is decided in the first tokens.
    """
    first = document.learned.index(True)
    end = first + OPENING_TOKENS
    return Document(document.tokens[:end], document.learned[:end])


def split_long(document: Document, longest: int) -> list[Document]:
    """A long plain text as pieces of at most `longest` tokens, each with `<|bos|>` first."""
    if len(document.tokens) <= longest:
        return [document]
    bos, rest = document.tokens[0], document.tokens[1:]
    parts = [rest[at : at + longest - 1] for at in range(0, len(rest), longest - 1)]
    return [Document([bos, *part], [False] + [True] * len(part)) for part in parts]


def batches(
    documents: Sequence[Document], rows: RowsStage, pad: int, rng: random.Random
) -> list[Batch]:
    """All documents packed into whole batches; short ones left over at the end are dropped."""
    waiting = sorted(documents, key=lambda entry: len(entry.tokens))
    made: list[Batch] = []
    for length, shorter in reversed(list(zip(rows.lengths, (0, *rows.lengths), strict=False))):
        count = rows.micro_tokens // length
        while waiting and (len(waiting[-1].tokens) > shorter):
            packed = fill(waiting, count, length)
            rng.shuffle(packed)
            made.append(batch(packed, length, pad))
    if len(made) > 1 and _filling(made[-1]) < 0.8:  # the last of the shortest rows
        made.pop()
    rng.shuffle(made)
    return made


def fill(waiting: list[Document], count: int, length: int) -> list[list[Document]]:
    """`count` rows of at most `length` tokens, taken out of `waiting` (sorted by length).

    Best fit, decreasing: every row takes the longest document that fits, until none does.
    """
    lengths = [len(entry.tokens) for entry in waiting]
    packed: list[list[Document]] = []
    for _ in range(count):
        row: list[Document] = []
        space = length
        while (at := _longest_within(lengths, space)) >= 0:
            row.append(waiting.pop(at))
            space -= lengths.pop(at)
        packed.append(row)
    return packed


def _longest_within(lengths: Sequence[int], space: int) -> int:
    """Index of the last length, in rising order, that is at most `space`; -1 if there is none."""
    low, high = 0, len(lengths)
    while low < high:
        middle = (low + high) // 2
        if lengths[middle] <= space:
            low = middle + 1
        else:
            high = middle
    return low - 1


def batch(packed: Sequence[Sequence[Document]], length: int, pad: int) -> Batch:
    """Rows of documents as arrays."""
    size = (len(packed), length)
    tokens = np.full(size, pad, np.int16)
    labels = np.full(size, IGNORE, np.int16)
    documents = np.full(size, -1, np.int16)
    for number, row in enumerate(packed):
        start = 0
        for order, document in enumerate(row):
            end = start + len(document.tokens)
            tokens[number, start:end] = document.tokens
            following = np.array(document.tokens[1:], np.int16)
            labels[number, start : end - 1] = np.where(document.learned[1:], following, IGNORE)
            documents[number, start:end] = order
            start = end
    return Batch(tokens, labels, documents)


def _filling(made: Batch) -> float:
    return float((made.documents >= 0).mean())


def _if_there(path: Path) -> Path | None:
    return path if path.exists() else None


@dataclass(frozen=True, slots=True)
class FeedState:
    """Where a feed stands; `share` is that of the block in hand."""

    index: int
    offset: int
    share: float


class Feed:
    """Batches from a background process, in order. Use as a context manager.

    One block is always being made while another is consumed.
    """

    def __init__(self, spec: DataSpec) -> None:
        self._start: FeedState | None = None
        context = multiprocessing.get_context("spawn")
        self._requests: Any = context.Queue()
        self._results: Any = context.Queue()
        self._process = context.Process(
            target=_serve_aside, args=(spec, self._requests, self._results), daemon=True
        )
        self._index, self._offset, self._share = 0, 0, 0.0

    def __enter__(self) -> Feed:
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.join()

    @property
    def state(self) -> FeedState:
        return FeedState(self._index, self._offset, self._share)

    def start_at(self, state: FeedState) -> None:
        """Goes on behind the batch that `state` was taken at. Call before `batches`."""
        self._start = state

    def batches(self, share: Callable[[], float]) -> Iterator[Batch]:
        """Batches without end; `share()` is asked for the share of plain text, a block ahead."""
        first = self._start or FeedState(0, 0, share())
        asked = [(first.index, first.share)]
        self._requests.put(asked[0])
        skip = first.offset
        while True:
            index, block_share = asked.pop(0)
            made = self._receive()
            asked.append((index + 1, share()))
            self._requests.put(asked[0])
            for offset, entry in enumerate(made):
                if offset >= skip:
                    self._index, self._offset, self._share = index, offset + 1, block_share
                    yield entry
            skip = 0

    def _receive(self) -> list[Batch]:
        while True:
            try:
                result = self._results.get(timeout=_WAIT_S)
            except Empty:
                if not self._process.is_alive():
                    raise DataError(
                        "The process that makes training data ended; see its output."
                    ) from None
                continue
            if isinstance(result, str):
                raise DataError(f"Training data could not be made:\n{result}")
            made: list[Batch] = result
            return made


def block_maker(spec: DataSpec) -> BlockMaker:
    """The maker that `spec` describes; reads the data."""
    encoder = Encoder(Tokenizer.from_file(str(spec.tokenizer / "tokenizer.json")))
    return BlockMaker(Material(spec.data, spec.weights), encoder, spec.rows, spec.seed)


def _serve_aside(spec: DataSpec, requests: Any, results: Any) -> None:
    """`_serve` in a process of its own: training goes first, and one core is enough."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    if hasattr(os, "nice"):
        os.nice(10)
    _serve(spec, requests, results)


def _serve(spec: DataSpec, requests: Any, results: Any) -> None:
    """Answers (index, share) with a block, or with a traceback as text. None ends it."""
    try:
        maker = block_maker(spec)
        while (request := requests.get()) is not None:
            results.put(maker.block(*request))
    except KeyboardInterrupt:
        return
    except Exception:
        results.put(traceback.format_exc())
