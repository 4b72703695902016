"""Small word problems with a short working, and a reader for gsm8k.

Every reply ends "The answer is N." Every number is a whole one between 2 and 60. One set of numbers in ten is held out:
training shows the template with other numbers.
"""

from __future__ import annotations

import json
import random
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tools.pip.corpora import wording, yaml_file
from tools.pip.corpora.corpus import ascii_text
from tools.pip.corpora.example import Example, NumberCheck, chat

KIND = "problem"
LARGEST = 60  # what a model of this size learns to add and multiply in an hour
GSM8K_WORDS = 90

_TEMPLATE_FILE = Path(__file__).parent / "problems.yaml"
_HELD_OUT_PART = 10
_RANGES = (
    dict.fromkeys("abcd", (2, 30))
    | dict.fromkeys("km", (2, 9))
    | {"p": (2, 12), "q": (2, 12), "e": (10, 24)}
)
_STEP = re.compile(r"<(\w): (\w+) ([-+*/]) (\w+)>")
_SLOT = re.compile(r"\{([a-z])\}")
_CALCULATOR = re.compile(r"<<[^>]*>>")
_THINGS = (
    "apples pears plums nuts eggs cookies books stamps coins marbles buttons shells stones cards pencils pens stickers "
    "balls flowers leaves candles cups plates spoons toys kites beads tickets photos letters carrots potatoes lemons "
    "oranges cherries muffins sweets acorns feathers keys bottles boxes socks hats badges balloons bricks"
).split()
_HE = "Tom Ben Leo Max Sam Finn Omar Ivan Noah Paul Jack Luis Karl Amir Hugo Erik Adam Theo Ravi Dan Oskar Milo".split()
_SHE = "Ada Mia Eva Zoe Lily Anna Nora Sara Maya Ines Ruth Emma Lena Rosa Aisha Kate Jane Olga Tara Lucy Ida Bea".split()
_OPENERS = ("Solve this: ", "A small problem: ", "Can you solve this? ", "Please calculate: ", "Help me with this: ",
    "Word problem: ", "Question: ", "Math: ", "Hey Pip, solve this. ", "Here is a riddle with numbers. ")  # fmt: skip
_CLOSERS = (
    " Show your working.",
    " Please solve it.",
    " Explain briefly.",
    " Thanks!",
    " What is the answer?",
)


@dataclass(frozen=True, slots=True)
class Template:
    """A problem with slots, and a working whose steps define further numbers."""

    kind: str
    text: str
    work: str

    @property
    def slots(self) -> list[str]:
        """The numbers that its text needs."""
        return sorted(set(_SLOT.findall(self.text)) & _RANGES.keys())

    @property
    def scarce(self) -> bool:
        """Whether it has too few numbers to keep some back; such a template is for training alone."""
        return self.slots in (["k"], ["m"])


@cache
def templates() -> tuple[Template, ...]:
    """The templates of `problems.yaml`."""
    data = yaml_file.read(_TEMPLATE_FILE)
    return tuple(Template(kind, **entry) for kind, entries in data.items() for entry in entries)


def generate(rng: random.Random, held_out: bool) -> Example:
    """One problem of one template."""
    template = rng.choice([entry for entry in templates() if not (held_out and entry.scarce)])
    numbers = _numbers(rng, template, held_out)
    words = _words(rng)
    asked = _fill(template.text, words, numbers)
    if not held_out:
        asked = _dressed(rng, asked)
    work = _STEP.sub(lambda step: _equation(step, numbers), template.work)
    last = _STEP.findall(template.work)[-1][0]
    reply = f"{_fill(work, words, numbers)} The answer is {numbers[last]}."
    return Example(KIND, chat(asked, reply), NumberCheck(numbers[last]))


def read_gsm8k(file: Path) -> Iterator[Example]:
    """The short problems of a gsm8k JSONL file, its calculator marks removed."""
    for line in file.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        working, _, answer = _CALCULATOR.sub("", ascii_text(entry["answer"])).rpartition("####")
        question, answer = ascii_text(entry["question"]).strip(), answer.strip()
        reply = f"{working.strip()}\nThe answer is {answer}."
        if len(f"{question} {reply}".split()) <= GSM8K_WORDS:
            yield Example(KIND, chat(question, reply), NumberCheck(float(answer.replace(",", ""))))


def _numbers(rng: random.Random, template: Template, held_out: bool) -> dict[str, int]:
    """Numbers for all slots and steps, on the asked side of the split."""
    while True:
        numbers = {slot: rng.randint(*_RANGES[slot]) for slot in template.slots}
        key = f"{template.text} {sorted(numbers.items())}".encode()
        if not template.scarce and (zlib.crc32(key) % _HELD_OUT_PART == 0) != held_out:
            continue
        if _solve(template, numbers):
            return numbers


def _solve(template: Template, numbers: dict[str, int]) -> bool:
    """Adds the results of the steps to `numbers`; False if one is not a whole number between 2 and 60."""
    for name, left, sign, right in _STEP.findall(template.work):
        first, second = _value(left, numbers), _value(right, numbers)
        if sign == "/" and first % second:
            return False
        result = {
            "+": first + second,
            "-": first - second,
            "*": first * second,
            "/": first // second,
        }[sign]
        if not 2 <= result <= LARGEST:
            return False
        numbers[name] = result
    return True


def _equation(step: re.Match[str], numbers: Mapping[str, int]) -> str:
    name, left, sign, right = step.groups()
    return f"{_value(left, numbers)} {sign} {_value(right, numbers)} = {numbers[name]}"


def _value(term: str, numbers: Mapping[str, int]) -> int:
    return int(term) if term.isdigit() else numbers[term]


def _words(rng: random.Random) -> dict[str, str]:
    """Names, pronouns and things."""
    he = rng.random() < 0.5
    name = rng.choice(_HE if he else _SHE)
    other = rng.choice([candidate for candidate in _HE + _SHE if candidate != name])
    pronouns = ("he", "him", "his") if he else ("she", "her", "her")
    words = dict(zip(("he", "him", "his"), pronouns, strict=True))
    words |= {key.capitalize(): word.capitalize() for key, word in words.items()}
    return words | {"N": name, "M": other, "things": rng.choice(_THINGS)}


def _fill(text: str, words: Mapping[str, str], numbers: Mapping[str, int]) -> str:
    return text.format(**words, **numbers)


def _dressed(rng: random.Random, asked: str) -> str:
    chance = rng.random()
    if chance < 0.12:
        asked = rng.choice(_OPENERS) + asked
    elif chance < 0.2:
        asked += rng.choice(_CLOSERS)
    if rng.random() < 0.05:
        asked = wording.typo(rng, asked)
    return wording.casual(rng, asked)
