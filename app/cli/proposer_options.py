"""``--option name=value`` of a proposer, read by the types of its own ``Options``."""

from __future__ import annotations

import dataclasses

from engine.errors import InvalidRequest
from engine.request import OptionValue


def parse(proposer: str, pairs: list[str]) -> dict[str, OptionValue]:
    """The options as values; raises ``InvalidRequest`` for a name or value that does not fit."""
    from engine.drafting.proposers import options_of

    fields = {field.name: field for field in dataclasses.fields(options_of(proposer))}
    return dict(_parse_one(proposer, pair, fields) for pair in pairs)


def _parse_one(
    proposer: str, pair: str, fields: dict[str, dataclasses.Field[object]]
) -> tuple[str, OptionValue]:
    name, equals, text = pair.partition("=")
    name = name.strip().replace("-", "_")
    if not equals or name not in fields:
        known = ", ".join(fields) or "none"
        raise InvalidRequest(
            "option", f"--option takes NAME=VALUE; {proposer} knows {known}, not {pair!r}."
        )
    return name, _convert(name, text.strip(), fields[name].default)


def _convert(name: str, text: str, default: object) -> OptionValue:
    if isinstance(default, bool):
        if text.lower() not in ("true", "false"):
            raise InvalidRequest("option", f"{name} is {text!r}; it must be true or false.")
        return text.lower() == "true"
    kind = type(default) if isinstance(default, int | float) else str
    try:
        return kind(text)
    except ValueError as error:
        what = "a whole number" if kind is int else "a number"
        raise InvalidRequest("option", f"{name} is {text!r}; it must be {what}.") from error
