"""The one form of events outside of memory: each a JSON object, with the version of that form.

Traces in files, traces of kept replies and scripts of tests are lines of it; what the pages read is a
projection of the same events (app/ui/view.py). A form that was once written can be read for ever: every
version has a function that makes the next one's object of it. Offsets count Unicode characters.

    2    {"v": 2, "type": ..., and the event's fields}
    1    no "v"; tokens without places, drafted tokens with what their round says of them too
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import IO, Any

from engine import events
from engine.errors import InvalidRequest
from engine.events import Event

VERSION = 2

Json = dict[str, Any]

_KINDS: dict[str, type[Any]] = {
    kind.__name__.lower(): kind
    for kind in (
        events.Queued,
        events.Started,
        events.Prefilled,
        events.Emitted,
        events.Finished,
        events.Failed,
    )
}
_FIELDS: dict[type[Any], tuple[str, ...]] = {
    kind: tuple(field.name for field in fields(kind))
    for kind in (
        *_KINDS.values(),
        events.Token,
        events.Round,
        events.Tree,
        events.Budget,
        events.Decision,
        events.Timing,
    )
}


def to_json(event: Event) -> Json:
    """A JSON-able object of version ``VERSION``; ``type`` says which event it is."""
    value = {"v": VERSION, "type": type(event).__name__.lower(), **_shallow(event)}
    if isinstance(event, events.Emitted):
        if event.tokens is not None:
            value["tokens"] = [_shallow(token) for token in event.tokens]
        if event.round is not None:
            value["round"] = _round_to_json(event.round)
    return value


def to_line(event: Event) -> str:
    """``to_json`` as text without a line break."""
    return json.dumps(to_json(event), ensure_ascii=False, separators=(",", ":"))


def write(stream: IO[str], trace: Iterable[Event]) -> None:
    """One event a line."""
    for event in trace:
        stream.write(to_line(event) + "\n")


def read(lines: Iterable[str]) -> Iterator[Event]:
    """The events of a trace, of whatever version; blank lines are skipped.

    Raises InvalidRequest with the line's number for what is no event, or of a version yet to come.
    """
    reader = Reader()
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                value = json.loads(line)
            except json.JSONDecodeError as error:
                raise InvalidRequest(
                    "trace",
                    f"line {number} of the trace is no JSON: {error.msg}. It may be cut off.",
                ) from error
            yield reader.event(value, f"Line {number} of the trace")


class Reader:
    """Objects of any version in, events out, in the order in which they were written."""

    def __init__(self) -> None:
        self._end = 0  # characters of all tokens so far; version 1 does not tell where they stand

    def event(self, value: Any, place: str = "This") -> Event:
        """The event that ``value`` tells. Raises InvalidRequest, which names ``place``."""
        try:
            told = dict(value)
            version = told.pop("v", 1)
            if isinstance(version, int) and version > VERSION:
                raise InvalidRequest(
                    "trace",
                    f"{place} was written by a newer version of Foretoken (form {version}; this one "
                    f"reads up to {VERSION}). Update Foretoken to open it.",
                )
            if version == 1:
                self._upgrade(told)
            elif version != VERSION:
                raise ValueError(f"version {version}")
            return _event(told)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise InvalidRequest("trace", f"{place} is no event of a trace: {error!r}.") from error

    def _upgrade(self, told: Json) -> None:
        """Makes an object of version 1 one of version 2."""
        if told["type"] in ("queued", "started"):
            self._end = 0
        if told["type"] != "emitted":
            return
        tokens = []
        for piece in told.pop("pieces"):
            token = dict(piece)
            tokens.append({"id": token.pop("token"), "start": self._end, **token})
            self._end += len(token["text"])
        told["tokens"] = tokens
        told["drafted"] = [drafted["text"] for drafted in told["drafted"]]


def from_json(value: Any) -> Event:
    """The event that ``to_json`` made ``value`` from. Raises InvalidRequest for anything else."""
    return Reader().event(value)


def _shallow(value: Any) -> Json:
    return {name: getattr(value, name) for name in _FIELDS[type(value)]}


def _round_to_json(round: events.Round) -> Json:
    budget = _shallow(round.budget)
    if round.budget.decision is not None:
        budget["decision"] = _shallow(round.budget.decision)
    return {
        **_shallow(round),
        "budget": budget,
        "tree": _shallow(round.tree),
        "timing": _shallow(round.timing),
    }


def _event(told: Json) -> Event:
    kind = _KINDS.get(str(told.pop("type", "")))
    if kind is None:
        raise KeyError("type")
    if kind is events.Emitted:
        return _emitted(told)
    if kind is events.Started:
        told["prompt_tokens"] = _ids(told["prompt_tokens"])
    if kind is events.Finished:
        told["reason"] = events.FinishReason(told["reason"])
        told["token_ids"] = _ids(told["token_ids"])
    event: Event = kind(**told)
    return event


def _ids(told: Any) -> tuple[int, ...] | None:
    return None if told is None else tuple(told)


def _emitted(told: Json) -> events.Emitted:
    if told["tokens"] is not None:
        told["tokens"] = tuple(map(_token, told["tokens"]))
    if told["round"] is not None:
        told["round"] = _round(dict(told["round"]))
    told["drafted"] = tuple(told["drafted"])
    return events.Emitted(**told)


def _token(told: Json) -> events.Token:
    origin = told["origin"]
    return events.Token(**{**told, "origin": None if origin is None else events.Origin(origin)})


def _round(told: Json) -> events.Round:
    tree = told["tree"]
    told["tree"] = events.Tree(tuple(tree["tokens"]), tuple(tree["parents"]))
    told["budget"] = _budget(dict(told["budget"]))
    told["timing"] = events.Timing(**told["timing"])
    told["origin"] = events.Origin(told["origin"])
    for name in ("accepted_path", "p", "q"):
        told[name] = tuple(told[name])
    return events.Round(**told)


def _budget(told: Json) -> events.Budget:
    if told.get("decision") is not None:  # the oldest traces have none
        told["decision"] = events.Decision(**told["decision"])
    told["needed"] = tuple(told.get("needed", ()))
    return events.Budget(**told)
