"""What plans know, in YAML: a line for each GPU, method and engine, texts for people, and manifests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Any

import yaml

from engine.errors import InvalidRequest
from engine.yaml_text import YAML_LOADER

_HERE = Path(__file__).parent


def table(name: str) -> Any:
    """Return the table of this name."""
    return yaml.load((_HERE / f"{name}.yaml").read_text(encoding="utf-8"), Loader=YAML_LOADER)


TEXTS = table("texts")


def refusal(field: str, text: str, /, **values: Any) -> InvalidRequest:
    """Return the error of this name, about a ``field`` of the request."""
    return InvalidRequest(field, TEXTS["refusals"][text].format(field=field, **values))


def filled(template: Any, values: Mapping[str, Any]) -> Any:
    """Return ``template`` with values: a text ``$name`` alone becomes the value itself; what becomes
    None is left out."""
    if isinstance(template, Mapping):
        parts = {filled(key, values): filled(part, values) for key, part in template.items()}
        return {key: part for key, part in parts.items() if part is not None}
    if isinstance(template, list):
        return [part for part in (filled(part, values) for part in template) if part is not None]
    if isinstance(template, str):
        name = template.removeprefix("$")
        alone = template.startswith("$") and name in values
        return values[name] if alone else Template(template).substitute(values)
    return template
