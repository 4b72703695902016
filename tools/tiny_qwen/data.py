"""What the tiny Qwen3.5 learns from: the tales as text, and short tales of Pip's grammar as chats."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor

from engine.train.schema import subseed
from tools.pip.corpora import corpus, tales
from tools.pip.tokenizer import Encoder, train_tokenizer

VOCABULARY = 1536
ROW = 384  # tokens
_HELD_OUT_EVERY = 20  # one of so many books is never trained on
_SAMPLE = 6_000_000  # characters of the tales that the tokenizer is trained on
_SAMPLE_CHATS = 4000


@dataclass(frozen=True, slots=True)
class Rows:
    """tokens (rows, ROW) int64; every row begins a document, and all but its first token is learned."""

    tokens: Tensor

    @property
    def positions(self) -> int:
        return self.tokens.numel()

    @property
    def learned(self) -> int:
        return self.positions - len(self.tokens)


def books(data: Path) -> tuple[list[str], list[str]]:
    """Return the texts of the books to learn from, and those of the held-out ones."""
    files = sorted((data / "tales").glob("*.md"))
    if not files:
        raise FileNotFoundError(f"no tales in {data}; --data names the folder that has them")
    parts: tuple[list[str], list[str]] = ([], [])
    for number, file in enumerate(files):
        held_out = number % _HELD_OUT_EVERY == 1
        parts[held_out].extend(corpus.chunks(corpus.sections(file.read_text(encoding="utf-8"))))
    return parts


def make_tokenizer(texts: Sequence[str], seed: int) -> Tokenizer:
    """Return a tokenizer trained on a sample of the texts and of the chats."""
    rng = random.Random(subseed(seed, "tokenizer"))
    sample, size = list[str](), 0
    for text in rng.sample(texts, len(texts)):
        sample.append(text)
        size += len(text)
        if size > _SAMPLE:
            break
    examples = (tales.generate(rng, held_out=False) for _ in range(_SAMPLE_CHATS))
    said = (message.content for example in examples for message in example.messages)
    return train_tokenizer(chain(sample, said), VOCABULARY)


class Material:
    """Rows of tokens, half of them text and half of them chats."""

    def __init__(self, texts: Sequence[str], tokenizer: Tokenizer, seed: int) -> None:
        self._encoder, self._seed = Encoder(tokenizer), seed
        self._texts = [
            torch.tensor(document.tokens, dtype=torch.int16)
            for document in self._encoder.texts(texts)
        ]

    def batch(self, number: int, rows: int, held_out: bool = False) -> Rows:
        """Return batch `number` of an endless stream that the seed decides."""
        rng = random.Random(subseed(self._seed, number, held_out))
        made = [self._text(rng) if row % 2 else self._chat(rng, held_out) for row in range(rows)]
        return Rows(torch.stack(made).to(torch.int64))

    def _text(self, rng: random.Random) -> Tensor:
        """Return a stretch of a tale, `<|bos|>` first."""
        while len(text := rng.choice(self._texts)) <= ROW:
            pass
        start = rng.choice((1, rng.randrange(1, len(text) - ROW + 2)))
        return torch.cat([text[:1], text[start : start + ROW - 1]])

    def _chat(self, rng: random.Random, held_out: bool) -> Tensor:
        """Return a chat of as many short tales as the row has room for; the last one is cut."""
        messages = [*tales.generate(rng, held_out).messages]
        while True:
            tokens = self._encoder.chats([messages])[0].tokens
            if len(tokens) >= ROW:
                return torch.tensor(tokens[:ROW], dtype=torch.int16)
            messages += tales.generate(rng, held_out).messages
