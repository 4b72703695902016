"""How people really type: seeded variations of a question that leave its meaning alone."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

_OPENERS = (
    "hey pip, ", "Hey Pip, ", "Hi Pip, ", "Pip, ", "pip, ", "quick question: ", "Quick question: ", "I'm new here. ",
    "I am new to this. ", "Sorry if this is obvious, but ", "ok, ", "Okay, ", "So ", "so, ", "Hello! ", "Hi! ", "Hi, ",
    "One question: ", "Question: ", "Just wondering, ", "I was wondering: ", "Please tell me: ", "Help me out: ",
    "Hm, ", "Another thing: ", "Small question. ", "I just installed this. ", "I don't get it. ", "Hey, ", "hello, ",
)  # fmt: skip
_QUESTION_OPENERS = (
    "Can you tell me ", "Could you tell me ", "can you tell me ", "Please tell me ", "Can you explain ",
    "I want to know ", "I'd like to know ", "Do you know ", "tell me ", "Please explain ", "Any idea ",
)  # fmt: skip
_CLOSERS = (
    " Thanks!", " thanks", " Thank you.", " please", " Please keep it short.", " I'm curious.", " Just curious.",
    " I couldn't find it.", " I'm a beginner.", " Thanks in advance.", " :)", " I forgot.", " Explain it simply.",
    " In a few words, please.", " I keep seeing it.", " cheers",
)  # fmt: skip
_QUESTION_WORDS = frozenset(
    {"what", "how", "why", "which", "who", "where", "when", "whose", "what's", "how's"}
)
_STARTERS = _QUESTION_WORDS | set(
    (
        "a add am an and another answer any are best between book both but buy call can check convert correct "
        "could create debug describe design did do does don't draw explain find fix generate give good google "
        "has have if in invent is it's its latest let list look make may my name no not on one open order "
        "paint plan play please prove put read recommend say search send set should show sing solve some "
        "speak summarize surprise take tell that that's the there this translate turn two under was we were "
        "what's where's who's whose will would write you your"
    ).split()
)
_SPELLINGS = (
    ("color", "colour"), ("favorite", "favourite"), ("license", "licence"), ("quantize", "quantise"),
    ("gray", "grey"), ("behavior", "behaviour"), ("catalog", "catalogue"), ("analyze", "analyse"),
    ("optimize", "optimise"), ("recognize", "recognise"), ("summarize", "summarise"), ("tokenize", "tokenise"),
    ("customize", "customise"), ("organize", "organise"), ("canceled", "cancelled"), ("neighbor", "neighbour"),
    ("speed up", "speed-up"), ("okay", "ok"), ("cannot", "can't"),
    ("what is", "what's"), ("it is", "it's"), ("do not", "don't"), ("does not", "doesn't"), ("I am", "I'm"),
)  # fmt: skip
_RESPELLINGS = tuple(
    (re.compile(rf"\b{old}(?=(?:s|d|r|rs|ing)?\b)"), new)
    for both in _SPELLINGS
    for old, new in (both, both[::-1])
)
_WORD = re.compile(r"(?<![\w/.`\-])[A-Za-z]{4,}(?![\w/.`\-])")


def vary(rng: random.Random, question: str) -> str:
    """The question as one of many people would type it: opener, closer, case, punctuation, spelling, typos."""
    text = _opened(rng, question)
    text = _closed(rng, text)
    if rng.random() < 0.15:
        text = respell(rng, text)
    if rng.random() < 0.12:
        text = typo(rng, text)
    return casual(rng, text)


def casual(rng: random.Random, text: str) -> str:
    """Sometimes lower case, sometimes without apostrophes or the last mark."""
    if rng.random() < 0.22:
        text = text.lower()
    if rng.random() < 0.07:
        text = text.replace("'", "")
    if rng.random() < 0.2 and text[-1:] in {"?", "."}:
        text = text[:-1]
    return text.strip()


def typo(rng: random.Random, text: str, protected: Sequence[str] = ()) -> str:
    """One letter dropped, swapped or doubled inside a word of four letters or more that is not protected."""
    kept = {word.lower() for phrase in protected for word in phrase.split()}
    words = [match for match in _WORD.finditer(text) if match.group().lower() not in kept]
    if not words:
        return text
    match = rng.choice(words)
    return text[: match.start()] + _mistyped(rng, match.group()) + text[match.end() :]


def respell(rng: random.Random, text: str) -> str:
    """One word in its other spelling, British for American, long for short, or the other way round."""
    pairs = [(pattern, new) for pattern, new in _RESPELLINGS if pattern.search(text)]
    if not pairs:
        return text
    pattern, new = rng.choice(pairs)
    return pattern.sub(new, text)


def lower_first(text: str) -> str:
    """The text with a small first letter where the first word is an ordinary one."""
    first = text.split(" ", 1)[0].rstrip(",:;?!.").lower()
    return text[0].lower() + text[1:] if first in _STARTERS else text


def _opened(rng: random.Random, question: str) -> str:
    chance = rng.random()
    if chance < 0.5 or not question:
        return question
    if chance < 0.68 and question.split(maxsplit=1)[0].lower() in _QUESTION_WORDS:
        return rng.choice(_QUESTION_OPENERS) + lower_first(question)
    opener = rng.choice(_OPENERS)
    return opener + (question if opener.rstrip()[-1] in ".!:?" else lower_first(question))


def _closed(rng: random.Random, text: str) -> str:
    if rng.random() > 0.14:
        return text
    closer = rng.choice(_CLOSERS)
    if closer == " please":
        return text.rstrip(".?") + ", please" + (text[-1] if text[-1] in ".?" else "")
    return (text if text[-1] in ".?!" else text + ".") + closer


def _mistyped(rng: random.Random, word: str) -> str:
    place = rng.randrange(1, len(word) - 1)
    match rng.randrange(3):
        case 0:
            return word[:place] + word[place + 1 :]
        case 1:
            return word[:place] + word[place + 1] + word[place] + word[place + 2 :]
        case _:
            return word[:place] + word[place] + word[place:]
