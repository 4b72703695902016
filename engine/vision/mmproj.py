"""Vision towers in llama.cpp's mmproj files, in transformers' terms.

Headers are read without torch. Names of tensors: llama.cpp's gguf-py/gguf/tensor_mapping.py; of settings
``clip.vision.*`` its tools/mtmd/clip.cpp.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import ModelError
from engine.models.checkpoints.gguf.description import SUFFIX, name_of, without_type
from engine.models.checkpoints.gguf.header import GgufHeader, read_gguf_header

if TYPE_CHECKING:
    import torch
    from torch import Tensor

PREFIX = "mmproj-"
"""The beginning of the names of such files."""


@dataclass(frozen=True, slots=True)
class MmprojFile:
    """See ``VisionPlan``."""

    kind: str
    config: Mapping[str, Any]
    hidden: int
    prepare: Mapping[str, Any]
    parameters: int
    wide: bool


@dataclass(frozen=True, slots=True)
class _Reader:
    """How files of one projector are read: to a kind of tower, its configuration, and transformers' name
    of each tensor, with a number that of a frame's part."""

    kind: str
    config: Callable[[GgufHeader], dict[str, Any]]
    name: Callable[[str], str | tuple[str, int] | None]


def beside(model: Path) -> Path | None:
    """Return the mmproj file for the GGUF file of a model: the one that is named after it, else the only
    one in the folder. Of several types the widest."""
    files = sorted(model.parent.glob(f"*mmproj*{SUFFIX}"))
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


def describe(file: Path) -> MmprojFile:
    """Describe a file by its header. Raises ModelError for a projector that is not computed here."""
    return _described(read_gguf_header(file))


@lru_cache(maxsize=8)
def _described(header: GgufHeader) -> MmprojFile:
    values, file = header.metadata, header.file
    if values.get("general.architecture") != "clip":
        raise ModelError(f"{file.name} is not an mmproj file of llama.cpp.")
    reader = _reader(header)
    wide = any(
        one.dtype == "F32" and len(one.shape) == 2 and name.startswith("v.blk.")
        for name, one in header.tensors.items()
    )
    count = sum(math.prod(one.shape) for one in header.tensors.values())
    prepare = {
        name: tuple(map(float, values[f"clip.vision.{name}"]))
        for name in ("image_mean", "image_std")
        if f"clip.vision.{name}" in values
    }
    hidden = int(values["clip.vision.projection_dim"])
    return MmprojFile(reader.kind, reader.config(header), hidden, prepare, count, wide)


def _reader(header: GgufHeader) -> _Reader:
    """Return how to read a file. Raises ModelError for a projector that is not computed here."""
    values = header.metadata
    projector = values.get("clip.vision.projector_type") or values.get("clip.projector_type")
    if projector in _READERS:
        return _READERS[str(projector)]
    raise ModelError(
        f"the projector {projector!r} of {header.file.name} is not supported yet; "
        f"supported are {', '.join(_READERS)}."
    )


def weights(file: Path, dtype: torch.dtype) -> dict[str, Tensor]:
    """Return the tensors by transformers' names. Raises ModelError."""
    from engine.models.checkpoints.gguf.tensors import read_floats

    header = read_gguf_header(file)
    named = _reader(header).name
    found: dict[str, Tensor] = {}
    joined: dict[str, dict[int, Tensor]] = {}
    for name in header.tensors:
        place = named(name)
        if place is None:
            continue
        tensor = read_floats(header, name).to(dtype)
        if isinstance(place, tuple):
            joined.setdefault(place[0], {})[place[1]] = tensor
        else:
            found[place] = tensor
    import torch

    # Frames of a patch, which llama.cpp keeps apart.
    for place, parts in joined.items():
        found[place] = torch.stack([parts[at] for at in sorted(parts)], dim=2)
    return found


# ---- Qwen3-VL and Qwen3.5


def _qwen(header: GgufHeader) -> dict[str, Any]:
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


_QWEN_PARTS: Mapping[str, str] = {
    "ln1": "norm1", "ln2": "norm2", "attn_qkv": "attn.qkv", "attn_out": "attn.proj",
    "ffn_up": "mlp.linear_fc1", "ffn_down": "mlp.linear_fc2",
}  # fmt: skip
_QWEN_OUTER: Mapping[str, str] = {
    "v.position_embd.weight": "pos_embed.weight",
    "v.patch_embd.bias": "patch_embed.proj.bias",
    "v.post_ln.weight": "merger.norm.weight",
    "v.post_ln.bias": "merger.norm.bias",
    "mm.0.weight": "merger.linear_fc1.weight",
    "mm.0.bias": "merger.linear_fc1.bias",
    "mm.2.weight": "merger.linear_fc2.weight",
    "mm.2.bias": "merger.linear_fc2.bias",
}
_PATCHES: Mapping[str, int] = {"v.patch_embd.weight": 0, "v.patch_embd.weight.1": 1}


def _qwen_name(name: str) -> str | tuple[str, int] | None:
    """See ``_Reader``."""
    if name in _PATCHES:
        return "patch_embed.proj.weight", _PATCHES[name]
    if match := re.fullmatch(r"v\.blk\.(\d+)\.(\w+)\.(weight|bias)", name):
        part = _QWEN_PARTS.get(match[2])
        return part and f"blocks.{match[1]}.{part}.{match[3]}"
    return _QWEN_OUTER.get(name)


_READERS: Mapping[str, _Reader] = {"qwen3vl_merger": _Reader("qwen3_5", _qwen, _qwen_name)}
"""By projector."""
