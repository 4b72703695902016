"""The codec of events: each is a JSON object that names the version of its form.

Trace files, the traces of stored replies, server-sent events and scripts of tests are lines of it. What
the pages read is a projection of the same events (app/ui/rounds/view.py). Offsets count Unicode
characters. An object is {"v": VERSION, "type": ..., and the event's fields}. Empty fields that few events
fill are left out: a token's top_logprobs, that a reply begins inside a thought, and what an engine
elsewhere counted or reported of a failure.
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

VERSION = 4

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
        events.TopLogprob,
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
    """Return a JSON-able object; its ``type`` names the event."""
    value = {"v": VERSION, "type": type(event).__name__.lower(), **_shallow(event)}
    if isinstance(event, events.Emitted):
        if event.tokens is not None:
            value["tokens"] = [_token_to_json(token) for token in event.tokens]
        if event.round is not None:
            value["round"] = _round_to_json(event.round)
    if isinstance(event, events.Started) and not event.thinking:
        del value["thinking"]
    if isinstance(event, events.Failed):  # few say more than why
        value = {key: field for key, field in value.items() if field not in (None, False)}
    if isinstance(event, events.Finished):
        counted = value.pop("counted")
        if counted is not None:  # most engines show what there is to count
            value["counted"] = _shallow(counted)
    return value


def to_line(event: Event) -> str:
    """Return ``to_json`` as text without a line break."""
    return json.dumps(to_json(event), ensure_ascii=False, separators=(",", ":"))


def write(stream: IO[str], trace: Iterable[Event]) -> None:
    """Write one event a line."""
    for event in trace:
        stream.write(to_line(event) + "\n")


def read(lines: Iterable[str]) -> Iterator[Event]:
    """Yield the events of a trace, without blank lines. Raises InvalidRequest with the line's number."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                value = parse_json(line)
            except ValueError as error:
                raise InvalidRequest(
                    "trace",
                    f"line {number} of the trace is no JSON: {error}. It may be cut off.",
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
            age, remedy = "an older", "Only that version opens it."
            if version > VERSION:
                age, remedy = "a newer", "Update Foretoken to open it."
            raise InvalidRequest(
                "trace",
                f"{place} was written by {age} version of Foretoken (form {version}; this one reads form "
                f"{VERSION}). {remedy}",
            )
        return _event(fields)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise InvalidRequest("trace", f"{place} is no event of a trace: {error!r}.") from error


def _shallow(value: Any) -> Json:
    return {name: getattr(value, name) for name in _FIELDS[type(value)]}


def _token_to_json(token: events.Token) -> Json:
    value = _shallow(token)
    top_logprobs = value.pop("top_logprobs")
    if top_logprobs:  # most replies were asked for none
        value["top_logprobs"] = [_shallow(each) for each in top_logprobs]
    return value


def _round_to_json(round: events.Round) -> Json:
    budget = _shallow(round.budget)
    if round.budget.decision is not None:
        budget["decision"] = _shallow(round.budget.decision)
    fields = _shallow(round)
    del fields["top_logprobs"]  # they are the tokens'
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
    for name in ("drafted", "top_texts"):
        fields[name] = tuple(fields[name])
    return events.Emitted(**fields)


def _token(fields: Json) -> events.Token:
    origin = fields["origin"]
    top_logprobs = tuple(events.TopLogprob(**each) for each in fields.get("top_logprobs", ()))
    return events.Token(
        **{
            **fields,
            "origin": None if origin is None else events.Origin(origin),
            "top_logprobs": top_logprobs,
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
    fields["top_tokens"] = tuple((token, p) for token, p in fields["top_tokens"])
    return events.Round(**fields)


def _budget(fields: Json) -> events.Budget:
    if fields["decision"] is not None:
        fields["decision"] = events.Decision(**fields["decision"])
    fields["needed"] = tuple(fields["needed"])
    return events.Budget(**fields)
