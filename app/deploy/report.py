"""A plan as values for programs: its decisions and assumptions."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from app.deploy import support
from app.deploy.estimate import assumptions
from app.deploy.estimate.speed import LOADS
from app.deploy.methods import acceptance_of
from app.deploy.render import Rendered
from app.deploy.request import Plan

_OF_TARGET = (
    "id format parameters active_parameters layers hidden heads kv_heads vocabulary experts".split()
)
_OF_MEMORY = "weights drafter cache work needed available".split()


def facts(plan: Plan, rendered: Rendered) -> dict[str, Any]:
    """Return plain values: sizes in bytes, times in seconds, speeds in tokens/s."""
    request, target = plan.request, plan.target
    return {
        "engine": request.engine,
        "backend": request.computes,
        "target": {
            "loads": target.name,
            "quantised_online": plan.quantised_online,
            "latent_attention": bool(target.latent),
            **{name: getattr(target, name) for name in _OF_TARGET},
        },
        "method": request.method,
        "draft": plan.draft,
        "depth": plan.depth,
        "gpus": str(request.gpus),
        "users": request.users,
        "context": request.context,
        "layout": {**asdict(plan.layout), "gpus": plan.layout.gpus, "nodes_of_a_copy": plan.nodes},
        "memory_of_a_gpu": {
            **{name: getattr(plan.memory, name) for name in _OF_MEMORY},
            "most_users_of_a_copy": plan.memory.most_users,
        },
        "estimate": _estimate(plan),
        "service": None if plan.service is None else asdict(plan.service),
        "assumptions": {
            "acceptance": plan.setup.acceptance,
            "acceptance_fades": plan.setup.fades,
            "acceptance_from": acceptance_from(plan),
            "bandwidth_share": assumptions.BANDWIDTH_SHARE,
            "compute_share": assumptions.COMPUTE_SHARE,
            "layer_seconds": assumptions.LAYER_SECONDS,
            "ground": ground(plan),
            "gpu": request.gpus.kind.source,
        },
        "notes": list(support.notes(plan)),
        "files": dict(rendered.folder),
    }


def _estimate(plan: Plan) -> dict[str, Any]:
    """Return speeds, or that there are none for such GPUs."""
    if not plan.has_ground:
        return {"has_ground": False, "stops_at": None, "by_users": []}
    return {
        "has_ground": True,
        **asdict(plan.estimate),
        "gain": plan.estimate.gain,
        "best_depth_by_users": [list(part) for part in plan.schedule],
        "by_users": _by_users(plan),
        "cost_of_a_million": cost(plan),
    }


def acceptance_from(plan: Plan) -> str:
    """Return where the assumed acceptance is from."""
    if plan.request.acceptance is not None:
        return plan.request.acceptance_from
    return acceptance_of(plan.method, plan.target.model_type)[2]


def ground(plan: Plan) -> str:
    """Return what the speeds were held to, or why there are none."""
    gpu, (low, high) = plan.request.gpus.kind, assumptions.RANGE
    if plan.request.measured is not None:
        return (
            f"Steps are {plan.request.measured:.2f} times as long as estimated, as measured at one "
            "load; for other loads no range is known."
        )
    if not gpu.runs:
        why = f"no published runs on {gpu.name} are known" if not gpu.few else gpu.few.rstrip(".")
        return (
            f"No speeds are shown, as there is nothing to hold estimates for {gpu.name} to: {why}. Start "
            "the plan, measure it (foretoken bench load), and plan again with that server."
        )
    told = gpu.few and f"No range is known for {gpu.name}, which has few published runs. {gpu.few}"
    told = told or (
        f"Nine in ten published runs, all without drafts, were above {low:g} times the estimate, nine in "
        f"ten below {high:g} times."
    )
    return told + (" The gain of drafts is a further estimate, without a range." * plan.drafts)


def cost(plan: Plan) -> float | None:
    """Return the cost of a million tokens of replies at the rate that was asked for, else at the plan's
    load; None without a price."""
    price, service, targets = plan.request.price, plan.service, plan.request.targets
    if price is None or not plan.has_ground:
        return None
    speed = plan.estimate.drafted_all
    if service is not None and targets is not None:
        speed = (targets.rps or service.rps) * targets.osl
    return price * plan.layout.gpus / 3600 / speed * 1e6


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
