"""Questions about Foretoken: topic files in, chats with one, two or three of their answers out.

A topic file is a YAML list of `{id, name, about, ask, held_out, answer, keywords}`: phrasings to train on, two kept
back for tests, the one true answer, and groups of words (`[[alternative, ...], ...]`) that a right answer contains.
`about` says whether the topic can also be asked for by its name ("What does {name} mean?").
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tools.pip.corpora import manners, wording, yaml_file
from tools.pip.corpora.example import Example, KeywordCheck, chat

KIND = "guide"
TOPIC_FOLDER = Path(__file__).parent / "guide"

_FIELDS = frozenset({"id", "name", "about", "ask", "held_out", "answer", "keywords"})
_BY_NAME = (
    "What is {name}?", "what is {name}", "What does {name} mean?", "what does {name} mean", "Please explain {name}.",
    "Explain {name}.", "Explain {name} to me.", "Tell me about {name}.", "tell me about {name}", "{name}?", "{name}",
    "What do you know about {name}?", "Can you explain {name}?", "I don't understand {name}.", "Define {name}.",
    "What is {name} about?", "I want to know about {name}.", "Describe {name}.", "Could you explain {name} to me?",
    "What's {name}?", "whats {name}", "Explain {name} in simple words.", "help me understand {name}",
    "I read about {name}. What is that?", "What exactly is {name}?", "Give me a short explanation of {name}.",
)  # fmt: skip
_FOLLOW_UPS = (
    "And {name}?", "What about {name}?", "and what is {name}?", "Now explain {name}.", "And what does {name} mean?",
    "Next: {name}.", "Then what is {name}?", "Okay, and {name}?", "And now {name}, please.", "what about {name}",
    "You didn't mention {name}.", "How about {name}?", "Also explain {name}.",
)  # fmt: skip
_BRIDGES = (
    "Thanks! ", "Thanks. ", "thanks, ", "Great. ", "Ok. ", "I see. ", "Got it. ", "Ah, okay. ", "Interesting. ",
    "Thank you. ", "Good. And ", "Another question: ", "Next question: ", "One more: ", "And ", "Also, ", "Now: ",
    "Alright, ", "Cool. ", "Makes sense. ",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Topic:
    """One thing that Pip can explain."""

    id: str
    name: str
    about: bool
    ask: tuple[str, ...]
    held_out: tuple[str, ...]
    answer: str
    keywords: tuple[tuple[str, ...], ...]


class TopicError(ValueError):
    """A topic file breaks the format; the message names the file and the topic."""


def load(folder: Path = TOPIC_FOLDER) -> tuple[Topic, ...]:
    """The topics of all files in `folder`. Raises TopicError where a file breaks the format."""
    files = sorted(folder.glob("*.yaml"))
    if not files:
        raise TopicError(f"{folder}: no topic files (*.yaml)")
    topics: list[Topic] = []
    origin: dict[str, str] = {}
    for file in files:
        for topic in _read(file):
            if topic.id in origin:
                raise TopicError(
                    f"{file.name}: topic {topic.id!r} is already in {origin[topic.id]}; ids must differ"
                )
            origin[topic.id] = file.name
            topics.append(topic)
    _check_phrasings(topics, origin)
    return tuple(topics)


def generate(rng: random.Random, held_out: bool, topics: Sequence[Topic]) -> Example:
    """A chat about one to three topics. Held out: one question, in a phrasing that training never shows."""
    if held_out:
        topic = rng.choice(topics)
        return Example(KIND, chat(rng.choice(topic.held_out), topic.answer), _check(topic))
    count = rng.choices((1, 2, 3), weights=(76, 17, 7))[0]
    return _conversation(rng, rng.sample(topics, min(count, len(topics))))


def _conversation(rng: random.Random, topics: Sequence[Topic]) -> Example:
    turns: list[str] = []
    if rng.random() < 0.12:
        hello = manners.greeting(rng)
        turns += [hello.said, hello.reply]
    for topic in topics:
        turns += [_question(rng, topic, first=not turns), topic.answer]
    if rng.random() < 0.06:
        end = manners.thanks(rng)
        return Example(KIND, chat(*turns, end.said, end.reply), KeywordCheck((end.words,)))
    return Example(KIND, chat(*turns), _check(topics[-1]))


def _question(rng: random.Random, topic: Topic, first: bool) -> str:
    if not first and topic.about and rng.random() < 0.3:
        asked = _by_name(rng, topic, _FOLLOW_UPS)
        return wording.casual(rng, asked)
    if topic.about and rng.random() < 0.2:
        asked = _sentence(_by_name(rng, topic, _BY_NAME))
    else:
        asked = rng.choice(topic.ask)
    if not first and rng.random() < 0.45:
        bridge = rng.choice(_BRIDGES)
        return wording.casual(
            rng, bridge + (asked if bridge.rstrip()[-1] in ".!:" else wording.lower_first(asked))
        )
    return wording.vary(rng, asked)


def _by_name(rng: random.Random, topic: Topic, phrasings: Sequence[str]) -> str:
    """A phrasing with the name of the topic, but none that is held out."""
    held_out = {_key(phrasing) for phrasing in topic.held_out}
    asked = [phrasing.format(name=topic.name) for phrasing in phrasings]
    return rng.choice([phrasing for phrasing in asked if _key(phrasing) not in held_out])


def _key(phrasing: str) -> str:
    """What two phrasings that differ only in case and their last mark have in common."""
    return phrasing.lower().rstrip("?.! ")


def _sentence(text: str) -> str:
    """A name that stands at the start of a phrasing gets its capital letter."""
    return text[0].upper() + text[1:] if text[-1] in "?." else text


def _check(topic: Topic) -> KeywordCheck:
    return KeywordCheck(topic.keywords)


def _read(file: Path) -> list[Topic]:
    try:
        entries = yaml_file.read(file)
    except yaml.YAMLError as error:
        raise TopicError(f"{file.name}: not valid YAML: {error}") from error
    if not isinstance(entries, list):
        raise TopicError(f"{file.name}: expected a list of topics")
    return [_topic(file, number, entry) for number, entry in enumerate(entries, start=1)]


def _topic(file: Path, number: int, entry: Any) -> Topic:
    where = f"{file.name}: topic {number}"
    if not isinstance(entry, dict):
        raise TopicError(f"{where}: expected fields, found {entry!r}")
    where = f"{file.name}: topic {entry.get('id', number)!r}"
    if entry.keys() != _FIELDS:
        missing, unknown = sorted(_FIELDS - entry.keys()), sorted(entry.keys() - _FIELDS)
        raise TopicError(f"{where}: missing fields {missing}, unknown fields {unknown}")
    if not isinstance(entry["about"], bool):
        raise TopicError(f"{where}: about must be true or false, not {entry['about']!r}")
    topic = Topic(
        id=_text(entry["id"], where, "id"),
        name=_text(entry["name"], where, "name"),
        about=entry["about"],
        ask=_texts(entry["ask"], where, "ask"),
        held_out=_texts(entry["held_out"], where, "held_out"),
        answer=_text(entry["answer"], where, "answer"),
        keywords=tuple(
            _texts(group, where, "keywords")
            for group in _list(entry["keywords"], where, "keywords")
        ),
    )
    _check_topic(topic, where)
    return topic


def _check_topic(topic: Topic, where: str) -> None:
    if len(topic.held_out) != 2:
        raise TopicError(f"{where}: held_out must have two phrasings, it has {len(topic.held_out)}")
    for text in (topic.answer, *topic.ask, *topic.held_out):
        if not text.isascii():
            raise TopicError(f"{where}: only ASCII characters, please: {text!r}")
    answer = topic.answer.lower()
    for group in topic.keywords:
        if not any(word.lower() in answer for word in group):
            raise TopicError(f"{where}: the answer has none of the keywords {list(group)}")


def _check_phrasings(topics: Sequence[Topic], origin: dict[str, str]) -> None:
    """One phrasing means one topic, and a held-out phrasing is never trained on."""
    owner: dict[str, str] = {}
    for topic in topics:
        for phrasing in (*topic.ask, *topic.held_out):
            key = _key(phrasing)
            if key in owner:
                where = f"{origin[topic.id]}: topic {topic.id!r}"
                raise TopicError(
                    f"{where}: the phrasing {phrasing!r} is already used by topic {owner[key]!r}"
                )
            owner[key] = topic.id


def _text(value: Any, where: str, field: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise TopicError(
            f"{where}: {field} must be a text, not {value!r}; quote a text that has a colon"
        )
    return value.strip()


def _list(value: Any, where: str, field: str) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise TopicError(f"{where}: {field} must be a list that is not empty, not {value!r}")
    return value


def _texts(value: Any, where: str, field: str) -> tuple[str, ...]:
    return tuple(_text(item, where, field) for item in _list(value, where, field))
