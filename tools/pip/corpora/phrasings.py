"""Ways to ask for a task, a part of them kept back from training to measure whether Pip learned the task itself."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from tools.pip.corpora import yaml_file

FOLDER = Path(__file__).parent / "wordings"
QUESTION_STARTS = ("can you", "could you", "would you", "will you")
PATTERN_SHARE = 0.6
"""How often a wording for training is one of the patterns' forms. Many forms a line keep Pip from learning lines."""
_CHOICE = re.compile(r"\[([^\[\]]*\|[^\[\]]*)\]")


@dataclass(frozen=True, slots=True)
class Phrasings:
    """Wordings of one request. `reserved` ones are drawn for held-out examples alone.

    `patterns` holds the forms of each line with choices; all of them are for training.
    """

    trained: tuple[str, ...]
    reserved: tuple[str, ...]
    patterns: tuple[tuple[str, ...], ...] = ()

    def pick(self, rng: random.Random, held_out: bool) -> str:
        if held_out:
            return rng.choice(self.reserved)
        if self.patterns and rng.random() < PATTERN_SHARE:
            return rng.choice(rng.choice(self.patterns))
        return rng.choice(self.trained)

    def taught(self) -> Iterator[str]:
        """Every wording that training may show."""
        yield from self.trained
        for forms in self.patterns:
            yield from forms


def phrasings(lines: str) -> Phrasings:
    """One wording per line. The fourth, eleventh, eighteenth ... line is reserved: about one in seven.

    A line with `[one|another]` is a pattern: it stands for all its forms but the reserved wordings, and is not counted.
    """
    written = [line.strip() for line in lines.strip().splitlines() if line.strip()]
    wordings = [line for line in written if not _CHOICE.search(line)]
    reserved = tuple(wordings[3::7])
    return Phrasings(
        trained=tuple(wording for index, wording in enumerate(wordings) if index % 7 != 3),
        reserved=reserved,
        patterns=tuple(
            tuple(form for form in forms_of(line) if form not in reserved)
            for line in written
            if _CHOICE.search(line)
        ),
    )


def forms_of(pattern: str) -> Iterator[str]:
    """Every way to choose one of the parts between `|` in each pair of square brackets."""
    parts = _CHOICE.split(pattern)
    options = [part.split("|") if index % 2 else [part] for index, part in enumerate(parts)]
    return ("".join(chosen) for chosen in product(*options))


def load(task: str) -> dict[str, Phrasings]:
    """The wordings of `wordings/<task>.yaml`, by the name of the request."""
    blocks = yaml_file.read(FOLDER / f"{task}.yaml")
    return {name: phrasings(lines) for name, lines in blocks.items()}


def capitalised(rng: random.Random, request: str) -> str:
    """The request with a capital, in one of ten with a small letter, as people type."""
    if rng.random() < 0.1:
        return request[:1].lower() + request[1:]
    return capital(request)


def capital(text: str) -> str:
    """The text with a capital as its first letter."""
    return text[:1].upper() + text[1:]


def stop_of(request: str) -> str:
    """The mark that ends a request: a question mark or a full stop."""
    return "?" if request.lower().startswith(QUESTION_STARTS) else "."
