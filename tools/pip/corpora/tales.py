"""Short tales: old fables asked for by title or subject, and tales of a grammar of our own.

The grammar (`plots.yaml`) makes tales of 60 to 130 words in which everything that was asked for occurs. Some pairs of
animal and thing are kept out of training, so that held-out examples ask for tales nobody has shown.
"""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tools.pip.corpora import wording, yaml_file
from tools.pip.corpora.corpus import is_unwanted, sections
from tools.pip.corpora.example import Example, KeywordCheck, chat

KIND = "tale"
FEWEST_WORDS, MOST_WORDS = 40, 170

_GRAMMAR_FILE = Path(__file__).parent / "plots.yaml"
_HELD_OUT_PART = 12  # one pair of animal and thing in twelve is held out


@dataclass(frozen=True, slots=True)
class Tale:
    """An old tale that is short enough to tell in a chat."""

    title: str
    text: str
    subjects: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Thing:
    """An object of a tale; without `trouble` it fits only plots that do not need one."""

    name: str
    purpose: str = ""
    trouble: str = ""
    rescue: str = ""
    urgent: bool = False


@dataclass(frozen=True, slots=True)
class Plot:
    """What happens, with choices and slots, and what it teaches."""

    theme: str
    text: str
    urgent: bool = False

    def fits(self, thing: Thing) -> bool:
        """Whether the plot can be told about this thing."""
        if self.urgent:
            return thing.urgent
        return bool(thing.trouble) or not re.search(r"\{(?:trouble|rescue|purpose)\}", self.text)


@dataclass(frozen=True, slots=True)
class Grammar:
    """The parts that tales are made of."""

    animals: tuple[str, ...]
    people: tuple[str, ...]
    names: dict[str, list[str]]
    places: dict[str, list[str]]
    things: tuple[Thing, ...]
    openings: tuple[str, ...]
    morals: dict[str, list[str]]
    plots: tuple[Plot, ...]


@dataclass(frozen=True, slots=True)
class Cast:
    """Who and what a tale is about."""

    hero: str
    other: str
    thing: Thing
    place: str
    name: str
    pronoun: str  # he or she
    plot: Plot


@cache
def grammar() -> Grammar:
    """The grammar of `plots.yaml`."""
    data = yaml_file.read(_GRAMMAR_FILE)
    urgent = set(data["urgent"].split())
    things = [
        Thing(name, purpose, trouble, rescue, urgent=name in urgent)
        for name, (purpose, trouble, rescue) in data["things"].items()
    ]
    return Grammar(
        animals=tuple(data["animals"].split()),
        people=tuple(data["people"]),
        names=data["names"],
        places=data["places"],
        things=(*things, *map(Thing, data["extra_things"])),
        openings=tuple(data["openings"]),
        morals=data["morals"],
        plots=tuple(Plot(**plot) for plot in data["plots"]),
    )


# What a request names, besides the hero. The checks ask for the same words in the tale.
_ASK_HERO = (
    "Tell me a short tale about {a}.", "Tell me a tale about {a}.", "Tell me a story about {a}.",
    "a short story about {a} please", "Can you tell a tale about {a}?", "Write a short tale about {a}.",
    "I'd like a tale about {a}.", "story about {a}", "Make up a tale about {a}.", "Do you know a tale with {a}?",
    "Tell my daughter a bedtime story about {a}.", "A fable about {a}, please.", "Invent a story with {a}.",
)  # fmt: skip
_ASK_HERO_HELD_OUT = (
    "I would love to hear a little tale about {a}.",
    "Please make a short story with {a} in it.",
)
_ASK_THING = (
    "Tell me a short tale about {a} and {o}.", "Tell me a tale about {a} and {o}.", "Write a short story about {a} and {o}.",
    "Tell me a story with {a} and {o}.", "story about {a} and {o}", "A tale with {a} and {o}, please.",
    "Can you tell me a short tale about {a} and {o}?", "Make up a fable about {a} and {o}.",
    "I want a tale about {a} who finds {o}.", "Please tell a tale in which {a} has {o}.", "tale: {A}, {O}",
    "Invent a short tale about {a} with {o}.", "Could you write a tale about {a} and {o}?",
    "Tell me a bedtime story about {a} and {o}.", "Give me a tale. Hero: {a}. Object: {o}.", "{A} and {O}, a tale please",
)  # fmt: skip
_ASK_THING_HELD_OUT = (
    "I would love to hear a little tale about {a} and {o}.",
    "Please make a short story that has {a} and {o} in it.",
)
_ASK_OTHER = (
    "Tell me a short tale about {a} and {b}.", "Tell me a story about {a} and {b}.", "A tale with {a} and {b}, please.",
    "Write a short fable about {a} and {b}.", "How about a tale of {a} and {b}?", "story with {a} and {b}",
    "Can you tell a tale in which {a} meets {b}?", "Make up a story about {a} and {b}.",
)  # fmt: skip
_ASK_OTHER_HELD_OUT = (
    "I would love to hear a little tale about {a} and {b}.",
    "A short story of {a} and {b}?",
)
_ASK_PLACE = (
    "Tell me a short tale about {a} {where}.", "Tell me a story about {a} who lives {where}.",
    "Write a tale about {a} {where}.", "A tale of {a} {where}, please.", "story about {a} {where}",
)  # fmt: skip
_ASK_PLACE_HELD_OUT = ("I would love to hear a little tale about {a} {where}.",)
_ASK_NAME = (
    "Tell me a tale about {a} named {N}.", "Tell me a short story about {a} called {N}.", "A tale about {N} the {A}, please.",
    "Write a short tale about {a} named {N} and {o}.", "Tell me a story about {N}, {a} with {o}.",
    "My {A} is called {N}. Tell me a tale about {him}.", "Can you make up a tale about {N} the {A}?",
)  # fmt: skip
_ASK_NAME_HELD_OUT = ("I would love to hear a little tale about {a} whose name is {N}.",)
_ASK_THEME = (
    "Tell me a short tale about {theme}.", "Tell me a tale about {a} and {theme}.", "A fable about {theme}, please.",
    "Tell me a story about {a} with a moral about {theme}.", "Write a short tale about {theme} with {a}.",
    "I need a tale about {theme}.", "Can you tell a story about {theme} for children?",
)  # fmt: skip
_ASK_THEME_HELD_OUT = ("I would love to hear a little tale about {theme}.",)
_ASK_ANY = (
    "Tell me a tale.", "Tell me a short tale.", "tell me a story", "Tell me a story.", "A bedtime story, please.",
    "Can you tell me a story?", "Tell a fable.", "I want to hear a tale.", "Do you know a story?", "story please",
    "Write a short story.", "Make up a tale for me.", "Surprise me with a tale.", "Another tale, please.",
    "Tell me something nice.", "I'm bored, tell me a story.", "Read me a short tale.", "one more story",
)  # fmt: skip
_ASK_ANY_HELD_OUT = ("I would love to hear a little tale.", "Have you got a story for me?")


@dataclass(frozen=True, slots=True)
class _Request:
    """Ways to ask, and the slots whose words the tale must have."""

    ask: tuple[str, ...]
    held_out: tuple[str, ...]
    slots: tuple[str, ...]
    moral: bool = False


_REQUESTS = (
    (_Request(_ASK_THING, _ASK_THING_HELD_OUT, ("A", "O")), 46),
    (_Request(_ASK_HERO, _ASK_HERO_HELD_OUT, ("A",)), 14),
    (_Request(_ASK_OTHER, _ASK_OTHER_HELD_OUT, ("A", "B")), 12),
    (_Request(_ASK_PLACE, _ASK_PLACE_HELD_OUT, ("A", "place")), 8),
    (_Request(_ASK_NAME, _ASK_NAME_HELD_OUT, ("A", "N")), 8),
    (_Request(_ASK_THEME, _ASK_THEME_HELD_OUT, ("theme",), moral=True), 8),
    (_Request(_ASK_ANY, _ASK_ANY_HELD_OUT, ()), 4),
)


def generate(rng: random.Random, held_out: bool) -> Example:
    """A request for a tale and a tale of the grammar that has all that was asked for."""
    request = rng.choices(
        [entry for entry, _ in _REQUESTS], weights=[weight for _, weight in _REQUESTS]
    )[0]
    cast = _cast(rng, held_out)
    slots = _slots(cast)
    slots["where"] = rng.choice(grammar().places[cast.place])
    asking = rng.choice(request.held_out if held_out else request.ask)
    asked = _capital(asking.format(**slots)) if asking[-1] in ".?" else asking.format(**slots)
    if not held_out:
        asked = wording.casual(rng, _politely(rng, asked))
    tale = _tell(rng, cast, slots, moral=request.moral or rng.random() < 0.35)
    named = [field for field in ("A", "B", "O", "N", "theme", "where") if f"{{{field}}}" in asking]
    named += [field.upper() for field in ("a", "b", "o") if f"{{{field}}}" in asking]
    words = [slots["place" if field == "where" else field].lower() for field in named]
    return Example(
        KIND, chat(asked, tale), KeywordCheck(tuple((word,) for word in sorted(set(words))))
    )


def is_held_out(hero: str, thing: str) -> bool:
    """Whether the pair is kept out of training."""
    return zlib.crc32(f"{hero} and {thing}".encode()) % _HELD_OUT_PART == 0


def _politely(rng: random.Random, asked: str) -> str:
    chance = rng.random()
    if chance < 0.1:
        return rng.choice(
            ("Hi Pip! ", "hey pip, ", "Hello! ", "Okay. ", "Pip, ", "Please: ", "Now ")
        ) + wording.lower_first(asked)
    return (
        asked.rstrip(".") + rng.choice((" please", ", please."))
        if chance < 0.16 and "lease" not in asked
        else asked
    )


def _cast(rng: random.Random, held_out: bool) -> Cast:
    """A hero, thing and plot that go together; the pair is a held-out one only if asked."""
    parts = grammar()
    while True:
        hero = rng.choice(parts.people if rng.random() < 0.2 else parts.animals)
        thing = rng.choice(parts.things)
        plot = rng.choice(parts.plots)
        if is_held_out(hero, thing.name) == held_out and plot.fits(thing):
            break
    other = rng.choice([animal for animal in parts.animals if animal != hero])
    pronoun = _pronoun(rng, hero)
    name = rng.choice(parts.names[pronoun])
    return Cast(hero, other, thing, rng.choice(list(parts.places)), name, pronoun, plot)


def _pronoun(rng: random.Random, hero: str) -> str:
    if hero in {"girl", "queen", "princess", "hen", "cow"}:
        return "she"
    return "he" if hero in {"boy", "king", "prince", "fisherman"} else rng.choice(("he", "she"))


def _slots(cast: Cast) -> dict[str, str]:
    other = "she" if cast.pronoun == "he" else "he"
    slots = {
        "a": with_article(cast.hero),
        "A": cast.hero,
        "b": with_article(cast.other),
        "B": cast.other,
        "b_cap": _capital(with_article(cast.other)),
        "o": with_article(cast.thing.name),
        "O": cast.thing.name,
        "o_cap": _capital(with_article(cast.thing.name)),
        "N": cast.name,
        "place": cast.place,
        "theme": cast.plot.theme,
    }
    return slots | _pronouns(cast.pronoun, "") | _pronouns(other, "2")


def _pronouns(pronoun: str, suffix: str) -> dict[str, str]:
    him, his, himself = ("him", "his", "himself") if pronoun == "he" else ("her", "her", "herself")
    forms = {"he": pronoun, "him": him, "his": his, "himself": himself}
    return {key + suffix: form for key, form in forms.items()} | {
        key.capitalize() + suffix: form.capitalize() for key, form in forms.items()
    }


def _tell(rng: random.Random, cast: Cast, slots: dict[str, str], moral: bool) -> str:
    parts = grammar()
    clauses = {
        "trouble": cast.thing.trouble.format(**slots),
        "rescue": cast.thing.rescue.format(**slots),
        "purpose": cast.thing.purpose,
    }
    opening = rng.choice(parts.openings)
    text = _choose(rng, f"{opening} {cast.plot.text}").format(**slots, **clauses)
    if moral:
        lesson = rng.choice(parts.morals[cast.plot.theme])
        return f"{text}\n\nMoral: {lesson}"
    return text


def _choose(rng: random.Random, text: str) -> str:
    """The text with each `[a|b]` replaced by one of its choices."""
    return re.sub(r"\[([^\[\]]*)\]", lambda match: rng.choice(match[1].split("|")), text)


def with_article(noun: str) -> str:
    """'a fox', 'an owl', 'a unicorn'."""
    vowel = noun[0] in "aeiou" and not noun.startswith(("uni", "one", "use", "eu"))
    return f"{'an' if vowel else 'a'} {noun}"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


# Old tales that stand alone, outside of the fables, by title.
_OTHER_TITLES = ("The Story of Miss Moppet", "The Old Man and his Grandson")
_LEFT_OUT = (
    "The Blackamoor",
    "The Runaway Slave",
    "The Man and his Two Sweethearts",
    "The Boy Bathing",
)
_BY_TITLE = (
    "Tell me the fable of {title}.", "Do you know the tale of {title}?", "{title}", "{title}, please.",
    "I want to hear the fable of {title}.", "tell me the story of {title}", "The tale of {title}, please.",
    "What happens in the fable of {title}?", "How does the fable of {title} go?", "Aesop: {title}",
)  # fmt: skip
_BY_TITLE_HELD_OUT = (
    "Would you tell me the old tale of {title}?",
    "I would love to hear the fable of {title} again.",
)
_BY_SUBJECT = ("Tell me an old fable about {subject}.", "Do you know an old fable about {subject}?",
    "An Aesop fable about {subject}, please.", "Tell me the fable about {subject}.", "old fable with {subject}",
    "Which old tale is about {subject}?")  # fmt: skip
_NAMED = re.compile(r"\b[A-Z][a-z]+(?:-[A-Z][a-z]+)*\b")
_PAIR = re.compile(r"The ([A-Z][\w-]*[^s]) and (?:the|his|her) ([A-Z][\w-]*[^s])")
_NOT_SUBJECTS = frozenset({"The", "His", "Her", "Their", "Who", "That", "Without", "With", "As", "In", "Two", "Three",
    "Old", "Wild", "One", "King", "Story", "Miss", "Against", "Golden", "Laid", "Lost", "Love", "Turned", "Chased",
    "Chasing", "Taken", "Carrying", "Served", "Bitten", "Piping", "Boasting", "Mischievous", "Bald", "Blind", "Sick",
    "Vain", "Wily", "Quack", "Rich", "Swollen", "Escaped", "Runaway", "Shipwrecked", "Eye", "By", "An"})  # fmt: skip


def read_tales(folder: Path) -> tuple[Tale, ...]:
    """The short tales in a folder of Markdown books: all fables, and some pieces known by title."""
    found: dict[str, Tale] = {}
    for file in sorted(folder.glob("*.md")):
        fables = "aesop" in file.name
        book = file.read_text(encoding="utf-8")
        if not fables and not any(title.upper() in book.upper() for title in _OTHER_TITLES):
            continue
        for section in sections(book):
            text = "\n\n".join(section.paragraphs)
            wanted = section.title in _OTHER_TITLES or (
                fables and section.title and section.title not in _LEFT_OUT
            )
            if wanted and FEWEST_WORDS <= len(text.split()) <= MOST_WORDS and not is_unwanted(text):
                found[section.title] = Tale(section.title, text, _subjects(section.title, text))
    if not found:
        raise FileNotFoundError(
            f"no short tales in {folder}; point to the folder that holds the books"
        )
    return tuple(found.values())


def generate_old(rng: random.Random, held_out: bool, tales: Sequence[Tale]) -> Example:
    """An old tale, asked for by its title, or by the two beings that its title names."""
    tale = rng.choice(tales)
    if held_out:
        asked = rng.choice(_BY_TITLE_HELD_OUT).format(title=_spoken(tale.title))
    elif (pair := _PAIR.fullmatch(tale.title)) and rng.random() < 0.4:
        first, second = (with_article(word.lower()) for word in pair.groups())
        asked = rng.choice(_BY_SUBJECT).format(subject=f"{first} and {second}")
    else:
        asked = rng.choice(_BY_TITLE).format(title=_spoken(tale.title))
    words = tuple((word,) for word in tale.subjects)
    return Example(
        KIND,
        chat(asked if held_out else wording.casual(rng, asked), tale.text),
        KeywordCheck(words),
    )


def _subjects(title: str, text: str) -> tuple[str, ...]:
    """The beings and things of a title that the text has too."""
    named = [word.lower() for word in _NAMED.findall(title) if word not in _NOT_SUBJECTS]
    return tuple(dict.fromkeys(word for word in named if word in text.lower()))


def _spoken(title: str) -> str:
    return title[0].lower() + title[1:] if title.startswith("The ") else title
