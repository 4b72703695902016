"""Forms: texts with blanks, and the same texts with the blanks filled."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from .. import words
from .sentences import BANKS, MAKERS, SLOT, amount, fill_but
from .source import make_cast


@dataclass(frozen=True)
class Form:
    """A text with blanks, the values by the label of their blank, and the text with all of them in place."""

    blank: str
    values: dict[str, str]
    filled: str


def form(rng: random.Random) -> Form:
    """A form in lines with gaps, or a letter or note with named blanks."""
    return _line_form(rng) if rng.random() < 0.5 else _letter_form(rng)


def _line_form(rng: random.Random) -> Form:
    """`Name: ____` and the like."""
    labels = rng.sample(list(_FORM_FIELDS), rng.randint(3, 6))
    values = {label: _FORM_FIELDS[label](rng) for label in labels}
    gap = rng.choice(("____", "...", "______", "[ ]", "?"))
    write = str.capitalize if rng.random() < 0.8 else str.upper
    title = rng.choice(
        ("", "", "Booking", "Visitor form", "Order form", "Registration", f"Card {words.code(rng)}")
    )
    head = f"{title}\n" if title else ""
    blank = "\n".join(f"{write(label)}: {gap}" for label in labels)
    filled = "\n".join(f"{write(label)}: {value}" for label, value in values.items())
    return Form(head + blank, values, head + filled)


def _letter_form(rng: random.Random) -> Form:
    """Sentences of a note or letter with some of their slots left as named blanks."""
    bank = BANKS[rng.choice(("note", "letter", "minutes"))]
    cast = make_cast(rng)
    templates = bank.draw(rng, rng.randint(2, 5), rng.choice("ABPK"))
    slots = [
        slot for slot in dict.fromkeys(SLOT.findall(" ".join(templates))) if slot in _BLANK_LABELS
    ]
    if len(slots) < 2:
        return _letter_form(rng)
    chosen = rng.sample(slots, min(len(slots), rng.randint(2, 5)))
    style = rng.choice(_BLANK_STYLES)
    blanks = {slot: style.format(_BLANK_LABELS[slot]) for slot in chosen}
    blank = " ".join(fill_but(rng, template, cast, blanks) for template in templates)
    values = {_BLANK_LABELS[slot]: MAKERS[slot](rng, cast) for slot in chosen}
    filled = blank
    for slot in chosen:
        filled = filled.replace(blanks[slot], values[_BLANK_LABELS[slot]])
    return Form(blank, values, filled)


_FORM_FIELDS: dict[str, Callable[[random.Random], str]] = {
    "name": words.full_name,
    "first name": words.first_name,
    "last name": lambda rng: rng.choice(words.LAST_NAMES),
    "town": words.place,
    "street": lambda rng: f"{words.street(rng)} {rng.randint(1, 199)}",
    "phone": words.phone,
    "date": words.day_of_year,
    "time": words.clock_time,
    "item": words.described,
    "colour": lambda rng: rng.choice(words.COLOURS),
    "number": lambda rng: str(rng.randint(1, 60)),
    "price": amount,
    "order": words.code,
    "job": lambda rng: rng.choice(words.JOBS),
    "hobby": lambda rng: rng.choice(words.HOBBIES),
    "age": lambda rng: str(rng.randint(6, 92)),
    "guest": words.full_name,
    "day": lambda rng: rng.choice(words.WEEKDAYS),
    "pet": lambda rng: rng.choice(words.ANIMALS),
    "dish": lambda rng: rng.choice(words.DISHES),
    "room": lambda rng: str(rng.randint(1, 420)),
    "room type": lambda rng: rng.choice(("single", "double", "twin", "family")),
    "email": lambda rng: f"{words.first_name(rng).lower()}@{words.thing(rng)}.example",
    "size": lambda rng: rng.choice(("small", "medium", "large", "extra large")),
    "from": words.place,
    "to": words.place,
    "seat": lambda rng: f"{rng.randint(1, 40)}{rng.choice('ABCDEF')}",
    "paid": lambda rng: rng.choice(("yes", "no")),
}
_BLANK_LABELS = {
    "A": "name", "B": "friend", "P": "town", "K": "thing", "day": "day", "date": "date", "time": "time",
    "eur": "price", "n": "number", "phone": "phone", "code": "code", "street": "street",
}  # fmt: skip
_BLANK_STYLES = ("[{}]", "[{}]", "{{{}}}", "<{}>", "__{}__")
