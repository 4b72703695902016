"""How people ask for records: wordings, keys that they name, and where the facts stand."""

from __future__ import annotations

import random
from collections.abc import Sequence

from .. import words
from ..phrasings import Phrasings, capitalised, load, stop_of

SAY = load("records")


def ask(rng: random.Random, request: str, facts: str, prose: bool = True) -> str:
    """Request and facts in one of the layouts that people use. `prose` ends in a full stop."""
    request = capitalised(rng, request)
    stop = stop_of(request)
    if rng.random() < 0.25:
        gap = rng.choice(("\n", "\n\n", " ")) if prose else rng.choice(("\n", "\n\n"))
        return f"{facts}{gap}{request.replace('following', 'above')}{stop}"
    if "\n" in facts:
        mark = rng.choice((stop, ":" if stop == "." else stop))
        return f"{request}{mark}{rng.choice((chr(10), chr(10) * 2))}{facts}"
    return rng.choice(
        (
            f"{request}: {facts}",
            f"{request}{stop} {facts}",
            f"{request}{stop}\n\n{facts}",
            f"{request}:\n{facts}",
        )
    )


def pick(rng: random.Random, wordings: Phrasings, held_out: bool, this: str) -> str:
    """A wording with what it is about: `this` stands for `{this}`."""
    return wordings.pick(rng, held_out).replace("{this}", this)


def clause(rng: random.Random, wordings: Phrasings, held_out: bool, keys: Sequence[str]) -> str:
    """A clause such as `with the keys name, age and city`."""
    style = rng.randrange(5)
    told = (
        [f'"{key}"' for key in keys]
        if style == 0
        else [f"`{key}`" for key in keys]
        if style == 1
        else list(keys)
    )
    listing = ", ".join(told) if style == 2 else words.joined(told)
    return " " + wordings.pick(rng, held_out).format(keys=listing)
