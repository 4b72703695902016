"""Launch plans for the command line and the page: options to a plan, its folder, and the plan
as values for programs: its decisions and assumptions."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from app.deploy import support
from app.deploy.estimate import assumptions
from app.deploy.estimate.speed import LOADS
from app.deploy.gpus import parse_gpus
from app.deploy.measured import Measured, measured, replan
from app.deploy.methods import DYNAMO, VLLM, Needs, acceptance_of, method_named
from app.deploy.model import ModelFacts, find, known_models, of_path, unknown
from app.deploy.options import PlanOptions
from app.deploy.planning import make_plan
from app.deploy.render import Rendered
from app.deploy.request import Plan, PlanRequest, Targets
from app.deploy.tables import TEXTS, refusal
from app.inventory import open_inventory
from engine.errors import DiskError, ForetokenError, InvalidRequest, what_failed
from engine.files import read_json
from engine.values import LEAST_CONTEXT

DEFAULT_USERS = 8
DEFAULT_CONTEXT = 8192
"""Default context, if the model has as many tokens."""
DEFAULT_PROMPT, DEFAULT_REPLY = 1024, 1024
"""Tokens of a service's prompts and replies, as InferenceX's smallest benchmark has them."""


_AS_GIVEN = "method depth quantization kv_cache_dtype acceptance task price".split()


def plan_for(options: PlanOptions, data: Path, key: str | None = None) -> Plan:
    """Return the plan, by what ``options.server`` measured if it is named, which may demand ``key``.

    Raises InvalidRequest, ModelError or OutOfMemory, each with a remedy.
    """
    found = measured(options.server, key) if options.server else None
    request = request_for(options, data, found)
    return make_plan(request) if found is None else replan(request, found)


def request_for(options: PlanOptions, data: Path, found: Measured | None = None) -> PlanRequest:
    """Return the request; a target that is not named is the model of the server ``found``."""
    needs_model = method_named(options.method).needs is Needs.MODEL
    name = options.target or (found.model if found else "")
    if not name:
        raise refusal("target", "no-model")
    try:
        target = find_model(name, data)
    except InvalidRequest as error:
        if options.target or found is None:
            raise
        raise refusal("target", "unknown-served", address=found.address, name=name) from error
    told = _check_served(target, found, data) if found and options.target else ()
    draft = find_model(options.draft, data) if options.draft and needs_model else None
    by_id = options.draft in known_models()  # in the target's format, then
    targets = _targets(options)
    context = options.context
    if context is None:
        wanted = targets.isl + targets.osl if targets else DEFAULT_CONTEXT
        context = min(max(wanted, LEAST_CONTEXT), target.context)
    if targets and targets.rps is not None and options.users is not None:
        raise refusal("users", "rate-and-users")
    if options.backend and options.engine != DYNAMO:
        raise refusal("backend", "backend")
    drafter = draft.name if draft else options.draft and (absolute(options.draft) or options.draft)
    return PlanRequest(
        options.engine,
        target,
        parse_gpus(options.gpus),
        draft=options.draft if by_id else drafter,
        draft_model=draft,
        users=DEFAULT_USERS if options.users is None else options.users,
        context=context,
        backend=options.backend or VLLM,
        targets=targets,
        told=told,
        **{name: getattr(options, name) for name in _AS_GIVEN},
    )


def _check_served(target: ModelFacts, found: Measured, data: Path) -> tuple[str, ...]:
    """Return a sentence if the server's model is not known to be ``target``. Raises InvalidRequest if it
    is another."""
    try:
        served = find_model(found.model, data) if found.model else None
    except ForetokenError:
        served = None
    if served is None:
        says = f"calls it {found.model!r}" if found.model else "does not tell it"
        return (TEXTS["notes"]["unchecked-served"].format(found=found, target=target, says=says),)
    if served.id != target.id:
        raise refusal("target", "other-served", address=found.address, served=served, target=target)
    return ()


def _targets(options: PlanOptions) -> Targets | None:
    """Return a service's targets, if any is set. Raises InvalidRequest for lengths that are no counts."""
    isl, osl = options.isl, options.osl
    if all(each is None for each in (isl, osl, options.rps, options.ttft, options.itl)):
        return None
    isl = DEFAULT_PROMPT if isl is None else isl
    osl = DEFAULT_REPLY if osl is None else osl
    for field, value in (("isl", isl), ("osl", osl)):
        if value < 1:
            raise refusal(field, "above-0", value=value)
    return Targets(isl, osl, options.rps, options.ttft, options.itl)


def find_model(name: str, data: Path) -> ModelFacts:
    """Return the model of a folder or file, a published one, or a downloaded one of the catalog.

    Raises InvalidRequest if there is none, and ModelError for a folder that is no model.
    """
    if there := absolute(name):
        return of_path(Path(there))
    model = find(name)
    if model is not None:
        return model
    inventory = open_inventory(data)
    for spec in inventory.catalog.models:
        if name in (spec.id, spec.repository, spec.called) and (folder := inventory.locate(spec)):
            model = of_path(folder)
            published = not spec.is_gguf and spec.repository
            return replace(model, name=published or model.name)
    raise unknown(name)


def absolute(name: str) -> str | None:
    """Return the absolute path of a folder or file on this machine; None if there is none."""
    path = os.path.expanduser(name)
    return str(Path(path).resolve()) if os.path.exists(path) else None


def check_folder(folder: Path) -> None:
    """Raise InvalidRequest if files cannot be written there, before anything is planned."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InvalidRequest(
            "out", f"{folder} cannot be written to: {what_failed(error)}. Choose another folder."
        ) from error


def write_folder(folder: Path, rendered: Rendered, text: str, facts: Mapping[str, Any]) -> None:
    """Write scripts, files, and the plan as text and JSON. Delete files of an earlier plan, unless they
    were edited. Raises DiskError."""
    files = {**rendered.folder, "README.md": text + "\n", "plan.json": json.dumps(facts, indent=2)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in _written_before(folder).items():
            file = folder / name
            if file.is_file() and file.read_bytes() == content.encode():
                file.unlink()
        for name, content in files.items():
            file = folder / name
            file.write_text(content, encoding="utf-8")
            if file.suffix == ".sh":
                file.chmod(0o755)
    except OSError as error:
        raise DiskError.at(folder, error) from error


def _written_before(folder: Path) -> dict[str, str]:
    """Return the files of the plan in the folder, by name; none if it has no plan."""
    try:
        files = read_json(folder / "plan.json")["files"]
        return {Path(name).name: content for name, content in files.items()}
    except (OSError, ValueError, TypeError, LookupError, AttributeError):
        return {}


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
        plain, drafted = (plan.setup.of_all(users, depth) for depth in (0, plan.depth))
        rows.append({"users": users, "plain": plain, "drafted": drafted})
    return rows
