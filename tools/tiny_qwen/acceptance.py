"""How many tokens of its MTP layer the target takes, greedily, by plain torch alone."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor

from tools.pip.corpora import tales
from tools.pip.tokenizer import Encoder
from tools.tiny_qwen.network import Mtp
from tools.tiny_qwen.training import states

PROMPT = 48  # tokens of a text that a reply goes on with


@dataclass(frozen=True, slots=True)
class Acceptance:
    """rates[k - 1]: share of the positions at which the first k drafted tokens are the target's own.

    tokens_per_round: what rounds of the full depth bring, the target's own token included.
    """

    rates: tuple[float, ...]
    tokens_per_round: float
    positions: int


def prompts(texts: Sequence[str], tokenizer: Tokenizer, count: int) -> dict[str, list[list[int]]]:
    """Return `count` prompts of each kind: beginnings of texts, and questions never trained on."""
    encoder, rng = Encoder(tokenizer), random.Random(7)
    begun = encoder.texts(rng.sample(texts, count))
    asked = [tales.generate(rng, held_out=True).messages[:1] for _ in range(count)]
    return {
        "text": [document.tokens[:PROMPT] for document in begun],
        "chat": [encoder.prompt(messages) for messages in asked],
    }


def measure(
    model: Any, mtp: Mtp, asked: Sequence[Sequence[int]], length: int, depth: int
) -> Acceptance:
    """Return what the target accepts in its own greedy replies of at most `length` tokens."""
    found = [
        accepted(model, mtp, reply(model, prompt, length), len(prompt), depth) for prompt in asked
    ]
    runs = [run for one in found for run in one]
    rates = tuple(sum(run >= k for run in runs) / len(runs) for k in range(1, depth + 1))
    return Acceptance(rates, len(runs) / sum(map(_rounds, found)), len(runs))


@torch.no_grad()
def reply(model: Any, prompt: Sequence[int], length: int) -> list[int]:
    """Return the prompt and the target's greedy reply to it."""
    text = model.generate(
        torch.tensor([list(prompt)]),
        attention_mask=torch.ones(1, len(prompt), dtype=torch.int64),
        max_new_tokens=length,
        do_sample=False,
    )
    tokens: list[int] = text[0].tolist()
    return tokens


@torch.no_grad()
def accepted(model: Any, mtp: Mtp, text: Sequence[int], prompt: int, depth: int) -> list[int]:
    """Return how many of `depth` drafted tokens are right behind each token, the prompt's last one first.

    `text` is what `reply` returned; its last tokens are left out, which have no whole draft behind them.
    """
    row, head = torch.tensor([list(text)]), model.model.embed_tokens.weight
    rows = len(text) - depth - 1

    def told(state: Tensor) -> Tensor:
        best: Tensor = (state @ head.T).argmax(-1)
        return best

    def tokens(step: int, state: Tensor) -> Tensor:
        return told(state) if step else row[:, 1 : rows + 1]

    made = mtp.steps(model, states(model, row)[:, :rows], depth, tokens)
    right = [told(state)[0] == row[0, step + 2 :][:rows] for step, state in enumerate(made)]
    runs: list[int] = torch.stack(right).int().cumprod(0).sum(0)[prompt - 2 :].tolist()
    return runs


def _rounds(runs: Sequence[int]) -> int:
    """Return how many rounds a reply takes if each takes its accepted tokens and the target's own."""
    at = count = 0
    while at < len(runs):
        at += runs[at] + 1
        count += 1
    return count
