"""Prompts for the target whose replies are recorded."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import ForetokenError, what_failed
from engine.files import bounded, parse_json
from engine.train.schema import subseed
from engine.values.messages import Message
from engine.values.units import counted

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
        lines = bounded(path, LARGEST).decode("utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise PromptsError(
            f"{path} cannot be read ({what_failed(error)}). Give a file of JSON lines, "
            "'pip' or 'chats'."
        ) from error
    entries = [
        _from_line(path, number, line) for number, line in enumerate(lines, 1) if line.strip()
    ]
    held_out = tuple(prompt for prompt, is_held_out in entries if is_held_out)
    return Prompts(tuple(prompt for prompt, is_held_out in entries if not is_held_out), held_out)


def from_file(path: Path, count: int, held_out: int, seed: int) -> Prompts:
    """Draw ``count`` and ``held_out`` prompts of a file with ``seed``. Raises PromptsError.

    A file that holds out none, or all, is split by ``split``.
    """
    prompts = read(path)
    if not prompts.learned or not prompts.held_out:
        return split((*prompts.learned, *prompts.held_out), count, held_out, seed, str(path))
    learned, measured = list(prompts.learned), list(prompts.held_out)
    for each in (learned, measured):
        random.Random(subseed(seed, "order")).shuffle(each)
    return Prompts(tuple(learned[:count]), tuple(measured[:held_out]))


def split(prompts: Iterable[Prompt], count: int, held_out: int, seed: int, where: str) -> Prompts:
    """Hold out ``held_out``, at most a fourth. Raises PromptsError for fewer than two prompts."""
    different = list(dict.fromkeys(prompts))
    if len(different) < 2:
        raise PromptsError(
            f"Found {counted(len(different), 'different prompt')} in {where}. Training needs "
            "at least two; several hundred work well."
        )
    random.Random(subseed(seed, "order")).shuffle(different)
    held_out = max(1, min(held_out, len(different) // 4))
    return Prompts(tuple(different[held_out : held_out + count]), tuple(different[:held_out]))


def _from_line(path: Path, number: int, line: str) -> tuple[Prompt, bool]:
    """Return the prompt, the chat up to its last question, and True if it is held out."""
    try:
        entry: Any = parse_json(line)
        held_out = entry.get("held_out") is True
        if "prompt" in entry:
            return (Message("user", _text(entry["prompt"])),), held_out
        messages = [
            Message(_text(each["role"]), _text(each["content"])) for each in entry["messages"]
        ]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise PromptsError(
            f'{path}, line {number} is not a prompt. Write {{"prompt": "..."}} or '
            f'{{"messages": [{{"role": "user", "content": "..."}}]}}.'
        ) from error
    while messages and messages[-1].role == "assistant":  # the target answers the last question
        messages.pop()
    return tuple(messages), held_out


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("not a text")
    return value
