"""Whether a model sees images, by its headers: its vision tower, and how images are prepared for it.

Towers in llama.cpp's mmproj files are described in transformers' terms. Headers are read without torch.
Names of tensors: llama.cpp's gguf-py/gguf/tensor_mapping.py; of settings ``clip.vision.*`` its
tools/mtmd/clip.cpp.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import MALFORMED, ModelError, what_failed
from engine.files import read_json
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.models.checkpoints.gguf.description import SUFFIX, name_of, without_type
from engine.models.checkpoints.gguf.header import GgufHeader, read_gguf_header

if TYPE_CHECKING:
    import torch
    from torch import Tensor

PREFIX = "mmproj-"
"""The beginning of the names of such files."""


def beside(model: Path) -> Path | None:
    """Return the mmproj file for the GGUF file of a model: the one that is named after it, else the only
    one in the folder. Of several types the widest."""
    files = sorted(one for one in model.parent.glob(f"*mmproj*{SUFFIX}") if one.is_file())
    own = without_type(name_of(model))
    named = [one for one in files if _named_after(one, own)]
    candidates = named or (files if len({_named(one) for one in files}) == 1 else [])
    return max(candidates, key=lambda one: one.stat().st_size, default=None)


def _named(file: Path) -> str:
    """Return the name of the model that a file is named after; "" for mmproj-F16.gguf."""
    name = without_type(
        re.sub(r"[-_.]?mmproj[-_.]?", "-", file.stem, flags=re.IGNORECASE).strip("-")
    )
    return "" if re.fullmatch(r"(b?f16|f32|q\d\w*|model)?", name) else name


def _named_after(file: Path, own: str) -> bool:
    name = _named(file)
    return bool(name) and (own.startswith(name) or name.startswith(own))


@lru_cache(maxsize=8)
def _described(header: GgufHeader) -> VisionPlan:
    """Return the tower in a file. Raises ModelError for a projector that is not computed here."""
    values, file = header.metadata, header.file
    if values.get("general.architecture") != "clip":
        raise ModelError(f"{file.name} is not an mmproj file of llama.cpp.")
    _check_projector(header)
    wide = any(
        one.dtype == "F32" and len(one.shape) == 2 and name.startswith("v.blk.")
        for name, one in header.tensors.items()
    )
    count = sum(math.prod(one.shape) for one in header.tensors.values())
    given = {
        name: tuple(map(float, values[f"clip.vision.{name}"]))
        for name in ("image_mean", "image_std")
        if f"clip.vision.{name}" in values
    }
    hidden = int(values["clip.vision.projection_dim"])
    return VisionPlan(_config(header), hidden, {**_PREPARE, **given}, file, "", count, wide)


def _check_projector(header: GgufHeader) -> None:
    """Raise ModelError for a projector that is not computed here."""
    values = header.metadata
    projector = values.get("clip.vision.projector_type") or values.get("clip.projector_type")
    if projector != _PROJECTOR:
        raise ModelError(
            f"the projector {projector!r} of {header.file.name} is not supported yet; "
            f"supported is {_PROJECTOR}."
        )


def weights(file: Path, dtype: torch.dtype) -> dict[str, Tensor]:
    """Return the tensors by transformers' names. Raises ModelError."""
    import torch

    from engine.models.checkpoints.gguf.tensors import read_floats

    header = read_gguf_header(file)
    _check_projector(header)
    found: dict[str, list[Tensor]] = {}
    for name in sorted(header.tensors):
        if place := _name(name):
            found.setdefault(place, []).append(read_floats(header, name).to(dtype))
    # llama.cpp keeps the frames of a patch apart.
    return {
        place: torch.stack(parts, dim=2) if place == _PATCHES else parts[0]
        for place, parts in found.items()
    }


def _config(header: GgufHeader) -> dict[str, Any]:
    """Return a tower's configuration as transformers has it."""
    values = header.metadata

    def size(key: str) -> int:
        return int(values[f"clip.vision.{key}"])

    stacked = values.get("clip.vision.is_deepstack_layers") or ()
    if any(stacked):
        raise ModelError(
            f"{header.file.name} feeds several layers (deepstack, as in Qwen3-VL), which is "
            "not supported yet."
        )
    sides = size("image_size") // size("patch_size")
    return {
        "depth": size("block_count"),
        "hidden_size": size("embedding_length"),
        "intermediate_size": size("feed_forward_length"),
        "num_heads": size("attention.head_count"),
        "patch_size": size("patch_size"),
        "spatial_merge_size": int(values.get("clip.vision.spatial_merge_size") or 2),
        "temporal_patch_size": 2,
        "out_hidden_size": size("projection_dim"),
        "num_position_embeddings": sides * sides,
    }


_PARTS: Mapping[str, str] = {
    "ln1": "norm1", "ln2": "norm2", "attn_qkv": "attn.qkv", "attn_out": "attn.proj",
    "ffn_up": "mlp.linear_fc1", "ffn_down": "mlp.linear_fc2",
}  # fmt: skip
_PATCHES = "patch_embed.proj.weight"
_OUTER: Mapping[str, str] = {
    "v.patch_embd.weight": _PATCHES,
    "v.patch_embd.weight.1": _PATCHES,
    "v.position_embd.weight": "pos_embed.weight",
    "v.patch_embd.bias": "patch_embed.proj.bias",
    "v.post_ln.weight": "merger.norm.weight",
    "v.post_ln.bias": "merger.norm.bias",
    "mm.0.weight": "merger.linear_fc1.weight",
    "mm.0.bias": "merger.linear_fc1.bias",
    "mm.2.weight": "merger.linear_fc2.weight",
    "mm.2.bias": "merger.linear_fc2.bias",
}


def _name(name: str) -> str | None:
    """Return transformers' name of a tensor; that of patches for each of their frames."""
    if match := re.fullmatch(r"v\.blk\.(\d+)\.(\w+)\.(weight|bias)", name):
        part = _PARTS.get(match[2])
        return part and f"blocks.{match[1]}.{part}.{match[3]}"
    return _OUTER.get(name)


_PROJECTOR = "qwen3vl_merger"
"""Of the files that are read: Qwen3-VL's and Qwen3.5's."""
_MODELS = "qwen3_5", "qwen3_5_moe"
"""The model types of models whose towers are computed here."""
PLACEHOLDER = "<|image_pad|>"
"""The name of the token that stands for each row of an image."""
_HALF = (0.5, 0.5, 0.5)
_PREPARE = {"image_mean": _HALF, "image_std": _HALF, "least": 65_536, "most": 16_777_216}
"""How images are prepared, where no file says it."""
MOST_TOKENS = 1024
"""Tokens of an image, at most: reading them takes a processor as long as a page of text."""
_PREPARING = "preprocessor_config.json", "processor_config.json"


@dataclass(frozen=True, slots=True)
class VisionPlan:
    """A model's vision tower. ``config`` and ``prepare`` are as transformers has them.

    config       vision_config
    hidden       width of the rows of embeddings
    prepare      mean and std of pixels, least and most pixels of an image
    path         the model's folder, or the mmproj file
    root         the beginning of the tower's tensors in a folder
    parameters   of the tower
    wide         True if these are in float32
    """

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
    tensors = [info for name, info in checkpoint.tensors.items() if name.startswith(root)]
    wide = any(info.dtype == "F32" and len(info.shape) > 1 for info in tensors)
    count = sum(math.prod(info.shape) for info in tensors)
    prepare = {**_PREPARE, **_preparing(checkpoint.path)}
    return VisionPlan(config, checkpoint.hidden, prepare, checkpoint.path, root, count, wide)


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
    file = beside(checkpoint.path)
    if file is None:
        return (
            f"{name} cannot see images. If it was made for images, put its {PREFIX}*.gguf "
            "file beside it and load it again."
        )
    found = _described(read_gguf_header(file))
    model = str(checkpoint.config.get("model_type"))
    if model.removesuffix("_text") not in _MODELS:
        return f"{name} cannot see images with {file.name}: that belongs to another kind of model."
    if found.hidden != checkpoint.hidden:
        return (
            f"{name} cannot see images with {file.name}: that makes rows {found.hidden:,} wide, and the "
            f"model's are {checkpoint.hidden:,}. Use the file that was published with the model."
        )
    return found
