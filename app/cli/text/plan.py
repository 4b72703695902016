"""A launch plan for people: what goes where, what to expect, what to know, what to type."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import indent

from app.cli.text.output import table
from app.deploy.estimate.speed import Row
from app.deploy.estimate.speed import table as loaded
from app.deploy.launch_plan import acceptance_from, cost, ground
from app.deploy.methods import NAMES
from app.deploy.render import Rendered
from app.deploy.request import Plan
from engine.values.units import counted

REPLY_SHARE = 4
"""Replies under load are this fraction of a context; the rest is prompt."""


def plan_text(plan: Plan, rendered: Rendered, notes: Sequence[str]) -> str:
    """Return the plan as text, with the script that starts it."""
    parts = [_heading(plan), _layout(plan), _memory(plan), _speed(plan), *_service(plan)]
    if notes:
        parts.append("Notes:\n" + "\n".join(f"- {note}" for note in notes))
    parts.append(f"start.sh:\n\n{indent(rendered.start.rstrip(), '    ')}")
    return "\n\n".join(parts)


def loads_text(plan: Plan) -> str:
    """Return the table of expected speeds under load."""
    reply = max(1, plan.request.context // REPLY_SHARE)
    prompt = plan.request.context - reply
    slots = plan.memory.most_users
    rows = loaded(plan.setup, slots, prompt, reply)
    head = ["users", "no drafting, all", "no drafting, one", "wait s"]
    if plan.drafts:
        head += ["drafted, all", "drafted, one", "wait s", "gain"]
    body = [_line(row, plan.drafts) for row in rows]
    return (
        f"Under load, tokens/s by this plan's estimates. Every user sends {prompt:,} "
        f"tokens, gets {reply:,}, and asks again. {counted(plan.layout.replicas, 'replica')}, "
        f"with room for {slots:,} users in each; acceptance {plan.setup.acceptance:.2f}.\n\n"
        + table(head, body, frozenset(range(len(head))))
    )


def _line(row: Row, drafted: bool) -> tuple[str, ...]:
    cells = [f"{row.users:,}"]
    for outcome in (row.plain, row.drafted) if drafted else (row.plain,):
        cells += [f"{outcome.total:,.0f}", f"{outcome.user:,.1f}", f"{outcome.wait:,.2f}"]
    return (*cells, f"{row.gain:.2f}") if drafted else tuple(cells)


def _heading(plan: Plan) -> str:
    target, request = plan.target, plan.request
    engine = NAMES[request.engine]
    if request.engine != request.computes:
        engine += f" with {NAMES[request.computes]}"
    drafting = (
        f"{plan.method.title}, {counted(plan.depth, 'token')} per round"
        if plan.drafts
        else "no drafting"
    )
    online = ", quantised while loading" if plan.quantised_online else ""
    used = (
        f", {_billions(target.active_parameters)} of them active per token"
        if target.experts
        else ""
    )
    return (
        f"{target.id} on {request.gpus}: {engine}, {drafting}.\n"
        f"Loads {target.name} in {target.format}{online}: {_billions(target.parameters)} "
        f"parameters{used}." + (f" Drafts with {plan.draft}." if plan.draft else "")
    )


def _layout(plan: Plan) -> str:
    layout, request = plan.layout, plan.request
    spread = f"each layer split over {layout.tensor} GPUs" if layout.tensor > 1 else "on one GPU"
    if layout.replicas > 1 or layout.pipeline > 1:
        spread = spread.replace("on one GPU", f"each {'stage ' * (layout.pipeline > 1)}on one GPU")
    if layout.attention > 1:
        spread = f"whole experts spread over {layout.tensor} GPUs, data-parallel attention"
    elif layout.expert > 1:
        spread += ", experts whole"
    stages = f", layers in {layout.pipeline} stages" if layout.pipeline > 1 else ""
    nodes = f", over {plan.nodes} nodes" if plan.nodes > 1 else ""
    mean = " on average" if request.by_rate else ""
    return (
        f"Layout: {counted(layout.replicas, 'replica')}, {spread}{stages}{nodes}. "
        f"{counted(request.users, 'user')} of {request.context:,} tokens{mean}, up to {plan.sequences:,} "
        f"per replica, which has room for {plan.memory.most_users:,}."
    )


def _memory(plan: Plan) -> str:
    memory = plan.memory
    rows = [
        ("weights", _gb(memory.weights)),
        *([("drafter", _gb(memory.drafter))] if memory.drafter else []),
        (f"KV cache of {counted(memory.users, 'user')}", _gb(memory.cache)),
        ("graphs, activations, logits", _gb(memory.work)),
        ("total", _gb(memory.needed)),
        (f"available of {_gb(memory.total)}", _gb(memory.available)),
    ]
    return table(("memory of the fullest GPU", "GB"), rows, frozenset({1}))


def _speed(plan: Plan) -> str:
    estimate = plan.estimate
    if not plan.has_ground:
        return ground(plan)
    rows = [
        _row("no drafting", estimate.plain_user, estimate.plain_all, estimate.plain_step, "1.00")
    ]
    if plan.drafts:
        tokens = f"{estimate.tokens_a_round:.2f}"
        user, everyone = estimate.drafted_user, estimate.drafted_all
        rows.append(_row("drafted", user, everyone, estimate.drafted_round, tokens))
    head = ("estimate", "tokens/s, one user", "tokens/s, all", "round, ms", "tokens per round")
    text = f"{table(head, rows, frozenset({1, 2, 3, 4}))}\n{ground(plan)}"
    if not plan.drafts:
        return text
    depths = ", ".join(
        f"{depth or 'none'} for {f'{first:,}' if first == last else f'{first:,} to {last:,}'}"
        for first, last, depth in plan.schedule
    )
    return (
        f"{text}\n{estimate.gain:.2f} times the speed with drafts, assuming "
        f"{plan.setup.acceptance:.2f} acceptance ({acceptance_from(plan)}).\nFastest depth by users "
        f"per replica: {depths}."
    )


def _service(plan: Plan) -> list[str]:
    lines, service, price = [], plan.service, cost(plan)
    if service is not None:
        asked = plan.request.targets is not None and plan.request.targets.limits
        lines.append(
            f"{'Targets: reached' if asked else 'Expected'} on {counted(service.layout.gpus, 'GPU')} "
            f"with {counted(service.users, 'request')} at once: "
            f"{service.rps:,.2f} requests/s, {service.ttft:,.0f} ms to the first token, "
            f"{service.itl:,.1f} ms between tokens (means)."
        )
    if price is not None:
        lines.append(f"Cost: {price:,.2f} per million reply tokens.")
    return ["\n".join(lines)] if lines else []


def _row(name: str, user: float, everyone: float, seconds: float, tokens: str) -> tuple[str, ...]:
    return name, _speed_of(user), _speed_of(everyone), f"{seconds * 1000:,.1f}", tokens


def _speed_of(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:,.1f}"


def _billions(count: int) -> str:
    return f"{count / 1e9:,.1f} B" if count >= 1e8 else f"{count / 1e6:,.1f} M"


def _gb(size: float) -> str:
    return f"{size / 1e9:,.1f}"
