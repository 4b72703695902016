"""The one form of events outside of memory: each a JSON object, with the version of that form.

Traces in files, traces of kept replies and scripts of tests are lines of it; what the pages read is a
projection of the same events (app/ui/rounds/view.py). A form that was once written can be read for ever:
every version has a function that makes the next one's object of it. Offsets count Unicode characters.

    3    {"v": 3, "type": ..., and the event's fields}; a token's alternatives, that a reply begins inside
         a thought, and what an engine elsewhere counted or said of a failure, only where there are any
    2    nothing of a round's likeliest tokens, nor of what a plain round takes
    1    no "v"; tokens without places, drafted tokens with what their round says of them too
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator
from typing import IO, Any

from engine import events
from engine.errors import InvalidRequest
from engine.events import Event
from engine.files import parse_json

VERSION = 3

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
    kind: tuple(field.name for field in dataclasses.fields(kind))
    for kind in (
        *_KINDS.values(),
        events.Alternative,
        events.Token,
        events.Round,
        events.Tree,
        events.Budget,
        events.Decision,
        events.Timing,
        events.Counted,
    )
}


def to_json(event: Event) -> Json:
    """A JSON-able object of version ``VERSION``; ``type`` says which event it is."""
    value = {"v": VERSION, "type": type(event).__name__.lower(), **_shallow(event)}
    if isinstance(event, events.Emitted):
        if event.tokens is not None:
            value["tokens"] = [_token_to_json(token) for token in event.tokens]
        if event.round is not None:
            value["round"] = _round_to_json(event.round)
    if isinstance(event, events.Started) and not event.thinking:
        del value["thinking"]
    if isinstance(event, events.Failed):  # few say more than why
        value = {key: said for key, said in value.items() if said not in (None, False)}
    if isinstance(event, events.Finished):
        counted = value.pop("counted")
        if counted is not None:  # most engines show what there is to count
            value["counted"] = _shallow(counted)
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
                value = parse_json(line)
            except ValueError as error:
                raise InvalidRequest(
                    "trace",
                    f"line {number} of the trace is no JSON: {error}. It may be cut off.",
                ) from error
            yield reader.event(value, f"Line {number} of the trace")


class Reader:
    """Objects of any version in, events out, in the order in which they were written."""

    def __init__(self) -> None:
        self._end = 0  # characters of all tokens so far; version 1 does not tell where they stand

    def event(self, value: Any, place: str = "This") -> Event:
        """The event that ``value`` tells. Raises InvalidRequest, which names ``place``."""
        try:
            fields = dict(value)
            version = fields.pop("v", 1)
            if isinstance(version, int) and version > VERSION:
                raise InvalidRequest(
                    "trace",
                    f"{place} was written by a newer version of Foretoken (form {version}; this one "
                    f"reads up to {VERSION}). Update Foretoken to open it.",
                )
            if version not in range(1, VERSION + 1):
                raise ValueError(f"version {version}")
            if version <= 1:
                self._upgrade_1(fields)
            if version <= 2:
                _upgrade_2(fields)
            return _event(fields)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise InvalidRequest("trace", f"{place} is no event of a trace: {error!r}.") from error

    def _upgrade_1(self, fields: Json) -> None:
        """Makes an object of version 1 one of version 2."""
        if fields["type"] in ("queued", "started"):
            self._end = 0
        if fields["type"] != "emitted":
            return
        tokens = []
        for piece in fields.pop("pieces"):
            token = dict(piece)
            tokens.append({"id": token.pop("token"), "start": self._end, **token})
            self._end += len(token["text"])
        fields["tokens"] = tokens
        fields["drafted"] = [drafted["text"] for drafted in fields["drafted"]]


def _upgrade_2(fields: Json) -> None:
    """Makes an object of version 2 one of version 3."""
    if fields["type"] == "emitted":
        fields["likeliest"] = ()
        if fields["round"] is not None:
            fields["round"] = {**fields["round"], "likeliest": ()}


def _shallow(value: Any) -> Json:
    return {name: getattr(value, name) for name in _FIELDS[type(value)]}


def _token_to_json(token: events.Token) -> Json:
    value = _shallow(token)
    alternatives = value.pop("alternatives")
    if alternatives:  # most replies were asked for none
        value["alternatives"] = [_shallow(each) for each in alternatives]
    return value


def _round_to_json(round: events.Round) -> Json:
    budget = _shallow(round.budget)
    if round.budget.decision is not None:
        budget["decision"] = _shallow(round.budget.decision)
    fields = _shallow(round)
    del fields["alternatives"]  # they are the tokens'
    return {
        **fields,
        "budget": budget,
        "tree": _shallow(round.tree),
        "timing": _shallow(round.timing),
    }


def _event(fields: Json) -> Event:
    kind = _KINDS.get(str(fields.pop("type", "")))
    if kind is None:
        raise KeyError("type")
    if kind is events.Emitted:
        return _emitted(fields)
    if kind is events.Started:
        fields["prompt_tokens"] = _ids(fields["prompt_tokens"])
    if kind is events.Finished:
        fields["reason"] = events.FinishReason(fields["reason"])
        fields["token_ids"] = _ids(fields["token_ids"])
        fields["counted"] = _counted(fields.get("counted"))
    event: Event = kind(**fields)
    return event


def _counted(fields: Json | None) -> events.Counted | None:
    if fields is None:
        return None
    return events.Counted(**{**fields, "accepted_at": tuple(fields["accepted_at"])})


def _ids(fields: Any) -> tuple[int, ...] | None:
    return None if fields is None else tuple(fields)


def _emitted(fields: Json) -> events.Emitted:
    if fields["tokens"] is not None:
        fields["tokens"] = tuple(map(_token, fields["tokens"]))
    if fields["round"] is not None:
        fields["round"] = _round(dict(fields["round"]))
    for name in ("drafted", "likeliest"):
        fields[name] = tuple(fields[name])
    return events.Emitted(**fields)


def _token(fields: Json) -> events.Token:
    origin = fields["origin"]
    alternatives = tuple(events.Alternative(**each) for each in fields.get("alternatives", ()))
    return events.Token(
        **{
            **fields,
            "origin": None if origin is None else events.Origin(origin),
            "alternatives": alternatives,
        }
    )


def _round(fields: Json) -> events.Round:
    tree = fields["tree"]
    fields["tree"] = events.Tree(tuple(tree["tokens"]), tuple(tree["parents"]))
    fields["budget"] = _budget(dict(fields["budget"]))
    fields["timing"] = events.Timing(**fields["timing"])
    fields["origin"] = events.Origin(fields["origin"])
    for name in ("accepted_path", "p", "q"):
        fields[name] = tuple(fields[name])
    fields["likeliest"] = tuple((token, p) for token, p in fields["likeliest"])
    return events.Round(**fields)


def _budget(fields: Json) -> events.Budget:
    if fields.get("decision") is not None:  # the oldest traces have none
        fields["decision"] = events.Decision(**fields["decision"])
    fields["needed"] = tuple(fields.get("needed", ()))
    return events.Budget(**fields)
