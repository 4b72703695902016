"""How far to draft, decided each round: the registry of controllers."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from engine.decoding.controller import Controller
from engine.drafting.controllers.controller_statistics import ControllerStatistics

_REGISTRY = {
    "auto": "engine.drafting.controllers.auto:Auto",
    "fixed": "engine.drafting.controllers.fixed:Fixed",
    "off": "engine.drafting.controllers.fixed:Off",
}


def names() -> tuple[str, ...]:
    """All controllers, in the order they are offered."""
    return tuple(_REGISTRY)


def create(name: str, depth: int, statistics: ControllerStatistics) -> Controller:
    """A controller for one request that drafts ``depth`` tokens a round at most."""
    module, _, attribute = _REGISTRY[name].partition(":")
    kind: Any = getattr(import_module(module), attribute)
    controller: Controller = kind(depth, statistics)
    return controller
