"""Prompts of benchmarks: a shipped, fixed set of four kinds, a file, or random tokens."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.errors import MALFORMED, InvalidRequest, what_failed
from engine.files import bounded, expanded, parse_json
from engine.values.messages import Message

SHIPPED = Path(__file__).with_name("prompts.jsonl")
"""Chat, tale, JSON and rewrite; in wordings that Pip was not trained on."""
ALL = "all"
RANDOM = "random"
RANDOM_LENGTH = 64
SPEC_BENCH = "spec_bench"
SPEC_BENCH_SOURCE = "https://github.com/hemingkx/Spec-Bench"
_CONVERSATION = frozenset(
    "writing roleplay reasoning math coding extraction stem humanities".split()
)
"""MT-Bench's categories, which Spec-Bench reports as one of its six tasks: multi-turn conversation."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """The user's messages, turn by turn, and the kind of task.

    ``token_ids``: a prompt that no text makes, in place of turns. ``before``: what was said before the
    first turn, a system prompt or an earlier conversation.
    """

    kind: str
    turns: tuple[str, ...]
    token_ids: tuple[int, ...] = ()
    before: tuple[Message, ...] = ()


def read(file: Path = SHIPPED) -> list[Prompt]:
    """Read one JSON object a line: ``prompt``, ``turns`` or ``messages``, and ``kind`` (default "other").

    Raises InvalidRequest that names the line.
    """
    try:
        lines = bounded(file).decode("utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(
            "prompts", f"{file} cannot be read: {what_failed(error)}. Give a file of JSON lines."
        ) from error
    prompts = [
        _parse(file, number, line) for number, line in enumerate(lines, start=1) if line.strip()
    ]
    if not prompts:
        raise InvalidRequest("prompts", f"{file} has no prompts: write one JSON object per line.")
    return prompts


def named(name: str, folder: Path, vocabulary: int) -> list[Prompt]:
    """Return ``pip`` (the shipped set), ``random``, ``spec_bench`` (in ``folder``), or a file's set.

    Raises InvalidRequest; for Spec-Bench, which is not shipped, it says where to get it.
    """
    if name == "pip":
        return read()
    if name == RANDOM:
        return noise(vocabulary)
    if name != SPEC_BENCH:
        return read(expanded(name))
    file = folder / SPEC_BENCH / "question.jsonl"
    if not file.is_file():
        raise InvalidRequest(
            "prompts",
            "Spec-Bench's questions are not included. Download "
            f"data/spec_bench/question.jsonl from {SPEC_BENCH_SOURCE}, and give its path "
            f"with --prompts, or put it at {file}.",
        )
    return read(file)


def noise(vocabulary: int, count: int = 4, seed: int = 1) -> list[Prompt]:
    """Return prompts of tokens drawn uniformly from the vocabulary: nothing in them is predictable.
    Raises InvalidRequest for a vocabulary of unknown size, 0."""
    if not vocabulary:
        raise InvalidRequest(
            "prompts", "random needs the vocabulary size, which this server does not report."
        )
    chance = random.Random(seed)
    return [
        Prompt(RANDOM, (), tuple(chance.randrange(vocabulary) for _ in range(RANDOM_LENGTH)))
        for _ in range(count)
    ]


def first_of_each(prompts: Sequence[Prompt], count: int) -> list[Prompt]:
    """Return the first ``count`` prompts of every kind, in their order; 0 takes all."""
    seen: Counter[str] = Counter()
    chosen = []
    for prompt in prompts:
        seen[prompt.kind] += 1
        if not count or seen[prompt.kind] <= count:
            chosen.append(prompt)
    return chosen


def _task(category: object) -> object:
    return "conversation" if category in _CONVERSATION else category


def _parse(file: Path, number: int, line: str) -> Prompt:
    try:
        value = parse_json(line)
        if not isinstance(value, dict):
            raise ValueError("it is not a JSON object")
        *before, last = value.get("messages") or [{"content": value.get("prompt")}]
        turns = value["turns"] if "turns" in value else [last["content"]]
        chat = tuple(Message(one["role"], one["content"]) for one in before)
        # Spec-Bench's files call the kind "category".
        kind = str(value.get("kind") or _task(value.get("category")) or "other")
        if (
            not isinstance(turns, list)
            or not turns
            or not all(isinstance(turn, str) and turn.strip() for turn in turns)
            or not all(isinstance(text, str) for one in chat for text in (one.role, one.content))
            or last.get("role", "user") != "user"
        ):
            raise ValueError("a turn is empty or not a user's text")
    except MALFORMED as error:
        what = "it is not JSON" if isinstance(error, json.JSONDecodeError) else what_failed(error)
        raise InvalidRequest(
            "prompts",
            f'{file}, line {number}: {what}. Write {{"prompt": "..."}} or {{"turns": ["..."]}}.',
        ) from error
    return Prompt(kind, tuple(turns), before=chat)
