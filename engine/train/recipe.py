"""A training recipe: frozen values read from YAML, every key checked.

The dataclasses below are the schema. A key that is missing, unknown or of the wrong type raises
`RecipeError` with the key's full name and what is allowed there.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, cast, get_args, get_origin

import yaml

from engine.errors import ForetokenError

T = TypeVar("T")
Device = Literal["auto", "cpu", "cuda"]


class RecipeError(ForetokenError):
    """A recipe cannot be used; the message names the key and what is allowed."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of a Llama decoder with tied embeddings."""

    layers: int
    hidden_size: int
    intermediate_size: int
    heads: int
    kv_heads: int
    head_dim: int = 64
    rope_theta: float = 10000.0
    context: int = 1024


@dataclass(frozen=True, slots=True)
class TokenizerStage:
    """Byte-level BPE. `sample_characters` of the mixture and as much `text_share` of plain text."""

    vocabulary: int
    sample_characters: int = 12_000_000
    text_share: float = 0.3


@dataclass(frozen=True, slots=True)
class OptimizerStage:
    """Learning rates are peaks. `warmup` and `decay` are fractions of the run; decay ends at zero."""

    method: Literal["adamw", "muon"] = "muon"
    learning_rate: float = 0.003  # AdamW: embeddings and norms; every weight without Muon
    matrix_learning_rate: float = 0.02  # Muon: the matrices of the layers
    weight_decay: float = 0.05
    warmup: float = 0.01
    decay: float = 0.6
    clip: float = 1.0


@dataclass(frozen=True, slots=True)
class Phase:
    """Up to the fraction `until` of the run, `text_share` of the tokens are plain text."""

    until: float
    text_share: float


@dataclass(frozen=True, slots=True)
class Budget:
    """What ends the run, whichever comes first. `minutes` is time spent training, over resumes."""

    tokens: int | None = None
    minutes: float | None = None


@dataclass(frozen=True, slots=True)
class RowsStage:
    """How documents become batches: rows of a few fixed lengths, `micro_tokens` in each batch."""

    lengths: tuple[int, ...] = (256, 512, 1024)
    micro_tokens: int = 4096
    block_tokens: int = 131_072  # made at once, from one seed; the unit of resuming


@dataclass(frozen=True, slots=True)
class TargetStage:
    """The model that decides the words."""

    model: Shape
    budget: Budget
    phases: tuple[Phase, ...]
    rows: RowsStage = field(default_factory=RowsStage)
    optimizer: OptimizerStage = field(default_factory=OptimizerStage)
    step_tokens: int = 8192
    checkpoint_minutes: float = 5.0
    evaluate_minutes: float = 10.0


@dataclass(frozen=True, slots=True)
class DraftStage:
    """The small model, distilled from the target on the target's own replies and on the mixture."""

    model: Shape
    budget: Budget
    replies: int = 2000  # prompts answered by the target, and stored
    reply_tokens: int = 192
    held_out: int = 64  # prompts that the draft never learns from, for measuring acceptance
    temperatures: tuple[float, ...] = (0.0, 0.8)
    reply_share: float = 0.7  # of the batches; the rest is the mixture
    hard_weight: float = 0.1  # share of plain cross-entropy in the loss; the rest is KL
    rows: RowsStage = field(default_factory=RowsStage)
    optimizer: OptimizerStage = field(default_factory=OptimizerStage)
    step_tokens: int = 8192
    checkpoint_minutes: float = 5.0
    evaluate_minutes: float = 5.0


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that decides what a training run makes."""

    name: str
    seed: int
    tokenizer: TokenizerStage
    target: TargetStage
    draft: DraftStage
    weights: Mapping[str, float] | None = None  # None: the mixture's own
    device: Device = "auto"
    threads: int | None = None  # None: all that the process may use
    compile: bool = True  # used where a C++ compiler or CUDA is there


def load_recipe(path: Path) -> Recipe:
    """The recipe in a YAML file. Raises RecipeError."""
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RecipeError(
            f"{path}: cannot be read ({error.strerror}); give a recipe file."
        ) from error
    except yaml.YAMLError as error:
        raise RecipeError(f"{path}: not YAML: {error}") from error
    recipe = cast(Recipe, _read(Recipe, data, ""))
    _check(recipe)
    return recipe


def _check(recipe: Recipe) -> None:
    """What types cannot say."""
    for name, stage in (("target", recipe.target), ("draft", recipe.draft)):
        _need(
            stage.budget.tokens is not None or stage.budget.minutes is not None,
            f"{name}.budget",
            "needs tokens, minutes or both",
        )
        rows, lengths = stage.rows, stage.rows.lengths
        _need(bool(lengths), f"{name}.rows.lengths", "needs at least one length")
        _need(list(lengths) == sorted(set(lengths)), f"{name}.rows.lengths", "must increase")
        _need(
            all(rows.micro_tokens % length == 0 for length in lengths),
            f"{name}.rows.micro_tokens",
            f"must be a multiple of every length in {list(lengths)}",
        )
        _need(
            stage.step_tokens % rows.micro_tokens == 0,
            f"{name}.step_tokens",
            f"must be a multiple of rows.micro_tokens, {rows.micro_tokens}",
        )
        _need(
            lengths[-1] <= stage.model.context,
            f"{name}.rows.lengths",
            f"must not be over the context, {stage.model.context}",
        )
        shape = stage.model
        _need(
            shape.heads % shape.kv_heads == 0,
            f"{name}.model.kv_heads",
            f"must divide heads, {shape.heads}",
        )
    ends = [phase.until for phase in recipe.target.phases]
    _need(
        bool(ends) and ends == sorted(ends) and ends[-1] == 1.0,
        "target.phases",
        "must increase in `until` and end at 1.0",
    )


def _need(fact: bool, key: str, rule: str) -> None:
    if not fact:
        raise RecipeError(f"recipe key {key}: {rule}.")


def _read(kind: Any, value: object, where: str) -> object:
    """`value` as the annotated type `kind`; `where` is the key's full name."""
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
