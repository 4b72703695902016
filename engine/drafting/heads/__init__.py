"""The registry of heads: a new kind is one file here and one line below.

A head drafts from its target's hidden states. config.json alone decides the kind of a folder, and
``general.architecture`` that of a GGUF file; the code of a kind is imported when one is inspected. A
checkpoint may also bring a head of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import MALFORMED, ModelError, what_failed
from engine.models.checkpoints.config_file import read_config

if TYPE_CHECKING:  # the names alone must not bring torch
    from engine.backends.linear_factory import LinearFactory
    from engine.drafting.heads.base import Head, HeadPlan, TargetShape
    from engine.models.checkpoints.checkpoint import Checkpoint

Config = Mapping[str, Any]
_ASSISTANTS = ("gemma4_assistant", "gemma4_unified_assistant")


@dataclass(frozen=True, slots=True)
class Layout:
    """A kind of head: ``path`` (module:class), and ``matches`` for its published config.json.

    ``architecture``: llama.cpp's name of it in GGUF files, if there is one.
    """

    path: str
    matches: Callable[[Config], bool]
    architecture: str = ""


def _is_eagle3(config: Config) -> bool:
    """Return True for speculators' names, or the key that SafeAILab added to a Llama's config."""
    model_type = config.get("speculators_model_type")
    if model_type is not None:
        return model_type in ("eagle3", "peagle")
    return "draft_vocab_size" in config and not {"dflash_config", "block_size"} & config.keys()


def _is_block(config: Config) -> bool:
    """Return True for DFlash's key or architecture; ``plan`` refuses relatives."""
    names = str(config.get("architectures"))
    return "dflash_config" in config or "DFlash" in names or "DSpark" in names


def _is_lstm(config: Config) -> bool:
    return config.get("method") == "sum_lstm"


_REGISTRY: Mapping[str, Layout] = {
    "medusa": Layout(
        "engine.drafting.heads.medusa:MedusaHead", lambda config: "medusa_num_heads" in config
    ),
    "eagle3": Layout("engine.drafting.heads.eagle3:Eagle3Head", _is_eagle3, "eagle3"),
    "block": Layout("engine.drafting.heads.block:BlockHead", _is_block, "dflash"),
    "assistant": Layout(
        "engine.drafting.heads.assistant:AssistantHead",
        lambda config: str(config.get("model_type")) in _ASSISTANTS,
        "gemma4-assistant",
    ),
    "mlp": Layout(
        "engine.drafting.heads.mlp:MlpHead",
        lambda config: config.get("model_type") == "mlp_speculator" and not _is_lstm(config),
    ),
    "lstm": Layout("engine.drafting.heads.lstm:LstmHead", _is_lstm),
}


INSIDE: Mapping[str, str] = {"mtp": "engine.drafting.heads.mtp:MtpHead"}
"""Kinds of heads that are part of their target's checkpoint, with their path."""


def kinds() -> tuple[str, ...]:
    """Return the kinds of heads in folders; a proposer that needs one names it in its ``needs``."""
    return tuple(_REGISTRY)


def kind_of(config: Config) -> str | None:
    """Return the kind of head that a config.json describes; None for others, such as a draft model's."""
    return next((kind for kind, layout in _REGISTRY.items() if layout.matches(config)), None)


def kind_in(place: Path) -> str | None:
    """Return the kind of the head in ``place``, a folder or a GGUF file; None if there is none."""
    from engine.models.checkpoints.gguf.description import is_gguf

    try:
        return _kind_of_gguf(place) if is_gguf(place) else kind_of(read_config(place))
    except ModelError:
        return None


def _kind_of_gguf(file: Path) -> str | None:
    from engine.models.checkpoints.gguf.heads import architecture_in

    stated = architecture_in(file)
    return next((kind for kind, each in _REGISTRY.items() if each.architecture == stated), None)


def inspect(place: Path, target: TargetShape) -> HeadPlan:
    """Return the plan of the head in ``place``, read from headers alone.

    Raises ModelError for what is no head or is damaged, IncompatiblePair for a head of another target.
    """
    from engine.drafting.heads.stored import open_stored

    kind = check(place)
    stored = open_stored(place)
    try:
        plan: HeadPlan = _class_of(kind).plan(stored, target)
    except MALFORMED as error:
        raise ModelError(
            f"{stored.config_file} cannot be used: {what_failed(error)}. {stored.remedy}"
        ) from error
    return plan


def check(place: Path) -> str:
    """Return the kind of the head in ``place``, a folder or a GGUF file. Raises ModelError if there is
    none."""
    from engine.models.checkpoints.gguf.description import is_gguf, only_drafts

    if is_gguf(place):
        kind, stated = _kind_of_gguf(place), "its architecture is a language model"
        known = ", ".join(each.architecture for each in _REGISTRY.values() if each.architecture)
    else:
        if os.path.isdir(place) and not (place / "config.json").is_file():
            raise ModelError(
                f"{place} is not a head: it has no config.json. Give the folder or GGUF file of "
                "a head."
            )
        config, known = read_config(place), ", ".join(kinds())
        kind = kind_of(config)
        found = config.get("architectures") or config.get("model_type") or "no known kind"
        names = ", ".join(map(str, found if isinstance(found, list) else [found]))
        stated = f"its config.json names {names}"
    if kind is None:
        if is_gguf(place) and _only_drafts(place):
            raise ModelError(only_drafts(place))
        raise ModelError(
            f"{place} is not a supported head: {stated}. Supported kinds: {known}. To use a "
            "draft model, write TARGET::DRAFT."
        )
    return kind


def _only_drafts(file: Path) -> bool:
    from engine.models.checkpoints.gguf.description import describe

    try:
        return describe(file).only_drafts
    except ModelError:  # damaged, or of an architecture that is not known
        return False


def inside(target: Checkpoint) -> HeadPlan | str | None:
    """Return the plan of the head that the target's checkpoint brings, or a file beside its own; None if
    there is none.

    A sentence says why one that is there cannot draft. Raises ModelError for a damaged checkpoint.
    """
    holder = target if target.has_mtp else _beside(target)
    if holder is None:
        return None
    from engine.drafting.heads.mtp import plan_inside

    try:
        return plan_inside(target, holder)
    except ModelError as error:
        if holder is target:
            raise
        return f"{holder.path.name}, beside the model, cannot draft for it. {error}"


def _beside(target: Checkpoint) -> Checkpoint | None:
    """Return the file beside a GGUF file that holds what drafts for it (MTP), if there is one."""
    from engine.models.checkpoints.checkpoint import inspect_drafting
    from engine.models.checkpoints.gguf.description import siblings

    for file in siblings(target.path) if target.is_gguf else ():
        try:
            found = inspect_drafting(file)
        except ModelError:  # a head, or damaged
            continue
        if found.has_mtp and found.architecture == target.architecture:
            return found
    return None


def load(plan: HeadPlan, linears: LinearFactory) -> Head:
    """Read the weights of an inspected head. Raises ModelError for damaged files."""
    head: Head = _class_of(plan.kind).load(plan, linears)
    return head


def _class_of(kind: str) -> Any:
    path = INSIDE.get(kind) or _REGISTRY[kind].path
    module, _, attribute = path.partition(":")
    return getattr(import_module(module), attribute)
