"""What a reply holds - a record, a table, a list - and how it is written: as JSON, Markdown or lines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from ..example import Check, JsonCheck, TextCheck
from .domain import Scalar, scalar

Json = None | Scalar | list["Json"] | dict[str, "Json"]


@dataclass(frozen=True)
class Record:
    """One JSON object, perhaps kept on one line."""

    value: dict[str, Json]
    one_line: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of values under keys; the first column names the row."""

    keys: tuple[str, ...]
    rows: tuple[tuple[Scalar, ...], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The headings of the keys: `due_date` is headed `Due date`."""
        return tuple(heading(key) for key in self.keys)

    def objects(self) -> list[Json]:
        """A JSON object for each row."""
        return [dict(zip(self.keys, row, strict=True)) for row in self.rows]


@dataclass(frozen=True)
class ItemList:
    """Items with a mark before each; the mark `1. ` counts up."""

    items: tuple[str, ...]
    mark: str = "- "


@dataclass(frozen=True)
class ObjectArray:
    """A JSON array of objects with equal keys."""

    table: Table


@dataclass(frozen=True)
class StringArray:
    """A JSON array of strings."""

    items: tuple[str, ...]


State = Record | Table | ItemList | ObjectArray | StringArray


@dataclass(frozen=True)
class Turn:
    """What the user asks, and what the reply has to hold."""

    request: str
    state: State


def render(state: State) -> str:
    """The state as the reply that shows it."""
    match state:
        case Record(value, one_line):
            return _dumps(value, one_line)
        case ObjectArray(table):
            return _dumps(table.objects())
        case StringArray(items):
            return _dumps(list(items))
        case ItemList(items, mark):
            return _listed(items, mark)
        case Table():
            return _markdown(state)


def check_of(state: State) -> Check:
    """The check for a reply that shows the state."""
    text = render(state)
    return (
        JsonCheck(text)
        if isinstance(state, Record | ObjectArray | StringArray)
        else TextCheck(text)
    )


def _dumps(value: Json, one_line: bool = False) -> str:
    return json.dumps(value, indent=None if one_line else 2, ensure_ascii=False)


def _listed(items: Sequence[str], mark: str) -> str:
    if mark == "1. ":
        return "\n".join(f"{number}. {item}" for number, item in enumerate(items, 1))
    return "\n".join(mark + item for item in items)


def _markdown(table: Table) -> str:
    lines = [table.columns, ["---"] * len(table.keys), *(map(cell, row) for row in table.rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cell(value: object) -> str:
    """A value as people write it; true and false are yes and no."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def heading(key: str) -> str:
    """The key as the heading of a column: `due_date` -> `Due date`."""
    return key.replace("_", " ").capitalize()


def as_json(value: object) -> Json:
    """A made value as JSON data."""
    return list(value) if isinstance(value, list) else value  # type: ignore[return-value]


def one_row(record: Record) -> Table:
    """The record as a table of one row."""
    return Table(tuple(record.value), (tuple(scalar(value) for value in record.value.values()),))


def bullets_of(record: Record) -> ItemList:
    """The record as a list of its facts."""
    return ItemList(tuple(f"{key}: {cell(value)}" for key, value in record.value.items()))
