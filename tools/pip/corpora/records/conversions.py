"""Requests that bring a record, table or list along, to be written in another form or to be changed."""

from __future__ import annotations

import random

from .facts import loose_facts
from .follow_ups import follow_up
from .lists import list_turn
from .objects import pairs_turn
from .requests import SAY, ask, pick
from .states import ObjectArray, Record, Table, Turn, bullets_of, cell, one_row, render
from .tables import make_table, table_turn


def convert_turn(rng: random.Random, held_out: bool) -> Turn:
    """A table, JSON or values given as they are, to be written in another form."""
    return rng.choice((_convert_record, _convert_rows, _convert_rows, _edit_given))(rng, held_out)


def _convert_record(rng: random.Random, held_out: bool) -> Turn:
    _, value = loose_facts(rng)
    value = {key: one for key, one in value.items() if not isinstance(one, list)}
    if len(value) < 2:
        return _convert_record(rng, held_out)
    record = Record(value, one_line=rng.random() < 0.3)
    asked, state = (
        ("to_table", one_row(record)) if rng.random() < 0.5 else ("to_bullets", bullets_of(record))
    )
    this = rng.choice(("this JSON", "this JSON object", "this", "this record"))
    request = pick(rng, SAY[asked], held_out, this)
    return Turn(ask(rng, request, render(record), prose=False), state)


def _convert_rows(rng: random.Random, held_out: bool) -> Turn:
    _, table = make_table(rng, 2, 3)
    array = ObjectArray(table)
    given, name = rng.choice(
        ((render(table), "table"), (_csv(table), "CSV"), (render(array), "JSON"))
    )
    this = rng.choice((f"this {name}", f"this {name}", "this"))
    if name == "JSON" or (name == "CSV" and rng.random() < 0.5):
        return Turn(ask(rng, pick(rng, SAY["to_table"], held_out, this), given, prose=False), table)
    return Turn(ask(rng, pick(rng, SAY["to_json"], held_out, this), given, prose=False), array)


def _csv(table: Table) -> str:
    return "\n".join(
        ",".join(line) for line in (table.keys, *(map(cell, row) for row in table.rows))
    )


def _edit_given(rng: random.Random, held_out: bool) -> Turn:
    """A change to JSON, a table or a list that stands in the request."""
    state = rng.choice((pairs_turn, table_turn, list_turn))(rng, held_out).state
    follow = follow_up(rng, held_out, state)
    if follow is None:
        return _edit_given(rng, held_out)
    return Turn(f"{render(state)}\n\n{follow.request}", follow.state)
