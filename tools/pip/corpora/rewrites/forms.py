"""Forms with blanks, and the values that go in them told in another order."""

from __future__ import annotations

import random

from .. import source_texts
from ..example import Example, TextCheck, chat
from ..phrasings import capitalised, stop_of
from .edit import SAY


def form_example(rng: random.Random, held_out: bool) -> Example:
    """A form with blanks and the values that go in them, told in another order."""
    form = source_texts.form(rng)
    told = list(form.values.items())
    rng.shuffle(told)
    style, gap = rng.choice(
        (
            ("{}: {}", "; "),
            ("{} {}", ", "),
            ("{} = {}", ", "),
            ("{} is {}", "; "),
            ("- {}: {}", "\n"),
        )
    )
    values = gap.join(style.format(*pair) for pair in told)
    request = (
        SAY["fill_form"]
        .pick(rng, held_out)
        .replace("{this}", rng.choice(("this form", "this template", "the form", "this text")))
    )
    request = capitalised(rng, request)
    stop = stop_of(request)
    values = f"\n{values}" if gap == "\n" else f" {values}"
    layouts = (
        f"{request}{stop}\n\n{form.blank}\n\nValues:{values}",
        f"{request}{stop} Values:{values}\n\n{form.blank}",
        f"{form.blank}\n\n{request}{stop} Values:{values}",
        f"{request}{stop}\nForm:\n{form.blank}\nValues:{values}",
    )
    return Example(
        "rewrites.fill_form", chat(rng.choice(layouts), form.filled), TextCheck(form.filled)
    )
