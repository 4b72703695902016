"""The drafting options of commands: proposer, depth, controller, and ``--option NAME=VALUE``, which is
parsed by the types of the proposer's ``Options``."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from app.settings.defaults import Defaults
from engine.errors import InvalidRequest
from engine.request import Control, OptionValue, Speculation
from engine.values.sampling import AcceptanceRule

if TYPE_CHECKING:
    from engine.api import Loaded
    from engine.loading.inventory import Pairing


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafting:
    """The options of a command; what nobody gave is None or empty.

    Raises InvalidRequest where it is made: mistakes are told before any model is loaded.
    """

    proposer: str | None = None
    depth: int | None = None
    control: Control | None = None
    acceptance: AcceptanceRule = AcceptanceRule.AUTO
    options: Sequence[str] = ()

    def __post_init__(self) -> None:
        self._named(self.proposer or Speculation().proposer)
        if self.proposer:
            parse(self.proposer, self.options)

    @property
    def chosen(self) -> bool:
        """True if any option was given; then the measured default, which is a whole, does not apply."""
        return bool(self.proposer or self.depth is not None or self.control or self.options)

    def speculation(self, loaded: Loaded, defaults: Defaults) -> Speculation:
        """Return the speculation for the pair. Raises InvalidRequest for options its proposer does not
        have."""
        if not self.chosen:
            return replace(defaults.speculation(loaded), acceptance=self.acceptance)
        name = self.proposer or loaded.capabilities.preferred
        return replace(self._named(name), options=parse(name, self.options))

    def _named(self, proposer: str) -> Speculation:
        return Speculation(
            proposer=proposer, depth=self.depth, controller=self.control, acceptance=self.acceptance
        )


def check_needs(names: Sequence[str | None], pairing: Pairing) -> None:
    """Raise InvalidRequest for a proposer that needs more than the pair has, before it is loaded. A
    server's own proposers are not checked."""
    from engine.drafting import proposers

    if not pairing.target.address:
        for name in filter(None, names):
            lacking = not proposers.needs_of(name) <= pairing.drafting
            unused = pairing.unused_inside() if lacking else ""
            proposers.check_needs(name, pairing.drafting, unused)


def use_drafts(names: Sequence[str | None]) -> bool:
    """Return whether one of these proposers may use a draft model. None means the pair's default."""
    from engine.drafting.proposers import drafts_with

    return any(name is None or "draft" in drafts_with(name, ["draft"]) for name in names)


def parse(proposer: str, pairs: Sequence[str]) -> dict[str, OptionValue]:
    """Return the options as typed values. Raises InvalidRequest for an unknown name or a wrong value."""
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
            "option", f"{proposer} has no option {pair!r}; it has: {known}. Write NAME=VALUE."
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
