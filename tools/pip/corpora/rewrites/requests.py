"""How people put an instruction: with its text, or about the text that was just written."""

from __future__ import annotations

import random

from ..phrasings import QUESTION_STARTS, capital, capitalised, stop_of

_NO_VERB_FIRST = (
    *QUESTION_STARTS,
    "please",
    "i ",
    "in ",
    "from ",
    "every ",
    "wherever",
    "all ",
    "the ",
    "with ",
)


def first_request(rng: random.Random, instruction: str, doc: str, text: str) -> str:
    """The instruction before or after the text, in one of the layouts that people use."""
    before = rng.random() < 0.7
    this = _named(rng, doc, "below" if before else "above")
    request = capitalised(rng, instruction.replace("{this}", this))
    stop = stop_of(request)
    if not before:
        return f"{text}{rng.choice((chr(10), chr(10) * 2))}{request}{stop}"
    layout = rng.randrange(6)
    if layout == 0 and '"' not in text and "\n" not in text:
        return f'{request}: "{text}"'
    if layout == 1 and "\n" not in text:
        return f"{request}: {text}"
    if layout == 2:
        return f"{request}{stop}\n---\n{text}\n---"
    if layout == 3:
        return f"{request}:\n{text}"
    colon = ":" if stop == "." else stop
    return f"{request}{rng.choice((stop, colon))}\n\n{text}"


def _named(rng: random.Random, doc: str, side: str) -> str:
    """How the text is spoken of: `this note`."""
    these = "these" if doc == "minutes" else "this"
    usual = (
        f"{these} {doc}",
        f"{these} {doc}",
        f"the {doc} {side}",
        "this text",
        "this",
        f"my {doc}",
        f"the {doc}",
    )
    return rng.choice(usual)


def follow_up_request(rng: random.Random, instruction: str) -> str:
    """The instruction as a remark about the text that was just written."""
    request = instruction.replace(
        "{this}", rng.choice(("it", "that", "the text", "your text", "the result"))
    )
    if request.lower().startswith(_NO_VERB_FIRST):
        return capital(request) + stop_of(request)
    small = request[:1].lower() + request[1:]
    opening = rng.choice(
        (
            "Now {}.",
            "Now {}.",
            "Next, {}.",
            "Good. Now {}.",
            "Thanks. Now {}.",
            "And now {}.",
            "{}.",
        )
    )
    return capital(opening.format(small))
