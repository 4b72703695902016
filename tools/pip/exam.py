"""How good are Pip's answers? Held-out wordings, each graded by the check that came with it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from engine.api import Engine
from engine.reply import ReplyState
from engine.request import Request, Speculation
from engine.values.messages import Message
from engine.values.sampling import Sampling
from tools.pip.corpora import guide, problems, records, rewrites, tales, talk
from tools.pip.corpora.example import Example, JsonCheck, KeywordCheck, chat

EXPECTED = {"guide": 0.90, "json": 0.95, "rewrites": 0.90}
"""What a release of Pip has to reach; the other kinds are reported."""


@dataclass(frozen=True, slots=True)
class Miss:
    """A reply that failed its check."""

    kind: str
    prompt: str
    expected: str
    reply: str


@dataclass(frozen=True, slots=True)
class Score:
    """How many of a kind passed."""

    kind: str
    passed: int
    asked: int

    @property
    def share(self) -> float:
        return self.passed / self.asked if self.asked else 0.0


def questions(per_kind: int, seed: int) -> list[Example]:
    """Held-out examples with checks: every guide question, ``per_kind`` of each other kind."""
    rng = random.Random(seed)
    asked = list(_guide_questions())
    generators: dict[str, Callable[[random.Random, bool], Example]] = {
        "records": records.generate,
        "rewrites": rewrites.generate,
        "problems": problems.generate,
        "talk": talk.generate,
        "tale": tales.generate,
    }
    for generate in generators.values():
        asked += _drawn(generate, rng, per_kind)
    return asked


def run(
    engine: Engine,
    examples: Sequence[Example],
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    *,
    max_tokens: int = 400,
) -> tuple[list[Score], list[Miss]]:
    """Asks each example at temperature 0 and grades the reply."""
    loaded = engine.loaded
    proposer = loaded.capabilities.preferred if loaded else "ngram"
    passed: dict[str, list[bool]] = {}
    misses = []
    for index, example in enumerate(examples):
        request = Request(
            messages=tuple(Message(m.role, m.content) for m in example.prompt),
            sampling=Sampling(temperature=0),
            speculation=Speculation(proposer=proposer),
            max_tokens=max_tokens,
        )
        reply = ReplyState.of(engine.generate(request)).text
        assert example.check is not None
        right = example.check.passes(reply)
        kind = kind_of(example)
        passed.setdefault(kind, []).append(right)
        if not right:
            prompt = example.prompt[-1].content
            misses.append(Miss(example.kind, prompt, example.messages[-1].content, reply))
        on_progress(index + 1, len(examples))
    scores = [Score(kind, sum(results), len(results)) for kind, results in passed.items()]
    return scores, misses


def kind_of(example: Example) -> str:
    """The task as people would name it: a record is "json" or a "table or list"."""
    task = example.kind.partition(".")[0]
    if task == "records":
        return "json" if isinstance(example.check, JsonCheck) else "table or list"
    return task


def as_json(scores: Sequence[Score], misses: Sequence[Miss]) -> dict[str, Any]:
    """Stable keys for scripts."""
    return {
        "results": [
            {
                "kind": score.kind,
                "passed": score.passed,
                "asked": score.asked,
                "share": score.share,
                "expected": EXPECTED.get(score.kind),
            }
            for score in scores
        ],
        "misses": [
            {"kind": m.kind, "prompt": m.prompt, "expected": m.expected, "reply": m.reply}
            for m in misses
        ],
    }


def _guide_questions() -> Iterator[Example]:
    """Every topic in every phrasing that training never shows."""
    for topic in guide.load():
        for asked in topic.held_out:
            yield Example("guide", chat(asked, topic.answer), KeywordCheck(topic.keywords))


def _drawn(
    generate: Callable[[random.Random, bool], Example], rng: random.Random, count: int
) -> Iterator[Example]:
    found = 0
    while found < count:
        example = generate(rng, True)
        if example.check is not None:
            yield example
            found += 1
