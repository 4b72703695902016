"""Requests to change what was just written: a record, a table or a list."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from .. import source_texts, words
from ..phrasings import capital, stop_of
from .domain import Domain, Scalar, scalar
from .domains import DOMAINS
from .facts import any_fact, spoken, spoken_key
from .requests import SAY
from .states import (
    ItemList,
    ObjectArray,
    Record,
    State,
    StringArray,
    Table,
    Turn,
    as_json,
    bullets_of,
    cell,
    one_row,
)


def follow_up(rng: random.Random, held_out: bool, state: State) -> Turn | None:
    """A request to change what was just written; none if the state allows no change that was tried."""
    for _ in range(6):
        turn = _change(rng, held_out, state)
        if turn is not None:
            return replace(turn, request=_finished(turn.request))
    return None


def _finished(request: str) -> str:
    return capital(request) + stop_of(request)


def _change(rng: random.Random, held_out: bool, state: State) -> Turn | None:
    match state:
        case Record():
            return rng.choice(_RECORD_CHANGES)(rng, held_out, state)
        case Table():
            return rng.choice(_TABLE_CHANGES)(rng, held_out, state)
        case ItemList():
            return rng.choice(_LIST_CHANGES)(rng, held_out, state)
        case ObjectArray(table):
            return Turn(SAY["as_table"].pick(rng, held_out), table)
        case StringArray(items):
            return Turn(SAY["as_bullets"].pick(rng, held_out), ItemList(items))


def _key_added(rng: random.Random, held_out: bool, state: Record) -> Turn | None:
    key, value = any_fact(rng)
    if key in state.value or len(state.value) > 7:
        return None
    request = (
        SAY["add_key"]
        .pick(rng, held_out)
        .format(key=spoken_key(rng, key), value=spoken(rng, value))
    )
    return Turn(request, replace(state, value={**state.value, key: value}))


def _key_changed(rng: random.Random, held_out: bool, state: Record) -> Turn | None:
    for domain in rng.sample(DOMAINS, len(DOMAINS)):
        shared = [
            key
            for key in state.value
            if key in domain.flat and not isinstance(state.value[key], dict | list)
        ]
        if not shared:
            continue
        key = rng.choice(shared)
        value = as_json(domain.fields[key].make(rng))
        if value == state.value[key] or isinstance(value, bool) != isinstance(
            state.value[key], bool
        ):
            return None
        request = (
            SAY["change_key"]
            .pick(rng, held_out)
            .format(key=spoken_key(rng, key), value=spoken(rng, value))
        )
        return Turn(request, replace(state, value={**state.value, key: value}))
    return None


def _key_removed(rng: random.Random, held_out: bool, state: Record) -> Turn | None:
    if len(state.value) < 3:
        return None
    key = rng.choice(list(state.value))
    value = {name: one for name, one in state.value.items() if name != key}
    return Turn(
        SAY["remove_key"].pick(rng, held_out).format(key=spoken_key(rng, key)),
        replace(state, value=value),
    )


def _key_renamed(rng: random.Random, held_out: bool, state: Record) -> Turn | None:
    key = rng.choice(list(state.value))
    domain = rng.choice([domain for domain in DOMAINS if key in domain.fields] or [None])
    names = (
        [name for name in domain.fields[key].synonyms if name not in state.value] if domain else []
    )
    if not names:
        return None
    new = rng.choice(names)
    value = {new if name == key else name: one for name, one in state.value.items()}
    return Turn(
        SAY["rename_key"].pick(rng, held_out).format(key=key, value=new),
        replace(state, value=value),
    )


def _record_shown_otherwise(rng: random.Random, held_out: bool, state: Record) -> Turn | None:
    if any(isinstance(value, dict | list) or value is None for value in state.value.values()):
        return None
    if rng.random() < 0.5 and len(state.value) <= 6:
        return Turn(SAY["as_table"].pick(rng, held_out), one_row(state))
    return Turn(SAY["as_bullets"].pick(rng, held_out), bullets_of(state))


_RECORD_CHANGES: tuple[Callable[[random.Random, bool, Record], Turn | None], ...] = (
    _key_added, _key_added, _key_changed, _key_changed, _key_removed, _key_renamed, _record_shown_otherwise,
)  # fmt: skip


def _row_added(rng: random.Random, held_out: bool, state: Table) -> Turn | None:
    row = _new_row(rng, state)
    if row is None or len(state.rows) > 6 or row[0] in [old[0] for old in state.rows]:
        return None
    request = SAY["add_row"].pick(rng, held_out).format(value=", ".join(map(cell, row)))
    return Turn(request, replace(state, rows=(*state.rows, row)))


def _row_removed(rng: random.Random, held_out: bool, state: Table) -> Turn | None:
    if len(state.rows) < 3:
        return None
    row = rng.choice(state.rows)
    request = SAY["remove_row"].pick(rng, held_out).format(key=cell(row[0]))
    return Turn(request, replace(state, rows=tuple(old for old in state.rows if old is not row)))


def _cell_changed(rng: random.Random, held_out: bool, state: Table) -> Turn | None:
    new = _new_row(rng, state)
    if new is None or len(state.rows) < 2:
        return None
    place, column = rng.randrange(len(state.rows)), rng.randrange(1, len(state.keys))
    row = state.rows[place]
    if row[column] == new[column]:
        return None
    changed = (*row[:column], new[column], *row[column + 1 :])
    name = state.columns[column].lower()
    request = (
        SAY["change_cell"]
        .pick(rng, held_out)
        .format(column=name, key=cell(row[0]), value=cell(new[column]))
    )
    return Turn(
        request, replace(state, rows=(*state.rows[:place], changed, *state.rows[place + 1 :]))
    )


def _column_dropped(rng: random.Random, held_out: bool, state: Table) -> Turn | None:
    if len(state.keys) < 3:
        return None
    column = rng.randrange(1, len(state.keys))
    rows = tuple((*row[:column], *row[column + 1 :]) for row in state.rows)
    keys = (*state.keys[:column], *state.keys[column + 1 :])
    return Turn(
        SAY["drop_column"].pick(rng, held_out).format(key=state.columns[column]), Table(keys, rows)
    )


def _table_as_json(rng: random.Random, held_out: bool, state: Table) -> Turn | None:
    return (
        Turn(SAY["as_json"].pick(rng, held_out), ObjectArray(state))
        if len(state.rows) > 1
        else None
    )


def _new_row(rng: random.Random, table: Table) -> tuple[Scalar, ...] | None:
    """A row that fits under the keys, if they are the fields of one domain."""
    domain = _domain_of(table)
    return tuple(scalar(domain.fields[key].make(rng)) for key in table.keys) if domain else None


def _domain_of(table: Table) -> Domain | None:
    return next(
        (domain for domain in DOMAINS if all(key in domain.fields for key in table.keys)), None
    )


_TABLE_CHANGES: tuple[Callable[[random.Random, bool, Table], Turn | None], ...] = (
    _row_added, _row_added, _row_removed, _cell_changed, _column_dropped, _table_as_json,
)  # fmt: skip


def _item_added(rng: random.Random, held_out: bool, state: ItemList) -> Turn | None:
    _, items = source_texts.items(rng, 2)
    new = items[: rng.choice((1, 1, 2))]
    if set(new) & set(state.items) or len(state.items) > 8:
        return None
    request = SAY["add_item"].pick(rng, held_out).format(value=words.joined(new))
    return Turn(request, replace(state, items=(*state.items, *new)))


def _item_removed(rng: random.Random, held_out: bool, state: ItemList) -> Turn | None:
    if len(state.items) < 3:
        return None
    item = rng.choice(state.items)
    request = SAY["remove_item"].pick(rng, held_out).format(value=item.split(":")[0])
    return Turn(request, replace(state, items=tuple(old for old in state.items if old != item)))


def _list_shown_otherwise(rng: random.Random, held_out: bool, state: ItemList) -> Turn | None:
    if state.mark == "1. ":
        return Turn(SAY["as_bullets"].pick(rng, held_out), replace(state, mark="- "))
    return (
        Turn(SAY["as_numbered"].pick(rng, held_out), replace(state, mark="1. "))
        if state.mark == "- "
        else None
    )


def _list_as_json(rng: random.Random, held_out: bool, state: ItemList) -> Turn | None:
    if any(":" in item for item in state.items):
        return None
    return Turn(SAY["as_json"].pick(rng, held_out), StringArray(state.items))


_LIST_CHANGES: tuple[Callable[[random.Random, bool, ItemList], Turn | None], ...] = (
    _item_added, _item_added, _item_removed, _item_removed, _list_shown_otherwise, _list_as_json,
)  # fmt: skip
