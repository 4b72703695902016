"""The prompts that Foretoken ships: what Pip is asked, from the generators alone.

Drafters learn from what their target answers to them, so nothing that is installed needs the generators.
Nothing from outside is in the file.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

from engine.train.schema import subseed
from tools.pip.corpora import mixture
from tools.pip.corpora.example import Example, Message

SEED = 20261122
LEARNED, HELD_OUT = 12_000, 512


def lines(seed: int = SEED, learned: int = LEARNED, held_out: int = HELD_OUT) -> Iterator[str]:
    """JSON lines: ``held_out`` prompts in wordings that training never shows, then ``learned`` ones.

    No two prompts are alike.
    """
    met: set[tuple[Message, ...]] = set()
    for reserved, count, examples in (
        (True, held_out, _unseen(subseed(seed, "unseen"))),
        (False, learned, _mixed(subseed(seed, "questions"))),
    ):
        wanted = len(met) + count
        while len(met) < wanted:
            example = next(examples)
            if example.prompt not in met:
                met.add(example.prompt)
                yield _line(example, reserved)


def write(file: Path, seed: int = SEED) -> int:
    """Writes the file; returns how many prompts are in it."""
    made = list(lines(seed))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(made), encoding="utf-8")
    return len(made)


def _mixed(seed: int) -> Iterator[Example]:
    sources = mixture.sources(mixture.DataPaths())
    return mixture.examples(seed, mixture.available_weights(sources), sources)


def _unseen(seed: int) -> Iterator[Example]:
    """Every kind in turn."""
    sources, rng = mixture.sources(mixture.DataPaths()), random.Random(seed)
    while True:
        for generate in sources.values():
            yield generate(rng, True)


def _line(example: Example, held_out: bool) -> str:
    value = {
        "kind": example.kind.partition(".")[0],
        "held_out": held_out,
        "messages": [{"role": said.role, "content": said.content} for said in example.prompt],
    }
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"
