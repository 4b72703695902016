"""What the target answers, kept in a file: the text that its draft learns from and is measured on.

A draft is judged on the target's own words, so it trains on those. Prompts of about the same length are
answered together by transformers, with a KV cache, at one temperature a batch.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from engine.backends.transformers_adapter import cache_argument
from engine.train.progress import report
from engine.train.schema import subseed
from tools.pip.corpora.example import Example
from tools.pip.data import Material
from tools.pip.recipe import DraftStage
from tools.pip.tokenizer import Document, Encoder

BATCH = 96  # prompts answered together; with 500 positions their KV cache is 300 MB in bf16


@dataclass(frozen=True, slots=True)
class TargetReply:
    """A prompt and what the target said. `held_out` replies are never learned from."""

    prompt: tuple[int, ...]
    reply: tuple[int, ...]
    temperature: float
    held_out: bool

    def document(self) -> Document:
        tokens = [*self.prompt, *self.reply]
        return Document(tokens, [False] * len(self.prompt) + [True] * len(self.reply))


@dataclass(frozen=True, slots=True)
class Question:
    """A prompt that waits for an answer."""

    tokens: tuple[int, ...]
    temperature: float
    held_out: bool


def collect(
    model: Any, encoder: Encoder, material: Material, stage: DraftStage, seed: int, file: Path
) -> list[TargetReply]:
    """All replies, from `file` as far as it goes; the rest is generated and added to it."""
    groups = plan(questions(material, encoder, stage, seed))
    replies = read(file)
    done = len(replies)
    file.parent.mkdir(parents=True, exist_ok=True)
    total = sum(map(len, groups))
    with file.open("a", encoding="utf-8") as out:
        for number, group in enumerate(groups):
            if done >= len(group):  # answered in an earlier run
                done -= len(group)
                continue
            torch.manual_seed(subseed(seed, "reply", number))
            made = answer(model, encoder, group[done:], stage.reply_tokens)
            done = 0
            replies += made
            out.writelines(json.dumps(_plain(reply)) + "\n" for reply in made)
            out.flush()
            report(f"replies {len(replies)} of {total}")
    return replies


def questions(material: Material, encoder: Encoder, stage: DraftStage, seed: int) -> list[Question]:
    """Held-out prompts of every kind first, then prompts of the mixture."""
    room = stage.model.context - stage.reply_tokens
    each = -(-stage.held_out // len(material.weights))
    unseen = material.held_out(subseed(seed, "unseen"), each).values()
    rng = random.Random(subseed(seed, "order"))
    first = [example for examples in unseen for example in examples]
    rng.shuffle(first)
    stream = _fitting(material.examples(subseed(seed, "questions")), encoder, room)
    chosen = [(tokens, True) for tokens in _fitting(iter(first), encoder, room)]
    chosen += [(tokens, False) for tokens in islice(stream, stage.replies)]
    warmth = cycle(stage.temperatures)
    return [Question(tokens, next(warmth), held_out) for tokens, held_out in chosen]


def plan(waiting: Sequence[Question]) -> list[list[Question]]:
    """Groups of up to BATCH questions of one temperature and about one length, in mixed order."""
    parts: dict[tuple[bool, float], list[Question]] = defaultdict(list)
    for entry in waiting:
        parts[entry.held_out, entry.temperature].append(entry)
    groups: list[list[Question]] = []
    for part in parts.values():
        part.sort(key=lambda entry: len(entry.tokens))
        groups += [part[at : at + BATCH] for at in range(0, len(part), BATCH)]
    # Mixed, so that a file cut short by a kill has prompts of every length.
    random.Random(0).shuffle(groups)
    return groups


@torch.no_grad()
def answer(
    model: Any, encoder: Encoder, group: Sequence[Question], longest: int
) -> list[TargetReply]:
    """The target's replies, each with its `<|end|>` unless cut at `longest` tokens."""
    width = max(len(entry.tokens) for entry in group)
    tokens = torch.full((len(group), width), encoder.pad)
    for row, entry in enumerate(group):
        tokens[row, width - len(entry.tokens) :] = torch.tensor(entry.tokens)
    state = _Generation(model, tokens.to(model.device), encoder.pad)
    replies: list[list[int]] = [[] for _ in group]
    alive = list(range(len(group)))  # the reply that each row of the batch belongs to
    while alive and len(replies[alive[0]]) < longest:
        chosen = state.step(group[0].temperature)
        for row, token in zip(alive, chosen, strict=True):
            replies[row].append(token)
        going = [at for at, token in enumerate(chosen) if token != encoder.end]
        if len(going) < len(alive):  # rows that ended would cost as much as the others
            state.keep(going)
            alive = [alive[at] for at in going]
    return [
        TargetReply(entry.tokens, tuple(reply), entry.temperature, entry.held_out)
        for entry, reply in zip(group, replies, strict=True)
    ]


class _Generation:
    """A batch that is being answered: KV cache, mask and positions of left-padded rows."""

    def __init__(self, model: Any, tokens: Tensor, pad: int) -> None:
        self._model, self._cache = model, DynamicCache(config=model.config)
        self._mask = tokens.ne(pad).long()  # (rows, positions so far)
        self._pending, self._positions = tokens, (self._mask.cumsum(-1) - 1).clamp(min=0)

    def step(self, temperature: float) -> list[int]:
        """Chooses the next token of every row."""
        out = self._model(
            input_ids=self._pending,
            attention_mask=self._mask,
            position_ids=self._positions,
            logits_to_keep=1,
            **{cache_argument(self._model): self._cache},
        )
        logits = out.logits[:, -1].float()
        if temperature > 0:
            chosen = torch.multinomial((logits / temperature).softmax(-1), 1)
        else:
            chosen = logits.argmax(-1, keepdim=True)
        self._pending, self._positions = chosen, self._positions[:, -1:] + 1
        self._mask = torch.cat([self._mask, torch.ones_like(chosen)], 1)
        return [int(token) for token in chosen[:, 0]]

    def keep(self, rows: list[int]) -> None:
        """Goes on with these rows alone."""
        at = torch.tensor(rows, dtype=torch.long, device=self._mask.device)
        self._cache.batch_select_indices(at)
        self._mask, self._pending = self._mask[at], self._pending[at]
        self._positions = self._positions[at]


def read(file: Path) -> list[TargetReply]:
    """The replies in a file; a line cut by a kill ends it."""
    if not file.exists():
        return []
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    whole = [line for line in lines if line.endswith("\n")]
    if len(whole) < len(lines):
        file.write_text("".join(whole), encoding="utf-8")
    return [_from_plain(json.loads(line)) for line in whole]


def _fitting(stream: Iterator[Example], encoder: Encoder, room: int) -> Iterator[tuple[int, ...]]:
    for example in stream:
        tokens = encoder.prompt(example.prompt)
        if len(tokens) <= room:
            yield tuple(tokens)


def _plain(reply: TargetReply) -> list[Any]:
    return [reply.prompt, reply.reply, reply.temperature, reply.held_out]


def _from_plain(values: list[Any]) -> TargetReply:
    prompt, reply, temperature, held_out = values
    return TargetReply(tuple(prompt), tuple(reply), temperature, held_out)
