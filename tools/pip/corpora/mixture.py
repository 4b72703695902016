"""Chat training examples without end: seeded, weighted over the skills, some joined into longer chats.

A source makes one example from a random generator. `sources` builds those that the given paths allow; the weights say
how often each is drawn. The same seed, weights and sources give the same examples.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path

from tools.pip.corpora import guide, problems, records, rewrites, tales, talk
from tools.pip.corpora.example import Example, Message

Source = Callable[[random.Random, bool], Example]

SYSTEM_MESSAGE = Message("system", "You are Pip, the guide built into Foretoken.")
JOINED_SHARE = 0.10
JOINED_CHARACTERS = 2400  # so that a joined chat stays well within the context
SYSTEM_SHARE = 0.15
WEIGHTS: Mapping[str, float] = {
    # Questions to the guide are many and short; copying what the user wrote takes most of the tokens.
    "guide": 42,
    "records": 24,
    "changes": 12,
    "rewrites": 38,
    "edits": 8,
    "tale": 7,
    "fable": 0.5,
    "problem": 5,
    "gsm8k": 0.3,
    "talk": 8,
    "sgd": 0.5,
    "soda": 0.3,
}


@dataclass(frozen=True, slots=True)
class DataPaths:
    """Where the data from outside lies; None leaves its source out."""

    tales: Path | None = None
    gsm8k: Path | None = None
    sgd: Path | None = None
    soda: Path | None = None


def sources(paths: DataPaths, topics: Sequence[guide.Topic] | None = None) -> dict[str, Source]:
    """Every source that `paths` allow, by name. Reads the files once."""
    found: dict[str, Source] = {
        "guide": partial(guide.generate, topics=topics or guide.load()),
        "records": records.generate,
        "changes": records.generate_changes,
        "rewrites": rewrites.generate,
        "edits": rewrites.generate_edits,
        "talk": talk.generate,
        "tale": tales.generate,
        "problem": problems.generate,
    }
    if paths.tales:
        found["fable"] = partial(tales.generate_old, tales=tales.read_tales(paths.tales))
    if paths.gsm8k:
        found["gsm8k"] = _drawn_from(list(problems.read_gsm8k(paths.gsm8k)))
    if paths.sgd:
        found["sgd"] = _drawn_from(list(talk.read_sgd(paths.sgd)))
    if paths.soda:
        found["soda"] = _drawn_from(list(talk.read_soda(paths.soda)))
    return found


def examples(
    seed: int, weights: Mapping[str, float], sources: Mapping[str, Source]
) -> Iterator[Example]:
    """Training examples without end. Raises ValueError for a weight without a source."""
    absent = sorted(weights.keys() - sources.keys())
    if absent:
        raise ValueError(f"no source for {', '.join(absent)}; known: {', '.join(sorted(sources))}")
    rng = random.Random(seed)
    names = [name for name, weight in weights.items() if weight > 0]
    bounds = list(accumulate(weights[name] for name in names))
    while True:
        name = rng.choices(names, cum_weights=bounds)[0]
        example = sources[name](rng, False)
        if rng.random() < JOINED_SHARE:
            other = sources[rng.choices(names, cum_weights=bounds)[0]](rng, False)
            example = _joined(other, example)
        yield _with_system(example) if rng.random() < SYSTEM_SHARE else example


def available_weights(sources: Mapping[str, Source]) -> dict[str, float]:
    """The default weights of the sources at hand."""
    return {name: weight for name, weight in WEIGHTS.items() if name in sources}


def _drawn_from(examples: Sequence[Example]) -> Source:
    """A source that repeats examples from a file; those have no held-out side."""

    def draw(rng: random.Random, held_out: bool) -> Example:
        return rng.choice(examples)

    return draw


def _joined(first: Example, last: Example) -> Example:
    """Both in one chat, checked by the last, if each is one turn, of another skill, and short; else the last alone."""
    messages = first.messages + last.messages
    length = sum(len(message.content) for message in messages)
    if _skill(first) == _skill(last) or len(messages) != 4 or length > JOINED_CHARACTERS:
        return last
    return Example(last.kind, messages, last.check)


def _skill(example: Example) -> str:
    return example.kind.partition(".")[0]


def _with_system(example: Example) -> Example:
    if example.messages[0].role == "system":
        return example
    return Example(example.kind, (SYSTEM_MESSAGE, *example.messages), example.check)
