"""The side panel's values, as one frozen value that becomes engine requests."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import Any, get_args, get_type_hints

from engine.api import Capabilities
from engine.errors import InvalidRequest
from engine.request import (
    PLAIN,
    THINKING,
    Control,
    OptionValue,
    Request,
    Speculation,
    controller_named,
)
from engine.values import noun, require, shown
from engine.values.messages import Message
from engine.values.sampling import Sampling, SamplingValues, rule_named

Options = dict[str, OptionValue]
DRAFTING = ("proposer", "controller", "depth")
"""The settings that a sweep measures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(SamplingValues):
    """How replies are made. ``depth`` counts for the controller ``fixed``; ``stop`` is one stop string
    a line; ``options`` holds, for each proposer, its own options.

    Chats differ from the API and the command line in what holds where nobody chose: a little chance, so
    that a reply that is asked for again is another one."""

    temperature: float = 0.7
    top_p: float = 0.95
    proposer: str = Speculation().proposer
    controller: str = "auto"
    depth: int = 4
    acceptance: str = "auto"
    max_tokens: int | None = None
    stop: str = ""
    thinking: str = ""
    thinking_budget: int | None = None
    system: str = ""
    options: Mapping[str, Options] = field(default_factory=dict)

    def request(self, messages: tuple[Message, ...]) -> Request:
        """Return the request for a reply. Raises InvalidRequest for values that cannot be served."""
        return Request(
            messages=messages,
            sampling=self.sampling(),
            speculation=self.speculation(),
            max_tokens=self.max_tokens,
            stop=tuple(line for line in self.stop.splitlines() if line),
            thinking=self.thinking,
            thinking_budget=self.thinking_budget,
        )

    def sampling(self) -> Sampling:
        return Sampling(**{each.name: getattr(self, each.name) for each in fields(Sampling)})

    def speculation(self) -> Speculation:
        control = Control.OFF if self.proposer == PLAIN else controller_named(self.controller)
        depths = {Control.FIXED: self.depth, Control.OFF: 0}
        return Speculation(
            proposer=self.proposer,
            depth=depths.get(control),
            controller=control,
            acceptance=rule_named(self.acceptance),
            options=dict(self.options.get(self.proposer, {})),
        )

    @classmethod
    def drafting_as(cls, speculation: Speculation) -> Settings:
        """Return default settings that draft by ``speculation``."""
        proposer = speculation.proposer
        if speculation.control is Control.FIXED:
            return cls(proposer=proposer, controller=Control.FIXED, depth=speculation.deepest)
        # Plain decoding needs no controller; the one shown is for when another proposer is chosen.
        return cls(proposer=proposer)

    def drafting_like(self, other: Settings) -> Settings:
        """Return these settings with the drafting of ``other``."""
        return dataclasses.replace(self, **{name: getattr(other, name) for name in DRAFTING})

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, kept: Any, default: Settings | None = None) -> Settings:
        """Read stored settings; each one that is missing or unusable falls back to ``default``."""
        default = default or cls()
        if not isinstance(kept, dict):
            return default
        usable = {}
        for name in kept.keys() & _TYPES.keys():
            with suppress(InvalidRequest):
                usable[name] = _kept(name, kept[name])
        return dataclasses.replace(default, **usable)


def typed(options: Mapping[str, Options], capabilities: Capabilities | None) -> dict[str, Options]:
    """Convert a page's options to their own types: 1.0 to 1, an emptied field to None.

    Drop what an offered proposer does not have. Keep other proposers' options: another pair may have
    them.
    """
    made: dict[str, Options] = {}
    for proposer, sent in options.items():
        offered = capabilities.proposer(proposer) if capabilities else None
        own = offered.options if offered else None
        values = sent if own is None else {x.name: _as(x.kind, sent.get(x.name)) for x in own}
        made[proposer] = {name: value for name, value in values.items() if value is not None}
    return made


def whole(name: str, value: Any) -> int | None:
    """Return a number field's value as an integer; an empty field is None. Raises InvalidRequest."""
    if value is None or value == "":
        return None
    number = decimal(name, value)
    require(number.is_integer(), name, f"is {value}; it must be a whole number.")
    return int(number)


def decimal(name: str, value: Any) -> float:
    """Return a number field's value. Raises InvalidRequest for what is no finite number."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    require(math.isfinite(number), name, f"is {shown(value)}; it must be a number.")
    return number


_TYPES: Mapping[str, Any] = get_type_hints(Settings)


def kind_of(name: str) -> type:
    """Return the type of a setting other than ``options``, without None."""
    kind: type = (get_args(_TYPES[name]) or (_TYPES[name],))[0]
    return kind


def _kept(name: str, value: Any) -> Any:
    """Return a stored setting in its own type. Raises InvalidRequest for an unusable one."""
    if name == "options":
        return _kept_options(value)
    if value is None and type(None) in get_args(_TYPES[name]):
        return None
    kind = kind_of(name)
    made = _as(kind, value)
    require(made is not None, name, f"is {shown(value)}; it must be {noun(kind)}.")
    if name == "controller":
        controller_named(made)
    if name == "acceptance":
        rule_named(made)
    require(name != "thinking" or made in THINKING, name, f"is {made!r}.")
    return made


def _kept_options(value: Any) -> dict[str, Options]:
    """Return stored options without values that no option can have. Raises InvalidRequest."""
    wrong = f"is {shown(value)}; it must hold the options of each method."
    require(isinstance(value, dict), "options", wrong)
    made: dict[str, Options] = {}
    for proposer, own in value.items():
        if isinstance(own, dict):
            made[proposer] = {
                name: one for name, one in own.items() if isinstance(one, OptionValue)
            }
    return made


def _as(kind: type, value: Any) -> Any:
    """Convert ``value`` to ``kind``; either kind of number converts to the other. Return None if it is
    neither."""
    if kind not in (int, float):
        return value if type(value) is kind else None
    if type(value) not in (int, float) or not abs(value) <= sys.float_info.max:
        return None
    return kind(value)
