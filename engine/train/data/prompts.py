"""Prompts for the target whose replies are recorded."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import ForetokenError, what_failed
from engine.files import bounded, parse_json
from engine.train.schema import subseed
from engine.values.messages import Message

Prompt = tuple[Message, ...]

LARGEST = 256 << 20
"""Bytes of a file of prompts; tens of millions of words."""


class PromptsError(ForetokenError):
    """There are no usable prompts."""


@dataclass(frozen=True, slots=True)
class Prompts:
    """``held_out`` prompts measure the drafter; it never learns from them."""

    learned: tuple[Prompt, ...]
    held_out: tuple[Prompt, ...]


def read(path: Path) -> Prompts:
    """Read a file of JSON lines, each with ``messages`` or ``prompt``.

    Lines with ``"held_out": true`` are held out. Raises PromptsError.
    """
    try:
        lines = bounded(path, LARGEST).decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise PromptsError(
            f"{path} cannot be read ({what_failed(error)}). Prompts come from a file of JSON lines, from "
            "'pip' or from 'chats'."
        ) from error
    found = [_from_line(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    aside = tuple(prompt for prompt, held_out in found if held_out)
    return Prompts(tuple(prompt for prompt, held_out in found if not held_out), aside)


def from_file(path: Path, count: int, held_out: int, seed: int) -> Prompts:
    """Draw ``count`` and ``held_out`` prompts of a file with ``seed``. Raises PromptsError.

    A file that holds out none, or all, is split by ``split``.
    """
    known = read(path)
    if not known.learned or not known.held_out:
        return split((*known.learned, *known.held_out), count, held_out, seed, str(path))
    learned, aside = list(known.learned), list(known.held_out)
    for prompts in (learned, aside):
        random.Random(subseed(seed, "order")).shuffle(prompts)
    return Prompts(tuple(learned[:count]), tuple(aside[:held_out]))


def split(found: Iterable[Prompt], count: int, held_out: int, seed: int, where: str) -> Prompts:
    """Hold out ``held_out``, at most a fourth. Raises PromptsError for fewer than two prompts."""
    prompts = list(dict.fromkeys(found))
    if len(prompts) < 2:
        raise PromptsError(
            f"{where} holds {len(prompts)} different prompts; a drafter needs some to learn from and one "
            "at least to be measured on. Several hundred are a good beginning."
        )
    random.Random(subseed(seed, "order")).shuffle(prompts)
    aside = max(1, min(held_out, len(prompts) // 4))
    return Prompts(tuple(prompts[aside : aside + count]), tuple(prompts[:aside]))


def _from_line(path: Path, number: int, line: str) -> tuple[Prompt, bool]:
    """Return the prompt, and True if it is held out."""
    try:
        entry: Any = parse_json(line)
        aside = entry.get("held_out") is True
        if "prompt" in entry:
            return (Message("user", _text(entry["prompt"])),), aside
        messages = [
            Message(_text(said["role"]), _text(said["content"])) for said in entry["messages"]
        ]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise PromptsError(
            f'{path}, line {number}: no prompt there. A line is {{"prompt": "..."}} or '
            '{"messages": [{"role": "user", "content": "..."}]}.'
        ) from error
    return tuple(_up_to_question(messages)), aside


def _up_to_question(messages: Iterable[Message]) -> Iterator[Message]:
    """Yield the chat up to its last question, which the target answers."""
    kept = list(messages)
    while kept and kept[-1].role == "assistant":
        kept.pop()
    yield from kept


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("not a text")
    return value
