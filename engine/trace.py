"""Events as JSON lines and back: a trace from which every shown number can be computed again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import IO, Any

from engine import events
from engine.errors import InvalidRequest
from engine.events import Event

_TYPES: dict[str, type[Any]] = {
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


def to_json(event: Event) -> dict[str, Any]:
    """A JSON-able object; ``type`` says which event it is."""
    return {"type": type(event).__name__.lower(), **asdict(event)}


def from_json(value: Any) -> Event:
    """The event that ``to_json`` made ``value`` from. Raises InvalidRequest for anything else."""
    try:
        fields = dict(value)
        kind = _TYPES.get(str(fields.pop("type", "")))
        if kind is None:
            raise KeyError("type")
        if kind is events.Emitted:
            return _emitted(fields)
        if kind is events.Started:
            fields["prompt_tokens"] = tuple(fields["prompt_tokens"])
        if kind is events.Finished:
            fields["reason"] = events.FinishReason(fields["reason"])
            fields["token_ids"] = tuple(fields["token_ids"])
        event: Event = kind(**fields)
        return event
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidRequest("trace", f"This is no event of a trace: {error!r}.") from error


def write(stream: IO[str], trace: Iterable[Event]) -> None:
    """One event a line."""
    for event in trace:
        stream.write(json.dumps(to_json(event), ensure_ascii=False) + "\n")


def read(stream: Iterable[str]) -> Iterator[Event]:
    """The events of a trace, blank lines skipped. Raises InvalidRequest with the line's number."""
    for number, line in enumerate(stream, start=1):
        if line.strip():
            try:
                yield from_json(json.loads(line))
            except json.JSONDecodeError as error:
                raise InvalidRequest(
                    "trace",
                    f"line {number} of the trace is no JSON: {error.msg}. It may be cut off.",
                ) from error


def _emitted(fields: dict[str, Any]) -> events.Emitted:
    return events.Emitted(
        round=_round(dict(fields["round"])),
        pieces=tuple(
            events.Piece(**{**piece, "origin": events.Origin(piece["origin"])})
            for piece in fields["pieces"]
        ),
        drafted=tuple(events.Drafted(**drafted) for drafted in fields["drafted"]),
        next_text=fields["next_text"],
        text=fields["text"],
    )


def _budget(fields: dict[str, Any]) -> events.Budget:
    if fields.get("decision") is not None:
        fields["decision"] = events.Decision(**fields["decision"])
    fields["needed"] = tuple(fields.get("needed", ()))
    return events.Budget(**fields)


def _round(fields: dict[str, Any]) -> events.Round:
    tree = fields["tree"]
    fields["tree"] = events.Tree(tuple(tree["tokens"]), tuple(tree["parents"]))
    fields["budget"] = _budget(dict(fields["budget"]))
    fields["timing"] = events.Timing(**fields["timing"])
    fields["origin"] = events.Origin(fields["origin"])
    for name in ("accepted_path", "p", "q"):
        fields[name] = tuple(fields[name])
    return events.Round(**fields)
