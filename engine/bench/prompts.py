"""The prompts that benchmarks hold: a shipped, fixed set of four kinds, or a file of one's own."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.errors import InvalidRequest

SHIPPED = Path(__file__).with_name("prompts.jsonl")
"""Chat, tale, JSON and rewrite; in wordings that Pip was not trained on."""
ALL = "all"


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the user says, turn by turn, and what kind of task it is."""

    kind: str
    turns: tuple[str, ...]


def read(file: Path = SHIPPED) -> list[Prompt]:
    """One JSON object a line: ``prompt`` or ``turns``, and ``kind`` (else "other").

    Raises InvalidRequest that names the line.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest("prompts", f"{file} cannot be read: {error}.") from error
    prompts = [
        _parse(file, number, line) for number, line in enumerate(lines, start=1) if line.strip()
    ]
    if not prompts:
        raise InvalidRequest("prompts", f"{file} holds no prompts: one JSON object a line.")
    return prompts


def first_of_each(prompts: Sequence[Prompt], count: int) -> list[Prompt]:
    """The first ``count`` prompts of every kind, in their order; 0 takes all."""
    seen: Counter[str] = Counter()
    chosen = []
    for prompt in prompts:
        seen[prompt.kind] += 1
        if not count or seen[prompt.kind] <= count:
            chosen.append(prompt)
    return chosen


def _parse(file: Path, number: int, line: str) -> Prompt:
    try:
        value = json.loads(line)
        turns = value["turns"] if "turns" in value else [value["prompt"]]
        # Spec-Bench's files call the kind "category".
        kind = str(value.get("kind") or value.get("category") or "other")
        if not turns or not all(isinstance(turn, str) and turn.strip() for turn in turns):
            raise ValueError("a turn is empty or no text")
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidRequest(
            "prompts",
            f'{file}, line {number}: {error}. A line is {{"prompt": "..."}} or {{"turns": ["..."]}}.',
        ) from error
    return Prompt(kind, tuple(turns))
