"""Requests for one JSON record, the facts told in prose or side by side."""

from __future__ import annotations

import random
from collections.abc import Mapping

from .. import words
from ..phrasings import stop_of
from .domain import Domain, tell, told_fields
from .domains import DOMAINS
from .facts import loose_facts, spoken
from .requests import SAY, ask, clause, pick
from .states import Json, Record, Turn, as_json, heading


def prose_turn(rng: random.Random, held_out: bool) -> Turn:
    """Facts in a sentence; the keys are told in half of the cases."""
    domain = rng.choice(DOMAINS)
    sentence = rng.choice(domain.sentences)
    record = {key: domain.fields[key].make(rng) for key in told_fields(sentence)}
    facts = tell(sentence, record)
    if rng.random() < 0.1:
        key = rng.choice(list(domain.fields))
        if key not in record:
            record[key] = domain.fields[key].make(rng)
            facts += f" {heading(key)}: {spoken(rng, as_json(record[key]))}."
    this = rng.choice(
        (
            "this",
            "this",
            f"this {domain.noun}",
            "these facts",
            "the following",
            f"the following {domain.noun}",
        )
    )
    request = pick(rng, SAY["json_record"], held_out, this)
    if rng.random() < 0.4:
        return Turn(
            ask(rng, request, facts),
            Record({key: as_json(value) for key, value in record.items()}),
        )
    return _keyed_record(rng, held_out, domain, record, request, facts)


def _keyed_record(
    rng: random.Random,
    held_out: bool,
    domain: Domain,
    record: Mapping[str, object],
    request: str,
    facts: str,
) -> Turn:
    """The facts under keys that the user names: all or a part of them, perhaps with one unknown."""
    fields = list(record)
    if len(fields) > 2 and rng.random() < 0.1:
        fields = rng.sample(fields, rng.randint(2, len(fields) - 1))
    elif rng.random() < 0.1:
        rng.shuffle(fields)
    value: dict[str, Json] = {
        domain.key_for(rng, field): as_json(record[field]) for field in fields
    }
    after = ""
    if rng.random() < 0.04:
        unknown = rng.choice(list(domain.fields))
        if unknown not in record:
            value[unknown] = None
            after = f" {SAY['missing'].pick(rng, held_out)}."
    request += clause(rng, SAY["keys"], held_out, list(value))
    one_line = rng.random() < 0.03
    if one_line:
        after += f" {SAY['one_line'].pick(rng, held_out)}."
    return Turn(ask(rng, request, facts) + _separated(after), Record(value, one_line))


def _separated(after: str) -> str:
    """A remark after the facts, on a line of its own."""
    return f"\n{after.strip()}" if after else ""


def pairs_turn(rng: random.Random, held_out: bool) -> Turn:
    """Keys and values side by side: `name Mara Holt, age 34, city Bergen`."""
    noun, value = loose_facts(rng)
    style = rng.randrange(7)
    if any(isinstance(one, list) for one in value.values()) or any(
        "," in str(one) for one in value.values()
    ):
        style = rng.choice((1, 5))
    told = {
        key.replace("_", " ") if style in (1, 5) and rng.random() < 0.5 else key: one
        for key, one in value.items()
    }
    this = rng.choice(("this", "this", f"this {noun}", "the following", f"the following {noun}"))
    wording = pick(rng, SAY["json_record"], held_out, f"a {noun}" if style == 6 else this)
    if style == 6 and f"a {noun}" not in wording:
        style = 0
    facts = _pairs(rng, told, style)
    if style == 6:
        return Turn(f"{words.fix_articles(wording)} {facts}{stop_of(wording)}", Record(value))
    return Turn(ask(rng, wording, facts, prose=style == 3), Record(value))


def _pairs(rng: random.Random, told: Mapping[str, Json], style: int) -> str:
    pairs = [(key, spoken(rng, value)) for key, value in told.items()]
    match style:
        case 0:
            return ", ".join(f"{key} {value}" for key, value in pairs)
        case 1:
            return "; ".join(f"{key}: {value}" for key, value in pairs)
        case 2:
            return ", ".join(f"{key} = {value}" for key, value in pairs)
        case 3:
            return words.joined([f"{key} is {value}" for key, value in pairs]) + "."
        case 4:
            return ", ".join(f"{key}: {value}" for key, value in pairs)
        case 5:
            return "\n".join(f"{key}: {value}" for key, value in pairs)
        case _:
            return "with " + words.joined([f"{key} {value}" for key, value in pairs])
