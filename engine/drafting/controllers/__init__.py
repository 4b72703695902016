"""The registry of controllers, which decide how far to draft in each round."""

from __future__ import annotations

from collections.abc import Callable

from engine.decoding.controller import Controller
from engine.drafting.controllers.auto import Auto
from engine.drafting.controllers.controller_statistics import ControllerStatistics
from engine.drafting.controllers.fixed import Fixed, Off

_REGISTRY: dict[str, Callable[[int, ControllerStatistics], Controller]] = {
    "auto": Auto,
    "fixed": Fixed,
    "off": Off,
}


def names() -> tuple[str, ...]:
    """Return all controllers, in the order of pages and help texts."""
    return tuple(_REGISTRY)


def create(name: str, depth: int, statistics: ControllerStatistics) -> Controller:
    """Return a controller for one request that drafts at most ``depth`` tokens per round."""
    return _REGISTRY[name](depth, statistics)
