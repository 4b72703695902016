"""A plan as values for programs: its decisions and assumptions."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from app.deploy import support
from app.deploy.estimate import assumptions
from app.deploy.estimate.load import LOADS
from app.deploy.plan import Plan
from app.deploy.render import Rendered


def facts(plan: Plan, rendered: Rendered) -> dict[str, Any]:
    """Return plain values: sizes in bytes, times in seconds, speeds in tokens/s."""
    request, target, estimate = plan.request, plan.target, plan.estimate
    return {
        "engine": request.engine,
        "backend": request.computes,
        "target": {
            "id": target.id,
            "loads": target.name,
            "format": target.format,
            "quantised_online": plan.quantised_online,
            "parameters": target.parameters,
            "active_parameters": target.active_parameters,
            "layers": target.layers,
            "hidden": target.hidden,
            "heads": target.heads,
            "kv_heads": target.kv_heads,
            "vocabulary": target.vocabulary,
            "experts": target.experts,
            "latent_attention": bool(target.latent),
        },
        "method": request.method,
        "draft": plan.draft,
        "depth": plan.depth,
        "gpus": str(request.gpus),
        "users": request.users,
        "context": request.context,
        "layout": {**asdict(plan.layout), "gpus": plan.layout.gpus, "nodes_of_a_copy": plan.nodes},
        "memory_of_a_gpu": {
            "weights": plan.memory.weights,
            "drafter": plan.memory.drafter,
            "cache": plan.memory.cache,
            "work": plan.memory.work,
            "needed": plan.memory.needed,
            "available": plan.memory.available,
            "most_users_of_a_copy": plan.memory.most_users,
        },
        "estimate": {
            **asdict(estimate),
            "gain": estimate.gain,
            "best_depth_by_users": [list(part) for part in plan.schedule],
            "by_users": _by_users(plan),
        },
        "assumptions": {
            "acceptance": plan.setup.acceptance,
            "acceptance_from": "given" if request.acceptance is not None else plan.method.reason,
            "bandwidth_share": assumptions.BANDWIDTH_SHARE,
            "compute_share": assumptions.COMPUTE_SHARE,
            "layer_seconds": assumptions.LAYER_SECONDS,
            "gpu": request.gpus.kind.source,
        },
        "notes": list(support.notes(plan)),
        "files": dict(rendered.folder),
    }


def _by_users(plan: Plan) -> list[dict[str, float]]:
    """Return tokens/s of all users under loads up to the planned one, which is the engines' limit."""
    rows = []
    for users in (*(each for each in LOADS if each < plan.request.users), plan.request.users):
        copies = min(plan.layout.replicas, users)
        here = -(-users // copies)
        plain, drafted = (
            plan.setup.tokens_a_second(here, depth) / here * users for depth in (0, plan.depth)
        )
        rows.append({"users": users, "plain": plain, "drafted": drafted})
    return rows
