"""Write plans for engines: a script, a container, files, a cluster. One module per engine."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import MappingProxyType

from app.deploy.methods import ENGINES
from app.deploy.render.rendered import Rendered
from app.deploy.request import Plan

__all__ = ["Rendered", "render"]

RENDERERS = MappingProxyType({engine: f"app.deploy.render.{engine}" for engine in ENGINES})


def render(plan: Plan) -> Rendered:
    """Return the plan's files for its engine."""
    module = import_module(RENDERERS[plan.request.engine])
    renderer: Callable[[Plan], Rendered] = module.render
    return renderer(plan)
