"""Write plans for engines: a script, a container, files, a cluster."""

from __future__ import annotations

from app.deploy.methods import DYNAMO
from app.deploy.render import dynamo, servers
from app.deploy.render.rendered import Rendered
from app.deploy.request import Plan

__all__ = ["Rendered", "render"]


def render(plan: Plan) -> Rendered:
    """Return the plan's files for its engine."""
    return dynamo.render(plan) if plan.request.engine == DYNAMO else servers.render(plan)
