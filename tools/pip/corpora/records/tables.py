"""Requests for a Markdown table or a JSON array, the rows told in one of many ways."""

from __future__ import annotations

import random
from dataclasses import dataclass

from .domain import Domain, scalar, tell, told_fields
from .domains import DOMAINS
from .requests import SAY, ask, clause, pick
from .states import ObjectArray, Table, Turn, cell


@dataclass(frozen=True)
class _Told:
    """A table, and its rows as people tell them: in prose or not, the keys or headings `named` with them or not."""

    domain: Domain
    table: Table
    facts: str
    named: bool
    prose: bool


def table_turn(rng: random.Random, held_out: bool) -> Turn:
    """A Markdown table from rows told in one of many ways."""
    told = _told(rng, most=4)
    request = pick(rng, SAY["table"], held_out, _these(rng, told.domain))
    if not told.named:
        request += clause(rng, SAY["columns"], held_out, told.table.columns)
    return Turn(ask(rng, request, told.facts, told.prose), told.table)


def array_turn(rng: random.Random, held_out: bool) -> Turn:
    """A JSON array of objects from rows told in one of many ways."""
    told = _told(rng, most=3)
    request = pick(rng, SAY["json_array"], held_out, _these(rng, told.domain))
    if not told.named:
        request += clause(rng, SAY["keys"], held_out, told.table.keys)
    return Turn(ask(rng, request, told.facts, told.prose), ObjectArray(told.table))


def _told(rng: random.Random, most: int) -> _Told:
    """Rows told in sentences, or `most` rows at most told in a shorter way."""
    told = _in_sentences(rng) if rng.random() < 0.4 else None
    if told:
        return told
    domain, table = make_table(rng, 2, most)
    facts, named = _in_short(rng, table)
    return _Told(domain, table, facts, named, prose=False)


def make_table(rng: random.Random, least: int, most: int) -> tuple[Domain, Table]:
    """A table with two to four fields of a domain; no two rows share the value of the first column."""
    domain = rng.choice(DOMAINS)
    fields = domain.flat
    first = next(iter(fields))
    keys = (first, *rng.sample([key for key in fields if key != first], rng.randint(1, 3)))
    rows = {
        str(row[0]): row
        for row in (
            tuple(scalar(fields[key].make(rng)) for key in keys)
            for _ in range(rng.randint(least, most))
        )
    }
    if len(rows) < least:
        return make_table(rng, least, most)
    return domain, Table(keys, tuple(rows.values()))


def _in_sentences(rng: random.Random) -> _Told | None:
    """A table whose rows are told in sentences."""
    domain = rng.choice(DOMAINS)
    fields = domain.flat
    sentence = rng.choice(domain.sentences)
    keys = told_fields(sentence)
    if any(key not in fields for key in keys) or not 2 <= len(keys) <= 5:
        return None
    records = [{key: fields[key].make(rng) for key in keys} for _ in range(rng.randint(2, 3))]
    shown = (
        keys
        if rng.random() < 0.85 or len(keys) == 2
        else tuple(rng.sample(keys, rng.randint(2, len(keys) - 1)))
    )
    rows = tuple(tuple(scalar(record[key]) for key in shown) for record in records)
    if len({str(row[0]) for row in rows}) < len(rows):
        return None
    facts = " ".join(tell(sentence, record) for record in records)
    return _Told(domain, Table(shown, rows), facts, named=False, prose=True)


def _in_short(rng: random.Random, table: Table) -> tuple[str, bool]:
    """The rows as people tell them, and whether keys or headings are told with them."""
    rows = [[cell(value) for value in row] for row in table.rows]
    plain = [", ".join(row) for row in rows]
    match rng.randrange(6):
        case 0:
            return "; ".join(plain), False
        case 1:
            return "\n".join(plain), False
        case 2:
            return ", ".join(f"{row[0]} ({', '.join(row[1:])})" for row in rows), False
        case 3:
            return "\n".join([",".join(table.columns), *(",".join(row) for row in rows)]), True
        case 4:
            named = [
                ", ".join(f"{key} {value}" for key, value in zip(table.keys, row, strict=True))
                for row in rows
            ]
            return rng.choice(("; ", "\n")).join(named), True
        case _:
            return "\n".join(f"- {row[0]}: {', '.join(row[1:])}" for row in rows), False


def _these(rng: random.Random, domain: Domain) -> str:
    return rng.choice(
        (
            "this",
            f"these {domain.plural}",
            f"these {domain.plural}",
            f"the following {domain.plural}",
            "the following",
        )
    )
