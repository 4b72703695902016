"""The plan page's backend: the choices there are, and the plan for a choice."""

from __future__ import annotations

import shlex
import sys
from dataclasses import fields
from pathlib import Path
from shutil import which
from typing import Any

from app.deploy.gpus import AUTO, FORMATS, KINDS, KV_WIDTHS
from app.deploy.launch_plan import facts, plan_for
from app.deploy.methods import DEPTHS, ENGINES, METHODS, NAMES, drafts_by
from app.deploy.model import known_models
from app.deploy.options import PlanOptions
from app.deploy.render import render
from app.ui.endpoints import View, endpoint, waits
from engine.errors import InvalidRequest

NUMBERS = {
    **dict.fromkeys(("depth", "users", "context", "isl", "osl"), int),
    **dict.fromkeys(("acceptance", "rps", "ttft", "itl", "price"), float),
}
"""Fields that are not text; an empty one is left to the plan."""
LABELS = {
    "isl": "Prompt tokens", "osl": "Reply tokens", "ttft": "Time to first token",
    "itl": "Time between tokens", "rps": "Requests per second", "kv_cache_dtype": "KV cache",
    "quantization": "Weights",
}  # fmt: skip
"""Names on the page of fields whose option has another."""


class PlanBackend:
    """Answers the page with plain values. ``data`` is the folder of the user's own catalog."""

    def __init__(self, data: Path) -> None:
        self._data = data

    @endpoint
    def offer(self, data: View | None = None) -> View:
        """Return everything that can be chosen. Dynamo has the methods of the engine that computes for
        it."""
        return {
            "targets": list(known_models()),
            "gpus": list(KINDS),
            "engines": [{"id": engine, "label": NAMES[engine]} for engine in ENGINES],
            "methods": [
                {
                    "id": name,
                    "label": method.title,
                    "engines": [engine for engine in ENGINES if drafts_by(engine, name)],
                }
                for name, method in METHODS.items()
            ],
            "formats": [AUTO, *FORMATS],
            "kv_cache_dtypes": list(KV_WIDTHS),
            "tasks": list(DEPTHS),
        }

    @waits
    @endpoint
    def make(self, data: View) -> View:
        """Return the plan as facts, and the command that makes the same. Raises as ``plan_for``."""
        try:
            options = _options(data)
            plan = plan_for(options, self._data)
        except InvalidRequest as error:
            said, field = str(error), error.field
            if field in LABELS and said.startswith(field):
                raise InvalidRequest(field, LABELS[field] + said.removeprefix(field)) from error
            raise
        return {**facts(plan, render(plan)), "command": _command(options)}


def _options(data: View) -> PlanOptions:
    """Return the form's values; empty fields get the plan's defaults. Raises InvalidRequest."""
    values: dict[str, Any] = {}
    for field in fields(PlanOptions):
        text = str(data.get(field.name) or "").strip()
        if not text:
            continue
        try:
            values[field.name] = NUMBERS.get(field.name, str)(text)
        except ValueError as error:
            raise InvalidRequest(
                field.name, f"{field.name} is '{text}'; enter a number."
            ) from error
    if not {"target", "server"} & values.keys() or "gpus" not in values:
        raise InvalidRequest("target", "Enter a model and GPUs.")
    return PlanOptions(**{"target": "", **values})


def _program() -> str:
    """Return what starts the program in a terminal; the launcher puts nothing on PATH."""
    beside = Path(sys.executable).with_name("foretoken")
    return shlex.quote(str(beside)) if beside.exists() and not which("foretoken") else "foretoken"


def _command(options: PlanOptions) -> str:
    """Return the ``foretoken plan`` command, with every option that differs from its default."""
    words = [_program(), "plan", *([shlex.quote(options.target)] if options.target else [])]
    for field in fields(PlanOptions):
        value = getattr(options, field.name)
        if field.name != "target" and value != field.default and value is not None:
            name = "from" if field.name == "server" else field.name.replace("_", "-")
            words += [f"--{name}", shlex.quote(str(value))]
    return " ".join(words)
