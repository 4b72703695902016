"""Launch plans for the command line and the page: options to a plan, and its folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from app.deploy.formats import AUTO
from app.deploy.gpus import parse_gpus
from app.deploy.known import find, unknown
from app.deploy.methods import NONE, VLLM, Needs, method_named
from app.deploy.model import ModelFacts, of_path
from app.deploy.plan import Plan
from app.deploy.planning import make_plan
from app.deploy.render import Rendered
from app.deploy.request import PlanRequest
from app.inventory import open_inventory
from engine.errors import DiskError
from engine.files import read_json

DEFAULT_CONTEXT = 8192
"""Default context, if the model has as many tokens."""


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """A plan's options as text and numbers; see ``PlanRequest``."""

    target: str
    gpus: str
    engine: str = VLLM
    method: str = NONE
    draft: str | None = None
    depth: int | None = None
    users: int = 8
    context: int | None = None
    quantization: str = AUTO
    kv_cache_dtype: str = AUTO
    acceptance: float | None = None
    backend: str = VLLM


def plan_for(options: PlanOptions, data: Path) -> Plan:
    """Return the plan. Raises InvalidRequest, ModelError or OutOfMemory, each with a remedy."""
    needs_model = method_named(options.method).needs is Needs.MODEL
    target = find_model(options.target, data)
    draft = find_model(options.draft, data) if options.draft and needs_model else None
    context = options.context
    resolved = {
        "target": target,
        "gpus": parse_gpus(options.gpus),
        "draft": draft.name if draft else options.draft and absolute(options.draft),
        "draft_model": draft,
        "context": min(DEFAULT_CONTEXT, target.context) if context is None else context,
    }
    return make_plan(PlanRequest(**asdict(options) | resolved))


def find_model(name: str, data: Path) -> ModelFacts:
    """Return the model of a folder or file, a published one, or a downloaded one of the catalog.

    Raises InvalidRequest if there is none, and ModelError for a folder that is no model.
    """
    path = Path(name).expanduser()
    if path.exists():
        return of_path(path.resolve())
    model = find(name)
    if model is not None:
        return model
    inventory = open_inventory(data)
    for spec in inventory.catalog.models:
        if name in (spec.id, spec.repository) and (folder := inventory.locate(spec)):
            model = of_path(folder)
            published = not spec.is_gguf and spec.repository
            return replace(model, name=published or model.name)
    raise unknown(name)


def absolute(name: str) -> str:
    """Return what an engine loads for a draft: a folder on this machine by its absolute path."""
    path = Path(name).expanduser()
    return str(path.resolve()) if path.exists() else name


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
