"""The registry of heads: a new kind is one file here and one line below.

A head drafts from its target's hidden states. What a folder holds is read from its config.json alone;
the code of a kind is imported when one is inspected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import ModelError
from engine.models.checkpoints.config_file import read_config

if TYPE_CHECKING:  # the names alone must not bring torch
    from engine.backends.linear_factory import LinearFactory
    from engine.drafting.heads.base import Head, HeadPlan, TargetShape

Config = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a kind's class is, and how its published config.json is known."""

    place: str
    claims: Callable[[Config], bool]


def _is_eagle3(config: Config) -> bool:
    """By speculators' name, else by the key that SafeAILab added to a Llama's."""
    named = config.get("speculators_model_type")
    if named is not None:
        return bool(named == "eagle3")
    return "draft_vocab_size" in config and not {"dflash_config", "block_size"} & config.keys()


def _is_block(config: Config) -> bool:
    """By DFlash's key, or by the architecture's name; relatives are told apart when it is inspected."""
    named = " ".join(map(str, config.get("architectures") or ()))
    return "dflash_config" in config or "DFlash" in named or "DSpark" in named


def _is_medusa(config: Config) -> bool:
    return "medusa_num_heads" in config


def _is_lstm(config: Config) -> bool:
    return config.get("method") == "sum_lstm"


_REGISTRY: Mapping[str, Layout] = {
    "medusa": Layout("engine.drafting.heads.medusa:MedusaHead", _is_medusa),
    "eagle3": Layout("engine.drafting.heads.eagle3:Eagle3Head", _is_eagle3),
    "block": Layout("engine.drafting.heads.block:BlockHead", _is_block),
    "mlp": Layout(
        "engine.drafting.heads.mlp:MlpHead",
        lambda config: config.get("model_type") == "mlp_speculator" and not _is_lstm(config),
    ),
    "lstm": Layout("engine.drafting.heads.lstm:LstmHead", _is_lstm),
}


def kinds() -> tuple[str, ...]:
    """All kinds of heads; a proposer that needs one names it in its ``needs``."""
    return tuple(_REGISTRY)


def kind_of(config: Config) -> str | None:
    """The kind of head that a config.json describes; None for anything else, such as a draft model."""
    return next((kind for kind, layout in _REGISTRY.items() if layout.claims(config)), None)


def kind_in(folder: Path) -> str | None:
    """The kind of the head in ``folder``; None for a model, and for what is neither."""
    try:
        return kind_of(read_config(folder))
    except ModelError:
        return None


def inspect(folder: Path, target: TargetShape) -> HeadPlan:
    """What the head in ``folder`` will be, from headers alone; nothing large is read.

    Raises ModelError for a folder that is no head or is damaged, IncompatiblePair for a head of another
    target.
    """
    from engine.drafting.heads.stored import open_stored

    kind = check(folder)
    plan: HeadPlan = _class_of(kind).plan(open_stored(folder, read_config(folder)), target)
    return plan


def check(folder: Path) -> str:
    """The kind of the head in ``folder``. Raises ModelError for a folder that holds none."""
    if folder.is_dir() and not (folder / "config.json").is_file():
        raise ModelError(
            f"{folder} is no head: it has no config.json. Give the folder that a head was saved in."
        )
    config = read_config(folder)
    kind = kind_of(config)
    if kind is None:
        named = (
            config.get("architectures") or config.get("model_type") or "nothing it knows by name"
        )
        raise ModelError(
            f"{folder} is no head that this version reads: its config.json names {named}. Known kinds "
            f"are {', '.join(kinds())}. A draft model is given as TARGET::DRAFT."
        )
    return kind


def load(plan: HeadPlan, linears: LinearFactory) -> Head:
    """Reads the weights of an inspected head. Raises ModelError for what is damaged."""
    head: Head = _class_of(plan.kind).load(plan, linears)
    return head


def _class_of(kind: str) -> Any:
    module, _, attribute = _REGISTRY[kind].place.partition(":")
    return getattr(import_module(module), attribute)
