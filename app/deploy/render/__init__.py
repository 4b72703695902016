"""Plans as engines read them: a command, files beside it, a container, a cluster. One file per engine."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import MappingProxyType

from app.deploy.engines import ENGINES
from app.deploy.plan import Plan
from app.deploy.render.rendered import Rendered

__all__ = ["Rendered", "render"]

RENDERERS = MappingProxyType({engine: f"app.deploy.render.{engine}" for engine in ENGINES})


def render(plan: Plan) -> Rendered:
    """The plan for the engine that it was made for."""
    module = import_module(RENDERERS[plan.request.engine])
    renderer: Callable[[Plan], Rendered] = module.render
    return renderer(plan)
