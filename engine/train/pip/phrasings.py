"""Ways to ask for a task, a part of them kept back from training to measure whether Pip learned the task itself."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import yaml

FOLDER = Path(__file__).parent / "wordings"
QUESTION_STARTS = ("can you", "could you", "would you", "will you")


@dataclass(frozen=True, slots=True)
class Phrasings:
    """Wordings of one request. `reserved` ones are drawn for held-out examples alone."""

    trained: tuple[str, ...]
    reserved: tuple[str, ...]

    def pick(self, rng: random.Random, held_out: bool) -> str:
        return rng.choice(self.reserved if held_out else self.trained)


def phrasings(lines: str) -> Phrasings:
    """One wording per line. The fourth, eleventh, eighteenth ... line is reserved: about one in seven."""
    wordings = [line.strip() for line in lines.strip().splitlines() if line.strip()]
    return Phrasings(
        trained=tuple(wording for index, wording in enumerate(wordings) if index % 7 != 3),
        reserved=tuple(wordings[3::7]),
    )


def load(task: str) -> dict[str, Phrasings]:
    """The wordings of `wordings/<task>.yaml`, by the name of the request."""
    blocks = yaml.safe_load((FOLDER / f"{task}.yaml").read_text(encoding="utf-8"))
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
