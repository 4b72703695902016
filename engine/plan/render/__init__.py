"""Plans as engines read them: a command, files beside it, a container, a cluster. One file per engine."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import MappingProxyType

from engine.plan.engines import ENGINES
from engine.plan.plan import Plan
from engine.plan.render.rendered import Rendered

__all__ = ["Rendered", "render"]

RENDERERS = MappingProxyType({engine: f"engine.plan.render.{engine}" for engine in ENGINES})


def render(plan: Plan) -> Rendered:
    """The plan for the engine that it was made for."""
    module = import_module(RENDERERS[plan.request.engine])
    renderer: Callable[[Plan], Rendered] = module.render
    return renderer(plan)
