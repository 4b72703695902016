"""Tiny things to train with: texts, examples, a tokenizer, a recipe."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from tokenizers import Tokenizer

from tools.pip.corpora.example import Example, chat
from tools.pip.recipe import Shape
from tools.pip.tokenizer import Document, train_tokenizer

TEXTS = [f"Once there was a fox number {n}, who said: it's {n * 7} o'clock." for n in range(200)]
TINY = Shape(
    layers=2, hidden_size=32, intermediate_size=48, heads=4, kv_heads=2, head_dim=8, context=64
)


class FakeMaterial:
    """A handful of examples, endlessly."""

    def __init__(self, *_: object) -> None:
        self.texts = TEXTS[8:]
        self.held_out_texts = TEXTS[:2]
        self.weights = {"talk": 1.0}

    def examples(self, seed: int) -> Any:
        rng = random.Random(seed)
        while True:
            number = rng.randrange(3)
            yield Example("talk", chat(f"Say {number}", f"It is {number}."), None)

    def held_out(self, seed: int, each: int) -> dict[str, list[Example]]:
        return {
            "talk": [example for _, example in zip(range(each), self.examples(seed), strict=False)]
        }


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer([*TEXTS, "user says Hi\n", "Say 1 It is 2."], 320)


@pytest.fixture
def recipe_file(tmp_path: Path) -> Path:
    rows = {"lengths": [32, 64], "micro_tokens": 128, "block_tokens": 1024}
    shape = dataclasses.asdict(TINY)
    stage = {"model": shape, "rows": rows, "step_tokens": 256, "budget": {"tokens": 256 * 30}}
    rates = {"learning_rate": 0.02, "matrix_learning_rate": 0.03, "weight_decay": 0.0}
    recipe = {
        "name": "Tiny",
        "seed": 3,
        "device": "cpu",
        "compile": False,
        "tokenizer": {"vocabulary": 320, "sample_characters": 4000},
        "target": stage | {"optimizer": rates, "phases": [{"until": 1.0, "text_share": 0.0}]},
        "draft": stage
        | {"model": shape | {"layers": 1}, "optimizer": rates, "replies": 40, "held_out": 6}
        | {"reply_tokens": 24},
    }
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(recipe))
    return path


def document(length: int, first: int = 0) -> Document:
    tokens = [(first + at) % 300 for at in range(length)]
    return Document(tokens, [False] * (length // 2) + [True] * (length - length // 2))
