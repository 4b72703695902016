"""Values from YAML, every key checked: dataclasses are the schema.

A key that is missing, unknown or of the wrong type raises `RecipeError` with the key's full name and what
is allowed there.
"""

from __future__ import annotations

import types
import typing
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, cast, get_args, get_origin

import yaml

from engine.errors import ForetokenError, what_failed
from engine.files import bounded
from engine.yaml_text import YAML_LOADER, check_yaml

T = TypeVar("T")

LARGEST = 1 << 20
"""Bytes of a recipe; the shipped ones have about a thousandth of it."""


class RecipeError(ForetokenError):
    """A recipe cannot be used; the message names the key and what is allowed."""


def load(path: Path) -> object:
    """What a YAML file holds. Raises RecipeError."""
    try:
        return yaml.load(check_yaml(bounded(path, LARGEST).decode("utf-8")), Loader=YAML_LOADER)
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(
            f"{path}: cannot be read ({what_failed(error)}); give a recipe file."
        ) from error
    except yaml.YAMLError as error:
        raise RecipeError(f"{path}: not YAML: {error}") from error


def read(kind: type[T], value: object, where: str = "") -> T:
    """`value` as a `kind`; `where` is the full name of the key it stands under. Raises RecipeError."""
    return cast(T, _read(kind, value, where))


def need(fact: bool, key: str, rule: str) -> None:
    """What types cannot say. Raises RecipeError unless `fact`."""
    if not fact:
        raise RecipeError(f"recipe key {key}: {rule}.")


def _read(kind: Any, value: object, where: str) -> object:
    """`value` as the annotated type `kind`; `where` is the key's full name."""
    if kind is Any:
        return value
    if is_dataclass(kind):
        return _read_fields(cast(type[object], kind), value, where)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is types.UnionType:
        if value is None:
            return None
        return _read(next(part for part in arguments if part is not type(None)), value, where)
    if origin is Literal:
        if value not in arguments:
            raise _wrong(where, value, "one of " + ", ".join(map(str, arguments)))
        return value
    if origin is tuple:
        if not isinstance(value, list):
            raise _wrong(where, value, "a list")
        return tuple(_read(arguments[0], item, f"{where}[{at}]") for at, item in enumerate(value))
    if origin is not None:
        if not isinstance(value, dict):
            raise _wrong(where, value, "a mapping")
        return {
            str(key): _read(arguments[1], item, f"{where}.{key}") for key, item in value.items()
        }
    return _read_scalar(kind, value, where)


def _read_scalar(kind: type, value: object, where: str) -> object:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not kind:
        names = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
        raise _wrong(where, value, names[kind])
    if isinstance(value, (int, float)) and value < 0:
        raise _wrong(where, value, "zero or more")
    return value


def _read_fields(kind: type[object], value: object, where: str) -> object:
    if not isinstance(value, dict):
        raise _wrong(where or "(top)", value, "a mapping")
    known = {entry.name: entry for entry in fields(cast(Any, kind))}
    hints = typing.get_type_hints(kind)
    prefix = f"{where}." if where else ""
    for key in value:
        if key not in known:
            raise RecipeError(f"recipe key {prefix}{key}: unknown; allowed: {', '.join(known)}.")
    for name, entry in known.items():
        if name not in value and _is_required(entry):
            raise RecipeError(f"recipe key {prefix}{name}: missing; it must be given.")
    return kind(**{name: _read(hints[name], item, prefix + name) for name, item in value.items()})


def _is_required(entry: Field[Any]) -> bool:
    return entry.default is MISSING and entry.default_factory is MISSING


def _wrong(where: str, value: object, allowed: str) -> RecipeError:
    return RecipeError(f"recipe key {where}: {value!r} is not allowed; it must be {allowed}.")
