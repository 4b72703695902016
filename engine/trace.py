"""The codec of events: each is a JSON object that names the version of its form.

Trace files, the traces of stored replies, server-sent events and scripts of tests are lines of it. What
the pages read is a projection of the same events (app/ui/rounds/view.py). Offsets count Unicode
characters. An object is {"v": VERSION, "type": ..., and the event's fields}. Empty fields that few events
fill are left out: a token's top_logprobs, that a reply begins inside a thought, the stop string that
ended it, and what an engine elsewhere counted or reported of a failure.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from functools import cache, partial
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from engine.errors import MALFORMED, InvalidRequest, what_failed
from engine.events import Event
from engine.files import parse_json

VERSION = 4

Json = dict[str, Any]

_KINDS: dict[str, Any] = {kind.__name__.lower(): kind for kind in get_args(Event)}
_SPARSE = frozenset({"top_logprobs", "thinking", "counted", "stop_string", "refused", "wait_s"})
"""Fields that are left out while they are empty."""


def to_json(event: Event) -> Json:
    """Return a JSON-able object; its ``type`` names the event."""
    return {"v": VERSION, "type": type(event).__name__.lower(), **_written(event)}


def to_line(event: Event) -> str:
    """Return ``to_json`` as text without a line break."""
    return json.dumps(to_json(event), ensure_ascii=False, separators=(",", ":"))


def read(lines: Iterable[str]) -> Iterator[Event]:
    """Yield the events of a trace, without blank lines. Raises InvalidRequest with the line's number."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                value = parse_json(line)
            except ValueError as error:
                raise InvalidRequest(
                    "trace",
                    f"Line {number} of the trace is not JSON. The file may be cut off.",
                ) from error
            yield from_json(value, f"Line {number} of the trace")


def from_json(value: Any, place: str = "This") -> Event:
    """Return the event that ``to_json`` made ``value`` of.

    Raises InvalidRequest, which names ``place``, for anything else and for other versions.
    """
    try:
        fields = dict(value)
        version = fields.pop("v", 1)
        if not isinstance(version, int) or version < 1:
            raise ValueError(f"version {version}")
        if version != VERSION:
            age, remedy = "an older", "Only that version can open it."
            if version > VERSION:
                age, remedy = "a newer", "Update Foretoken to open it."
            raise InvalidRequest(
                "trace",
                f"{place} was written by {age} version of Foretoken (format {version}; this "
                f"version reads {VERSION}). {remedy}",
            )
        event: Event = _read(_KINDS[fields.pop("type")], fields)
        return event
    except MALFORMED as error:
        raise InvalidRequest(
            "trace", f"{place} is not an event of a trace: {what_failed(error)}."
        ) from error


def _written(value: Any) -> Any:
    """Return ``value`` with a mapping in place of each dataclass."""
    if isinstance(value, tuple):
        return tuple(map(_written, value))
    names = _fields(value.__class__)
    if not names:
        return value
    pairs = [(name, getattr(value, name)) for name in names]
    return {name: _written(field) for name, field in pairs if field or name not in _SPARSE}


@cache
def _fields(kind: type[Any]) -> tuple[str, ...]:
    """Return the names of a dataclass's fields; none for another type. Every value of an event asks."""
    fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
    return tuple(field.name for field in fields)


@cache
def _reader(hint: Any) -> Callable[[Any], Any]:
    """Return the function that reads a value of type ``hint`` from JSON. It raises one of MALFORMED for
    any other value: who reads events relies on their types, and other programs write some."""
    of, parts = get_origin(hint), get_args(hint)
    if of is UnionType:  # with None
        read = _reader(parts[0])
        return lambda value: None if value is None else read(value)
    if of is tuple and parts[-1] is ...:
        each = _reader(parts[0])
        return lambda value: tuple(map(each, value))
    if of is tuple:
        reads = tuple(map(_reader, parts))
        return lambda value: tuple(f(part) for f, part in zip(reads, value, strict=True))
    if dataclasses.is_dataclass(hint):
        return partial(_read, hint)
    return hint if issubclass(hint, StrEnum) else partial(_scalar, hint)


def _scalar(kind: type[Any], value: Any) -> Any:
    """Return ``value``. Raises TypeError unless it is a ``kind``; an int may stand for a float. Raises
    ValueError for a number that cannot be computed with, which JSON of others may hold."""
    if value.__class__ is not kind and (kind, value.__class__) != (float, int):
        raise TypeError(f"not {kind.__name__}")
    if kind in (int, float) and not abs(value) < 2**64:
        raise ValueError(f"not {kind.__name__}")
    return value


def _read(kind: Any, value: Json) -> Any:
    """Return the dataclass. Raises KeyError and TypeError for missing and unknown fields."""
    missing = set(_fields(kind)) - _SPARSE - value.keys()
    if missing:
        raise KeyError(*missing)
    readers = _readers(kind)
    if not value.keys() <= readers.keys():
        raise TypeError("an unknown field")
    return kind(**{name: readers[name](field) for name, field in value.items()})


@cache
def _readers(kind: Any) -> dict[str, Callable[[Any], Any]]:
    """Return the reader of each field."""
    return {name: _reader(hint) for name, hint in get_type_hints(kind).items()}
