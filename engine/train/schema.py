"""The schema of recipes: dataclasses read from YAML, every key checked, and the stages that all share."""

from __future__ import annotations

import hashlib
import json
import typing
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from pydantic import TypeAdapter, ValidationError

from engine.errors import MALFORMED, ForetokenError, what_failed
from engine.files import bounded
from engine.values import shown
from engine.yaml_text import YAML_LOADER, check_yaml

T = TypeVar("T")
Device = Literal["auto", "cpu", "cuda"]

LARGEST = 1 << 20
"""Bytes of a recipe; the shipped ones have about a thousandth of it."""
_TYPES = {
    "int_type": "a whole number",
    "float_type": "a number",
    "string_type": "text",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "dataclass_type": "a mapping",
}
"""The allowed values by pydantic's error types, in YAML's words."""


class RecipeError(ForetokenError):
    """A recipe cannot be used; the message names the key and what is allowed."""


@dataclass(frozen=True, slots=True)
class OptimizerStage:
    """Learning rates are peaks. ``warmup`` and ``decay`` are fractions of the run; decay ends at zero."""

    method: Literal["adamw", "muon"] = "muon"
    learning_rate: float = 0.003  # AdamW: embeddings and norms; every weight without Muon
    matrix_learning_rate: float = 0.02  # Muon: the matrices of the layers
    weight_decay: float = 0.05
    warmup: float = 0.01
    decay: float = 0.6
    clip: float = 1.0


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of a run; the first one ends it. ``minutes``: time spent training, over resumes."""

    tokens: int | None = None
    minutes: float | None = None


def load(path: Path) -> object:
    """Return the content of a YAML file. Raises RecipeError."""
    try:
        return yaml.load(check_yaml(bounded(path, LARGEST).decode("utf-8")), Loader=YAML_LOADER)
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(
            f"{path} cannot be read ({what_failed(error)}). Give a recipe file."
        ) from error
    except (*MALFORMED, yaml.YAMLError) as error:  # also a date of no calendar, or an odd tag
        raise RecipeError(f"{path} is not valid YAML: {error}. Correct it.") from error


def read(kind: type[T], value: object, where: str = "") -> T:
    """Return ``value``, found under the key ``where``, as the dataclass ``kind``.

    Raises RecipeError for a key that is missing, unknown, of another type or negative.
    """
    _refuse_negative(value, where)
    try:  # as JSON, whose arrays may be tuples in strict mode
        text = json.dumps(value, default=str)
        return TypeAdapter(kind).validate_json(text, strict=True, extra="forbid")
    except ValidationError as error:
        raise RecipeError(_message(kind, error, where)) from None


def need(fact: bool, key: str, rule: str) -> None:
    """Raise RecipeError unless ``fact``: for rules that types cannot express."""
    if not fact:
        raise RecipeError(f"recipe key {key}: {rule}.")


def need_sizes(shape: object, *keys: str) -> None:
    """Raise RecipeError for a size of a recipe's ``shape`` that is below 1."""
    for key in keys:
        need(getattr(shape, key) > 0, f"shape.{key}", "must be 1 or more")


def subseed(*parts: object) -> int:
    """Return a 62-bit seed made of any values; unlike hash(), the same in every process."""
    text = "/".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big") >> 2


def _refuse_negative(value: object, where: str) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            _refuse_negative(item, f"{where}.{key}" if where else str(key))
    elif isinstance(value, list):
        for at, item in enumerate(value):
            _refuse_negative(item, f"{where}[{at}]")
    elif isinstance(value, int | float) and not value >= 0:  # NaN too
        raise RecipeError(
            f"recipe key {where}: {shown(value)} is not allowed; it must be zero or more."
        )


def _message(kind: type, error: ValidationError, where: str) -> str:
    # An unknown key first: it may be the missing one, misspelt.
    errors = sorted(error.errors(), key=lambda one: one["type"] != "unexpected_keyword_argument")
    first = errors[0]
    key, group = where, kind
    for part in first["loc"]:
        key += f"[{part}]" if isinstance(part, int) else f".{part}" if key else part
        if part != first["loc"][-1]:
            group = _type_at(group, part)
    reason, allowed = first["type"], _TYPES.get(first["type"], first["msg"])
    if reason == "literal_error":
        allowed = first["ctx"]["expected"].replace("'", "").replace(" or ", ", ")
        allowed = f"one of {allowed}"
    if reason == "unexpected_keyword_argument":
        known = ", ".join(entry.name for entry in fields(group))
        return f"recipe key {key}: unknown; allowed: {known}."
    if reason == "missing":
        return f"recipe key {key}: missing; it must be given."
    return (
        f"recipe key {key or '(top)'}: {shown(first['input'])} is not allowed; it must "
        f"be {allowed}."
    )


def _type_at(kind: Any, part: int | str) -> Any:
    """Return the dataclass of a field, or of the elements of a tuple."""
    inner = typing.get_type_hints(kind)[str(part)] if is_dataclass(kind) else kind
    return next((one for one in typing.get_args(inner) if is_dataclass(one)), inner)
