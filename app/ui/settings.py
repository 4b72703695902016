"""The side panel's values, as one frozen value that becomes engine requests."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.ui.offered import options_of
from engine.api import Capabilities
from engine.errors import InvalidRequest
from engine.request import (
    Control,
    Message,
    OptionValue,
    Request,
    Sampling,
    Speculation,
    controller_named,
    rule_named,
)

Options = dict[str, OptionValue]
DRAFTING = ("proposer", "controller", "depth")
"""The settings that a sweep measures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How replies are made. ``depth`` counts for the controller ``fixed``; ``stop`` is one stop string
    a line; ``options`` holds, for each proposer, its own options."""

    proposer: str = "draft"
    controller: str = "auto"
    depth: int = 4
    acceptance: str = "auto"
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int | None = None
    max_tokens: int | None = 512
    stop: str = ""
    system: str = ""
    options: Mapping[str, Options] = field(default_factory=dict)

    def request(self, messages: tuple[Message, ...]) -> Request:
        """The request for a reply; raises ``InvalidRequest`` for values that cannot be served."""
        return Request(
            messages=messages,
            sampling=self.sampling(),
            speculation=self.speculation(),
            max_tokens=self.max_tokens,
            stop=tuple(line for line in self.stop.splitlines() if line),
        )

    def sampling(self) -> Sampling:
        return Sampling(
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            min_p=self.min_p,
            repetition_penalty=self.repetition_penalty,
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            seed=self.seed,
        )

    def speculation(self) -> Speculation:
        control = Control.OFF if self.proposer == "none" else controller_named(self.controller)
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
        """The settings of a chat where nothing was chosen but how to draft."""
        proposer = speculation.proposer
        if speculation.control is Control.FIXED:
            return cls(proposer=proposer, controller=Control.FIXED, depth=speculation.deepest)
        # Plain decoding needs no controller; the one shown is for when another proposer is chosen.
        return cls(proposer=proposer)

    def choices(self, default: Settings) -> dict[str, Any]:
        """As JSON, to be kept. Drafting as ``default`` does is no choice: it is left out, and follows
        the default from then on."""
        kept = self.to_json()
        if all(kept[name] == getattr(default, name) for name in DRAFTING):
            return {name: value for name, value in kept.items() if name not in DRAFTING}
        return kept

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, kept: Any, default: Settings | None = None) -> Settings:
        """Kept settings; what is absent, unknown or of a wrong type falls back to ``default``."""
        default = default or cls()
        if not isinstance(kept, dict):
            return default
        names = {f.name for f in dataclasses.fields(cls)}
        try:
            return dataclasses.replace(
                default, **{name: value for name, value in kept.items() if name in names}
            )
        except (TypeError, ValueError):
            return default


def typed(options: Mapping[str, Options], capabilities: Capabilities | None) -> dict[str, Options]:
    """Options as a page sends them, where 1.0 is 1 and what was emptied is None, in their own types."""
    made: dict[str, Options] = {}
    for proposer, values in options.items():
        kinds = {option.name: option.kind for option in options_of(capabilities, proposer)}
        made[proposer] = {
            name: kinds.get(name, type(value))(value)
            for name, value in values.items()
            if value is not None
        }
    return made


def whole(name: str, value: Any) -> int | None:
    """A number field's value as an integer; empty is None."""
    if value is None or value == "":
        return None
    number = float(value)
    if not number.is_integer():
        raise InvalidRequest(name, f"{name} is {value}; it must be a whole number.")
    return int(number)
