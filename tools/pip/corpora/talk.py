"""Small talk with Pip, and readers for files of other people's dialogues.

Pip greets, remembers within a chat what it is told about the user, and says kindly what it cannot do and who can.
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
from typing import Any

from tools.pip.corpora import manners, wording, yaml_file
from tools.pip.corpora.corpus import ascii_text, is_unwanted
from tools.pip.corpora.example import Check, Example, KeywordCheck, chat

KIND = "talk"

_TALK_FILE = Path(__file__).parent / "talk.yaml"
_HELD_OUT_PART = 10  # of the invented names
_FILLING = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Subject:
    """Ways to say one thing, Pip's replies to it, and groups of words that a right reply has."""

    ask: tuple[str, ...]
    held_out: tuple[str, ...]
    answers: tuple[str, ...]
    keywords: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Book:
    """What `talk.yaml` holds."""

    fillings: Mapping[str, list[str]]
    refusals: tuple[Subject, ...]
    small_talk: tuple[Subject, ...]


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that users tell about themselves, and how they ask for it later."""

    name: str
    values: tuple[str, ...]
    told: tuple[str, ...]
    noted: tuple[str, ...]
    ask: tuple[str, ...]
    held_out: tuple[str, ...]
    recalled: tuple[str, ...]
    unknown: str


@cache
def book() -> Book:
    """The content of `talk.yaml`."""
    data = yaml_file.read(_TALK_FILE)
    return Book(data["fillings"], _subjects(data["refusals"]), _subjects(data["small_talk"]))


def generate(rng: random.Random, held_out: bool) -> Example:
    """A chat of small talk: a refusal, a memory, a greeting or the like."""
    make = rng.choices((_refusal, _memory, _small_talk, _manners), weights=(38, 34, 18, 10))[0]
    return make(rng, held_out)


def _refusal(rng: random.Random, held_out: bool) -> Example:
    return _about(rng, rng.choice(book().refusals), held_out)


def _small_talk(rng: random.Random, held_out: bool) -> Example:
    return _about(rng, rng.choice(book().small_talk), held_out)


def _manners(rng: random.Random, held_out: bool) -> Example:
    exchange = rng.choice((manners.greeting, manners.thanks, manners.goodbye))(rng, held_out)
    return Example(KIND, chat(exchange.said, exchange.reply), KeywordCheck((exchange.words,)))


def _about(rng: random.Random, subject: Subject, held_out: bool) -> Example:
    """One asking, after a greeting or before thanks in some chats."""
    said = _said(rng, subject, held_out)
    turns = [said, rng.choice(subject.answers)]
    check: Check = KeywordCheck(subject.keywords)
    if not held_out and rng.random() < 0.1:
        hello = manners.greeting(rng)
        turns = [hello.said, hello.reply, *turns]
    if not held_out and rng.random() < 0.06:
        end = manners.thanks(rng)
        turns += [end.said, end.reply]
        check = KeywordCheck((end.words,))
    return Example(KIND, chat(*turns), check)


def _said(rng: random.Random, subject: Subject, held_out: bool) -> str:
    fillings = book().fillings
    asked = rng.choice(subject.held_out if held_out else subject.ask)
    asked = _FILLING.sub(lambda slot: rng.choice(fillings[slot[1]]), asked)
    if held_out:
        return asked
    return wording.vary(rng, asked) if len(asked.split()) > 3 else wording.casual(rng, asked)


def _subjects(entries: list[dict[str, Any]]) -> tuple[Subject, ...]:
    return tuple(
        Subject(
            ask=tuple(entry["ask"]),
            held_out=tuple(entry["held_out"]),
            answers=tuple(entry["answers"]),
            keywords=tuple(map(tuple, entry["keywords"])),
        )
        for entry in entries
    )


_NAMES = (
    "Ada Tom Mia Ben Eva Leo Zoe Max Lily Sam Anna Finn Nora Omar Sara Ivan Maya Noah Ines Paul Ruth Jack Emma Luis Lena "
    "Karl Rosa Amir Aisha Hugo Kate Erik Jane Adam Olga Theo Tara Ravi Lucy Dan Ida Oskar Bea Milo Clara Felix Greta Jonas "
    "Marta Pedro Yuki Hana Kofi Amara Sven Freya Diego Elif Mehmet Chen Priya Arjun Fatima Yusuf Nadia Boris Vera Stefan "
    "Judith Martin Susan Peter Linda George Helen Robert Alice Frank Irene Walter Julia Simon Laura Philip Teresa Victor "
    "Agnes Bruno Cora Dario Edith Fabian Gina Harold Isabel Jasper Kira Lorenzo Mabel Nils Odette Pavel Quinn Rita Silas "
    "Thea Ulrich Vivian Wendy Xenia Yara Zack"
).split()
_INVENTED = ("name", "city", "pet")
_SYLLABLES = (
    "ba be bo bra da de do dra el en fa fe fi ga go gri ha he hu in ja jo ka ke ki kor la le li lu ma me mi mo na ne no "
    "or pa pe pi qua ra re ri ro sa se si so ta te ti to tra ul va ve vi wa we xa ya yo za ze zu"
).split()
_ENDINGS = ("", "", "n", "l", "s", "r", "th", "ck", "nd")
_FACTS = (
    Fact(
        "name", tuple(_NAMES),
        told=("My name is {v}.", "I'm {v}.", "I am {v}.", "my name is {v}", "Hi, I'm {v}.", "Call me {v}.", "Hello, my name is {v}.",
              "People call me {v}.", "Hi Pip, I am {v}.", "You can call me {v}.", "{v} is my name.", "Hey, {v} here."),
        noted=("Nice to meet you, {v}!", "Hello {v}! Nice to meet you.", "Hello {v}, what can I do for you?"),
        ask=("What's my name?", "What is my name?", "what is my name", "Do you know my name?", "Do you remember my name?",
             "Who am I?", "What am I called?", "say my name", "Do you still know what I am called?", "How am I called?"),
        held_out=("Can you tell me my name?", "Do you recall what my name is?"),
        recalled=("Your name is {v}.",),
        unknown="You have not told me your name yet. What is it?",
    ),
    Fact(
        "colour", tuple("red blue green yellow orange purple black white brown pink grey violet silver gold turquoise".split()),
        told=("My favourite colour is {v}.", "my favorite color is {v}", "I like {v} best of all colours.", "{v} is my favourite colour.",
              "My favorite color is {v}.", "The colour I love most is {v}."),
        noted=("{V} is a fine colour.", "I'll remember that you like {v}.", "{V}, how nice!"),
        ask=("What is my favourite colour?", "what's my favorite color", "Which colour do I like?", "Do you remember my favourite colour?",
             "Which color do I like best?", "what colour did I say"),
        held_out=("Can you tell me my favourite colour?", "Which colour is my favourite?"),
        recalled=("Your favourite colour is {v}.",),
        unknown="You have not told me your favourite colour yet. What is it?",
    ),
    Fact(
        "animal", tuple("cat dog horse fox owl rabbit bear wolf penguin elephant tiger dolphin hedgehog turtle frog parrot otter goat deer mouse".split()),
        told=("My favourite animal is the {v}.", "My favorite animal is the {v}.", "The animal I like best is the {v}.", "my favourite animal is the {v}",
              "Of all animals I love the {v} most."),
        noted=("The {v} is a fine animal.", "I'll remember that you like the {v}.", "A good choice! Shall I tell you a tale about one?"),
        ask=("What is my favourite animal?", "what's my favorite animal", "Which animal do I like?", "Do you remember my favourite animal?",
             "Which animal do I like best?"),
        held_out=("Can you tell me my favourite animal?", "Which animal is my favourite?"),
        recalled=("Your favourite animal is the {v}.",),
        unknown="You have not told me your favourite animal yet. What is it?",
    ),
    Fact(
        "food", tuple("pizza soup pasta rice bread cheese pancakes sushi salad curry potatoes noodles tacos porridge cake chocolate apples stew dumplings fish".split()),
        told=("My favourite food is {v}.", "My favorite food is {v}.", "I like {v} best of all food.", "my favorite food is {v}", "The food I love most is {v}."),
        noted=("{V} sounds good!", "I'll remember that you like {v}.", "I can't eat, but {v} sounds good."),
        ask=("What is my favourite food?", "what's my favorite food", "Which food do I like?", "Do you remember my favourite food?", "What do I like to eat?"),
        held_out=("Can you tell me my favourite food?", "Which food is my favourite?"),
        recalled=("Your favourite food is {v}.",),
        unknown="You have not told me your favourite food yet. What is it?",
    ),
    Fact(
        "city", ("Paris", "London", "Berlin", "Rome", "Tokyo", "Madrid", "Lima", "Cairo", "Oslo", "Boston", "Prague", "Delhi", "Sydney", "Dublin",
                 "Vienna", "Chicago", "Lagos", "Athens", "Zurich", "Leeds", "Porto", "Ghent", "Bergen", "Seattle", "Denver", "Kyoto", "Quito"),
        told=("I live in {v}.", "i live in {v}", "My home is {v}.", "I'm living in {v}.", "My home town is {v}.", "I moved to {v}."),
        noted=("{v}, good to know!", "I'll remember that you live in {v}.", "I hope you like it in {v}."),
        ask=("Where do I live?", "where do i live", "Which city do I live in?", "Do you remember where I live?", "In which city do I live?", "What is my home town?"),
        held_out=("Can you tell me where I live?", "What city is my home?"),
        recalled=("You live in {v}.",),
        unknown="You have not told me where you live yet. Where is it?",
    ),
    Fact(
        "job", tuple("teacher nurse baker farmer painter doctor student pilot gardener carpenter cook driver tailor lawyer plumber singer writer librarian mechanic waiter".split()),
        told=("I work as a {v}.", "I am a {v}.", "I'm a {v}.", "My job is {v}.", "i work as a {v}", "I earn my living as a {v}."),
        noted=("Being a {v} must be interesting.", "I'll remember that you are a {v}.", "A {v}, how interesting!"),
        ask=("What is my job?", "what's my job", "What do I work as?", "Do you remember my job?", "What do I do for a living?", "what is my profession"),
        held_out=("Can you tell me what my job is?", "Which job do I have?"),
        recalled=("You are a {v}.",),
        unknown="You have not told me your job yet. What is it?",
    ),
    Fact(
        "pet", ("Bello", "Mimi", "Rex", "Luna", "Rocky", "Nala", "Simba", "Daisy", "Charlie", "Molly", "Biscuit", "Pepper", "Oreo", "Coco", "Shadow",
                "Ginger", "Buddy", "Felix", "Misty", "Toby", "Waffles", "Ziggy", "Pickle", "Mocha"),
        told=("My dog is called {v}.", "My cat is called {v}.", "I have a dog named {v}.", "My pet is called {v}.", "I have a cat, her name is {v}."),
        noted=("{v} is a lovely name!", "I'll remember {v}.", "Greetings to {v}!"),
        ask=("What is my pet called?", "What's the name of my pet?", "Do you remember the name of my pet?", "what is my pet's name"),
        held_out=("Can you tell me the name of my pet?", "How is my pet called?"),
        recalled=("Your pet is called {v}.",),
        unknown="You have not told me about a pet yet. What is it called?",
    ),
)  # fmt: skip


def _memory(rng: random.Random, held_out: bool) -> Example:
    """The user tells one to three things, talks of something else, and asks for one of them.

    In one chat of twelve the user asks for a thing never told, and Pip says so.
    """
    told = rng.sample(_FACTS, rng.choices((1, 2, 3), weights=(60, 30, 10))[0])
    if rng.random() < 0.6 and _FACTS[0] not in told:
        told[0] = _FACTS[0]
    if rng.random() < 1 / 12:
        return _never_told(rng, held_out, told)
    values = {fact.name: _value(rng, fact, held_out) for fact in told}
    turns = _telling(rng, told, values)
    for _ in range(rng.choices((0, 1, 2), weights=(45, 40, 15))[0]):
        aside = rng.choice((_small_talk, _refusal))(rng, held_out)
        turns += [message.content for message in aside.messages[-2:]]
    asked = rng.choice(told)
    value = values[asked.name]
    reply = rng.choice(asked.recalled).format(v=value)
    return Example(
        KIND, chat(*turns, _recall(rng, asked, held_out), reply), KeywordCheck(((value,),))
    )


def _value(rng: random.Random, fact: Fact, held_out: bool) -> str:
    """A value to tell. Names are often invented, so that recalling is copying; held-out names are never trained on."""
    if fact.name not in _INVENTED or not (held_out or rng.random() < 0.5):
        return rng.choice(fact.values)
    while True:
        name = "".join(rng.choices(_SYLLABLES, k=rng.choice((2, 2, 3)))).capitalize() + rng.choice(
            _ENDINGS
        )
        if (zlib.crc32(name.encode()) % _HELD_OUT_PART == 0) == held_out:
            return name


def _telling(rng: random.Random, told: list[Fact], values: Mapping[str, str]) -> list[str]:
    """The turns in which the facts are told, all at once or one after the other."""
    said = [_first_upper(rng.choice(fact.told).format(v=values[fact.name])) for fact in told]
    noted = [_noted(rng, fact, values[fact.name]) for fact in told]
    if len(told) > 1 and rng.random() < 0.5:
        said = [line if line[-1] in ".?!" else f"{line}." for line in said]
        return [" ".join(said), noted[0]]
    return [
        turn
        for pair in zip((wording.casual(rng, line) for line in said), noted, strict=True)
        for turn in pair
    ]


def _noted(rng: random.Random, fact: Fact, value: str) -> str:
    return rng.choice(fact.noted).format(v=value, V=_first_upper(value))


def _recall(rng: random.Random, fact: Fact, held_out: bool) -> str:
    return rng.choice(fact.held_out) if held_out else wording.vary(rng, rng.choice(fact.ask))


def _never_told(rng: random.Random, held_out: bool, told: list[Fact]) -> Example:
    asked = rng.choice([fact for fact in _FACTS if fact not in told])
    turns: list[str] = []
    if rng.random() < 0.5:
        fact = told[0]
        turns = _telling(rng, [fact], {fact.name: _value(rng, fact, held_out)})
    check = KeywordCheck((("not told me",),))
    return Example(KIND, chat(*turns, _recall(rng, asked, held_out), asked.unknown), check)


def _first_upper(text: str) -> str:
    return text[0].upper() + text[1:]


MOST_TURNS = 8
# Other people's dialogues carry a system message of their own, so that Pip does not take their voice for its own.
SGD_SYSTEM = "You are a booking assistant."
SODA_SYSTEM = "You are a friend in a chat."
_SPEAKER = re.compile(r"(User|Bot): (.*)")


def read_sgd(file: Path) -> Iterator[Example]:
    """The task dialogues of a JSONL file with `messages`, cut to their first eight turns, ending with a reply."""
    for line in file.read_text(encoding="utf-8").splitlines():
        turns = [ascii_text(message["content"]).strip() for message in json.loads(line)["messages"]]
        yield from _dialogue(SGD_SYSTEM, turns)


def read_soda(file: Path) -> Iterator[Example]:
    """The dialogues of a text file of `User:` and `Bot:` lines; other blocks of the file are passed over."""
    for block in re.split(r"\n\s*\n", file.read_text(encoding="utf-8")):
        lines = [_SPEAKER.fullmatch(line.strip()) for line in block.strip().splitlines()]
        spoken = [line for line in lines if line is not None]
        if len(spoken) == len(lines) and _alternates([line[1] for line in spoken]):
            said = [ascii_text(line[2].removesuffix("<|endoftext|>")).strip() for line in spoken]
            yield from _dialogue(SODA_SYSTEM, said)


def _alternates(speakers: list[str]) -> bool:
    return all(speaker == ("User", "Bot")[number % 2] for number, speaker in enumerate(speakers))


def _dialogue(system: str, turns: list[str]) -> Iterator[Example]:
    """The turns as a talk example without a check; nothing if a turn is empty or has words Pip should not learn."""
    kept = turns[: min(len(turns), MOST_TURNS) // 2 * 2]
    if kept and all(kept) and not is_unwanted(" ".join(kept)):
        yield Example(KIND, chat(*kept, system=system), None)
