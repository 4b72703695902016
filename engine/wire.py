"""JSON between two Foretokens: the capabilities of a loaded pair, and the path of a request.

Events go over the wire as ``engine.trace`` has them.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import asdict, fields
from typing import Any, TypeVar

from engine.api import NO_IMAGES, Capabilities, OptionInfo, ProposerInfo, Unavailable
from engine.request import THINKING, Control
from engine.tool_calls.styles import CallStyle
from engine.values.sampling import AcceptanceRule, Sampling

Json = dict[str, Any]
Value = TypeVar("Value", CallStyle, Unavailable)

VIA = "Via"
"""The header of RFC 9110 in which each server that hands a request on adds its name."""
INSTANCE = f"foretoken-{secrets.token_hex(8)}"
"""This process's name there. A request that comes back to it has gone round in a circle."""
passed: ContextVar[tuple[str, ...]] = ContextVar("passed", default=())
"""The Foretokens that the request being answered came through, the first one first."""
_INSTANCE = re.compile(r"foretoken-[0-9a-f]{16}")

_KINDS: dict[str, type] = {kind.__name__: kind for kind in (bool, int, float, str)}
_FLAGS = tuple(each.name for each in fields(Capabilities) if each.type == "bool")


def via(instances: Iterable[str]) -> str:
    """Return the value of a ``Via`` header that names these instances."""
    return ", ".join(f"1.1 {each}" for each in instances)


def instances_in(via: object) -> tuple[str, ...]:
    """Return the instances that a ``Via`` header names; other servers in it are left out."""
    return tuple(_INSTANCE.findall(str(via)))


def capabilities_to_json(found: Capabilities) -> Json:
    """Return a JSON-able object."""
    return {
        **asdict(found),
        "proposers": [_proposer_to_json(each) for each in found.proposers],
        "sampling": sorted(found.sampling),
    }


def capabilities_from_json(data: Json) -> Capabilities:
    """Read the object of ``capabilities_to_json``, perhaps from a later version: unknown rules,
    controllers, kinds of options and fields are left out. Raises KeyError, TypeError,
    ValueError or AttributeError if it is malformed."""
    rules, controls = set(AcceptanceRule), set(Control)
    sampling = {each.name for each in fields(Sampling)}
    calls = data["calls"]
    return Capabilities(
        proposers=tuple(_proposer(each) for each in data["proposers"]),
        preferred=str(data["preferred"]),
        rules=tuple(AcceptanceRule(each) for each in data["rules"] if each in rules),
        controllers=tuple(Control(each) for each in data["controllers"] if each in controls),
        sampling=frozenset(data["sampling"]) & sampling,
        calls=None
        if calls is None
        else _known(CallStyle, {**calls, "control": tuple(calls["control"])}),
        unavailable=tuple(_known(Unavailable, each) for each in data["unavailable"]),
        parallel=int(data["parallel"]),
        thinking=tuple(each for each in data["thinking"] if each in THINKING),
        **{flag: bool(data.get(flag)) for flag in _FLAGS},
        why_no_images=str(data.get("why_no_images", NO_IMAGES)),
    )


def _known(kind: type[Value], data: Json) -> Value:
    """Build a ``kind`` from the fields that this version knows."""
    return kind(**{each.name: data[each.name] for each in fields(kind) if each.name in data})


def _proposer_to_json(found: ProposerInfo) -> Json:
    options = [{**asdict(each), "kind": each.kind.__name__} for each in found.options]
    return {**asdict(found), "options": options}


def _proposer(data: Json) -> ProposerInfo:
    options = tuple(
        OptionInfo(
            each["name"],
            _KINDS[each["kind"]],
            each["default"],
            each["help"],
            tuple(each["choices"]),
        )
        for each in data["options"]
        if each["kind"] in _KINDS
    )
    return ProposerInfo(
        data["name"], options, dict(data["isolated_options"]), int(data["depth"]), data["about"]
    )
