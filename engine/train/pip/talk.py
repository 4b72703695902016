"""Small talk with Pip, and readers for files of other people's dialogues."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path

from engine.train.pip import manners
from engine.train.pip.corpus import ascii_text, is_unwanted
from engine.train.pip.example import Example, KeywordCheck, chat

KIND = "talk"


def generate(rng: random.Random, held_out: bool) -> Example:
    """A chat of small talk."""
    exchange = rng.choice((manners.greeting, manners.thanks, manners.goodbye))(rng, held_out)
    return Example(KIND, chat(exchange.said, exchange.reply), KeywordCheck((exchange.words,)))


MOST_TURNS = 8
_SPEAKER = re.compile(r"(User|Bot): (.*)")


def read_sgd(file: Path) -> Iterator[Example]:
    """The task dialogues of a JSONL file with `messages`, cut to their first eight turns, ending with a reply."""
    for line in file.read_text(encoding="utf-8").splitlines():
        turns = [ascii_text(message["content"]).strip() for message in json.loads(line)["messages"]]
        yield from _dialogue(turns)


def read_soda(file: Path) -> Iterator[Example]:
    """The dialogues of a text file of `User:` and `Bot:` lines; other blocks of the file are passed over."""
    for block in re.split(r"\n\s*\n", file.read_text(encoding="utf-8")):
        lines = [_SPEAKER.fullmatch(line.strip()) for line in block.strip().splitlines()]
        spoken = [line for line in lines if line is not None]
        if len(spoken) == len(lines) and [line[1] for line in spoken[:2]] == ["User", "Bot"]:
            yield from _dialogue(
                [ascii_text(line[2].removesuffix("<|endoftext|>")).strip() for line in spoken]
            )


def _dialogue(turns: list[str]) -> Iterator[Example]:
    """The turns as a talk example without a check; nothing if a turn is empty or has words Pip should not learn."""
    kept = turns[: min(len(turns), MOST_TURNS) // 2 * 2]
    if kept and all(kept) and not is_unwanted(" ".join(kept)):
        yield Example(KIND, chat(*kept), None)
