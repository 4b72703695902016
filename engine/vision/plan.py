"""Whether a model sees images, by its headers: its vision tower, and how images are prepared for it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import MALFORMED, ModelError, what_failed
from engine.files import read_json
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.vision import mmproj

MOST_TOKENS = 1024
"""Tokens of an image, at most: reading them takes a processor as long as a page of text."""
_PREPARING = "preprocessor_config.json", "processor_config.json"


@dataclass(frozen=True, slots=True)
class VisionPlan:
    """A model's vision tower. ``config`` and ``prepare`` are as transformers has them.

    kind         of the tower: a key of ``KINDS``
    config       vision_config
    hidden       width of the rows of embeddings
    prepare      mean and std of pixels, least and most pixels of an image
    path         the model's folder, or the mmproj file
    root         the beginning of the tower's tensors in a folder
    parameters   of the tower
    wide         True if these are in float32
    """

    kind: str
    config: Mapping[str, Any]
    hidden: int
    prepare: Mapping[str, Any]
    path: Path
    root: str
    parameters: int
    wide: bool

    @property
    def name(self) -> str:
        """What it is called in lists of what takes memory."""
        return f"the vision tower in {self.path.name}"

    @property
    def placeholder(self) -> str:
        """The name of the token that stands for each row of an image."""
        return KINDS[self.kind].placeholder


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of tower. ``placeholder``: see ``VisionPlan``; ``prepare``: what no file says."""

    placeholder: str
    prepare: Mapping[str, Any]


_HALF = (0.5, 0.5, 0.5)
KINDS: Mapping[str, Kind] = {
    "qwen3_5": Kind(
        "<|image_pad|>",
        {"image_mean": _HALF, "image_std": _HALF, "least": 65_536, "most": 16_777_216},
    ),
}
"""Towers that are computed here, by the model types of their models."""
_MODELS: Mapping[str, str] = {"qwen3_5": "qwen3_5", "qwen3_5_moe": "qwen3_5"}


def vision_of(checkpoint: Checkpoint, name: str = "") -> VisionPlan | str:
    """Return the tower of a model, or a sentence with its ``name``: why it cannot see images."""
    name = name or checkpoint.name
    try:
        return _beside(checkpoint, name) if checkpoint.is_gguf else _inside(checkpoint, name)
    except ModelError as error:
        return f"{name} cannot see images here: {error}"
    except (*MALFORMED, OSError) as error:
        return f"{name} cannot see images: its vision tower cannot be read: {what_failed(error)}."


def _inside(checkpoint: Checkpoint, name: str) -> VisionPlan | str:
    """Return the tower in a folder, which transformers wrote."""
    config = checkpoint.config.get("vision_config")
    if not isinstance(config, Mapping):
        return f"{name} cannot see images: it was made for text alone."
    model = str(checkpoint.config.get("model_type"))
    if model not in _MODELS:
        return (
            f"{name} does not support images here: the vision tower of {model} is not "
            "supported yet."
        )
    root = next((one for one in ("model.visual.", "visual.") if _has(checkpoint, one)), None)
    if root is None:
        return f"{name} cannot see images: the weights of its vision tower are not in its files."
    kind = _MODELS[model]
    tensors = [info for name, info in checkpoint.tensors.items() if name.startswith(root)]
    wide = any(info.dtype == "F32" and len(info.shape) > 1 for info in tensors)
    count = sum(math.prod(info.shape) for info in tensors)
    prepare = {**KINDS[kind].prepare, **_preparing(checkpoint.path)}
    return VisionPlan(kind, config, checkpoint.hidden, prepare, checkpoint.path, root, count, wide)


def _has(checkpoint: Checkpoint, root: str) -> bool:
    return any(name.startswith(root) for name in checkpoint.tensors)


def _preparing(folder: Path) -> dict[str, Any]:
    """Return how images are prepared, by the files in ``folder`` that say so."""
    found: dict[str, Any] = {}
    for file in (folder / name for name in _PREPARING):
        if file.is_file():
            content = read_json(file)
            found |= content.get("image_processor", content)
    result = {name: tuple(found[name]) for name in ("image_mean", "image_std") if name in found}
    size = found.get("size") or {}
    sizes = {"least": "shortest_edge", "most": "longest_edge"}
    return result | {name: int(size[key]) for name, key in sizes.items() if key in size}


def _beside(checkpoint: Checkpoint, name: str) -> VisionPlan | str:
    """Return the tower in the mmproj file beside a model's."""
    file = mmproj.beside(checkpoint.path)
    if file is None:
        return (
            f"{name} cannot see images. If it was made for images, put its {mmproj.PREFIX}*.gguf "
            "file beside it and load it again."
        )
    found = mmproj.describe(file)
    model = str(checkpoint.config.get("model_type"))
    if found.kind != _MODELS.get(model.removesuffix("_text")):
        return f"{name} cannot see images with {file.name}: that belongs to another kind of model."
    if found.hidden != checkpoint.hidden:
        return (
            f"{name} cannot see images with {file.name}: that makes rows {found.hidden:,} wide, and the "
            f"model's are {checkpoint.hidden:,}. Use the file that was published with the model."
        )
    prepare = {**KINDS[found.kind].prepare, **found.prepare}
    return VisionPlan(
        found.kind, found.config, found.hidden, prepare, file, "", found.parameters, found.wide
    )
