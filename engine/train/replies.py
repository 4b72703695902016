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

from engine.train.data import Material, subseed
from engine.train.pip.example import Example
from engine.train.progress import report
from engine.train.recipe import DraftStage
from engine.train.tokenizer import Document, Encoder

BATCH = 48  # prompts answered together; with 1,024 positions their KV cache is 150 MB


@dataclass(frozen=True, slots=True)
class Reply:
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
) -> list[Reply]:
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
def answer(model: Any, encoder: Encoder, group: Sequence[Question], longest: int) -> list[Reply]:
    """The target's replies, each with its `<|end|>` unless cut at `longest` tokens."""
    temperature = group[0].temperature
    width = max(len(entry.tokens) for entry in group)
    device = model.device
    tokens = torch.full((len(group), width), encoder.pad)
    for row, entry in enumerate(group):
        tokens[row, width - len(entry.tokens) :] = torch.tensor(entry.tokens)
    sampling = {"temperature": temperature, "top_k": 0} if temperature > 0 else {}
    out = model.generate(
        input_ids=tokens.to(device),
        attention_mask=(tokens != encoder.pad).long().to(device),
        max_new_tokens=longest,
        do_sample=temperature > 0,
        pad_token_id=encoder.pad,
        eos_token_id=encoder.end,
        **sampling,
    )
    made = out[:, width:].tolist()
    return [
        Reply(entry.tokens, _until_end(reply, encoder), temperature, entry.held_out)
        for entry, reply in zip(group, made, strict=True)
    ]


def read(file: Path) -> list[Reply]:
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


def _until_end(tokens: Sequence[int], encoder: Encoder) -> tuple[int, ...]:
    if encoder.end in tokens:
        return tuple(tokens[: list(tokens).index(encoder.end) + 1])
    return tuple(tokens)


def _plain(reply: Reply) -> list[Any]:
    return [reply.prompt, reply.reply, reply.temperature, reply.held_out]


def _from_plain(values: list[Any]) -> Reply:
    prompt, reply, temperature, held_out = values
    return Reply(tuple(prompt), tuple(reply), temperature, held_out)
