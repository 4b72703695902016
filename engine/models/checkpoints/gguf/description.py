"""What a GGUF file holds, in transformers' terms: a configuration, and tensors by its names.

Reads headers, and of the tensors only the rotary factors. Split files are read as one.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from engine.errors import ModelError
from engine.models.checkpoints.gguf.config import config_from, gated_delta
from engine.models.checkpoints.gguf.header import FILE_TYPES, GgufHeader, Metadata, read_gguf_header
from engine.models.checkpoints.gguf.names import (
    LAYER_PARTS,
    LONG_FACTORS,
    ROPE_FACTORS,
    SHORT_FACTORS,
    TensorRole,
    drafting_role,
    is_factor,
    role_of,
)
from engine.models.checkpoints.gguf.settings import Settings
from engine.models.checkpoints.parts import PartEntry, split_tensors
from engine.models.checkpoints.safetensors_header import TensorEntry, read_bytes
from engine.models.checkpoints.weight_files import some
from engine.values import shown

SUFFIX = ".gguf"
DRAFTING = "mtp-"
"""The beginning of the names of files that draft for the model after whose file they are named."""
TYPE = re.compile(r"(?:^|[-._])((?:[IT]?Q\d\w*|BF16|F16|F32|(?:MX|NV)FP4\w*))$", re.IGNORECASE)
"""The quantisation type in a file's name without its suffix: model-Q4_K_M."""
_PART = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")
_FACTORS = {"both": ROPE_FACTORS, "long": LONG_FACTORS, "short": SHORT_FACTORS}


@dataclass(frozen=True, slots=True)
class LocatedTensor:
    """A tensor with the file that holds it and its role in the model. ``factor`` multiplies all of it."""

    header: GgufHeader
    entry: TensorEntry
    role: TensorRole
    factor: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class GgufModel:
    """``tensors`` by transformers' names; ``type`` as people call the file: Q4_K_M, BF16."""

    file: Path
    parts: tuple[GgufHeader, ...]
    metadata: Metadata
    config: Mapping[str, Any]
    tensors: Mapping[str, LocatedTensor]
    type: str

    @property
    def only_drafts(self) -> bool:
        """True for what llama.cpp's converter writes with ``--mtp``: no layers but those that draft."""
        drafts = bool(self.config["num_nextn_predict_layers"])
        return drafts and not any(name.startswith("model.layers.0.") for name in self.tensors)

    @property
    def bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(located.entry.nbytes for located in self.tensors.values())


def is_gguf(path: Path) -> bool:
    """Return whether ``path`` means a GGUF file: it is a file, or has the name of one."""
    # A path that cannot be looked up, such as a very long one, is none; pathlib would raise OSError.
    return os.path.isfile(path) or (path.suffix == SUFFIX and not os.path.isdir(path))


def siblings(file: Path) -> list[Path]:
    """Return the files beside a model's that draft for it, by their names: ``mtp-NAME.gguf``."""
    return drafting(name_of(file), sorted(file.parent.glob(f"{DRAFTING}*{SUFFIX}")))


def drafting(name: str, files: Iterable[Path]) -> list[Path]:
    """Return those of ``files`` that are named as what drafts for the model ``name``."""
    own = without_type(name)

    def matches(other: str) -> bool:
        return bool(other) and (own.startswith(other) or other.startswith(own))

    return [one for one in files if matches(without_type(one.stem.removeprefix(DRAFTING)))]


def only_drafts(file: Path) -> str:
    """Return the sentence for a file that is no model, since it ``only_drafts`` for one."""
    return (
        f"{file} holds only an MTP layer, not a model. Name it {DRAFTING}NAME{SUFFIX}, "
        f"put it beside the model's file NAME{SUFFIX}, and load the model."
    )


def without_type(name: str) -> str:
    """Return a file's name, without its suffix, in small letters and without the type at its end."""
    return TYPE.sub("", name).lower().removesuffix("-ud")


def name_of(path: Path) -> str:
    """Return a model's name by its folder or file. A file named by a hash, as Ollama's, is named by its
    metadata."""
    if not is_gguf(path):
        return path.name
    if path.suffix != SUFFIX:
        return _stated_name(path) or path.name
    part = _PART.fullmatch(path.name)
    return path.stem if part is None else part["stem"]


def _stated_name(file: Path) -> str | None:
    try:
        stated = read_gguf_header(file).metadata.get("general.name")
    except ModelError:
        return None
    return stated if isinstance(stated, str) else None


def is_later_part(file: Path) -> bool:
    """Return whether ``file`` is a part of a split model other than the first, which stands for it."""
    part = _PART.fullmatch(file.name)
    return part is not None and int(part["number"]) > 1


def parts_named(name: str) -> tuple[str, ...]:
    """Return the names of all files of a model, given the name of any of them."""
    part = _PART.fullmatch(name)
    if part is None:
        return (name,)
    count = int(part["count"])
    return tuple(f"{part['stem']}-{each:05}-of-{count:05}{SUFFIX}" for each in range(1, count + 1))


def describe(file: Path) -> GgufModel:
    """Describe the model in ``file``, any of its parts if it was split. Raises ModelError."""
    return _describe(tuple(map(read_gguf_header, _parts(Path(file)))))


@lru_cache(maxsize=4)
def _describe(parts: tuple[GgufHeader, ...]) -> GgufModel:
    """Cached: an unchanged file has the same header object."""
    first = parts[0]
    _check_parts(parts)
    settings = Settings(first.file, first.metadata)
    tensors = dict(_located(settings, parts))
    config = config_from(settings, frozenset(tensors), rope_factors(parts))
    embedding = tensors.get("model.embed_tokens.weight")
    model = GgufModel(
        first.file,
        parts,
        first.metadata,
        MappingProxyType(config),
        MappingProxyType(tensors),
        _type_of(first.metadata, tensors),
    )
    if embedding is not None:
        config["vocab_size"] = embedding.entry.shape[0]
    elif model.only_drafts:
        config["vocab_size"] = len(first.metadata.get("tokenizer.ggml.tokens", ()))
    else:
        raise ModelError(
            f"{first.file} is incomplete: token_embd.weight is missing. Download it again."
        )
    return model


def _parts(file: Path) -> list[Path]:
    """Return all files of a model, given any of them. Raises ModelError if one is missing."""
    if not os.path.isfile(file):
        raise ModelError(f"There is no file {file}. Check the path, or download the model.")
    match = _PART.fullmatch(file.name)
    if match is None:
        return [file]
    count = int(match["count"])
    if not 1 <= int(match["number"]) <= count:
        raise ModelError(
            f"{file} cannot be such a part of {count} files. Restore its original name."
        )
    parts = [file.with_name(name) for name in parts_named(file.name)]
    missing = [part.name for part in parts if not part.is_file()]
    if missing:
        raise ModelError(
            f"{file} is one of {count} files, and {some(missing)} are missing beside it. Download "
            "the rest of the model too; existing files are kept."
        )
    return parts


def _check_parts(parts: Sequence[GgufHeader]) -> None:
    """Raise ModelError if the part numbers in the files contradict their names."""
    for number, part in enumerate(parts):
        count = part.metadata.get("split.count", 1) or 1
        stated = part.metadata.get("split.no", 0)
        if count != len(parts) or (count > 1 and stated != number):
            own = stated + 1 if isinstance(stated, int) else shown(stated)
            raise ModelError(
                f"{part.file} is part {own} of {shown(count)} by its content, but part "
                f"{number + 1} of {len(parts)} by its name. Restore the published names "
                "(...-00001-of-0000N.gguf)."
            )


def _located(
    settings: Settings, parts: Sequence[GgufHeader]
) -> Iterator[tuple[str, LocatedTensor]]:
    architecture, seen = settings.architecture, set[str]()
    last = range(settings.layers - settings.drafting_layers, settings.layers)
    drafting = tuple(f"blk.{each}." for each in last)
    factors = scales(architecture, parts)
    sizes = gated_delta(settings) if architecture == "qwen3next" else {}
    for part in parts:
        for stored, name, entry in _separate(architecture, part, parts):
            stem, _, kind = stored.rpartition(".")
            if name in _FACTORS.values() or is_factor(architecture, name):
                continue
            drafts = name.startswith(drafting)
            role = drafting_role(architecture, name) if drafts else role_of(architecture, name)
            if role is None and drafts:
                continue
            if role is None:
                raise ModelError(
                    f"{part.file} has the tensor {name}, which is not supported for {architecture}. "
                    "Ignoring it would change the output. Use the model's safetensors repository, "
                    "or another file."
                )
            if role.name in seen:
                raise ModelError(
                    f"{part.file} has {name}, and so does another part. Download both again."
                )
            seen.add(role.name)
            shape = (entry.shape[0], 1, *entry.shape[1:]) if role.squeezed else entry.shape
            shape = (1, *shape) if role.row and len(shape) == 1 else shape
            shape = (math.prod(shape),) if role.flat else shape
            of_experts = factors.get(stem, (1.0,)) if kind == "weight" else (1.0,)
            if len(of_experts) not in (1, shape[0] if len(shape) == 3 else 1):
                raise ModelError(
                    f"{part.file} has {len(of_experts)} factors of {name}, of shape {list(shape)}. "
                    "Download it again."
                )
            one = {role.name: replace(entry, shape=shape)}
            for own, each in split_tensors(part.file, one, sizes):
                expert = each.expert if isinstance(each, PartEntry) else 0
                yield own, LocatedTensor(part, each, role, of_experts[expert % len(of_experts)])


def _separate(
    architecture: str, part: GgufHeader, parts: Sequence[GgufHeader]
) -> Iterator[tuple[str, str, TensorEntry]]:
    """Yield each tensor's stored name, its name, and its entry; the queries, keys and values of a layer
    that the converter joined (--fuse-qkv) one by one."""
    own = LAYER_PARTS[architecture]
    for name, entry in part.tensors.items():
        layer, joined, kind = name.partition(".attn_qkv.")
        outputs = [each.tensors.get(f"{layer}.attn_output.weight") for each in parts]
        attends = next(filter(None, outputs), None) if joined and "attn_q" in own else None
        gates = 2 if "attn_gate" in own else 1  # Qwen3.5's queries have a gate each
        queries = attends.shape[-1] * gates if attends and entry.shape else 0
        others = (entry.shape[0] - queries) // 2 if queries else 0
        if others < 1:  # a delta net's are one tensor
            yield name, name, entry
            continue
        start, size = entry.start, entry.nbytes // entry.shape[0]
        for one, rows in (("q", queries), ("k", others), ("v", others)):
            shape = (rows, *entry.shape[1:])
            yield (
                name,
                f"{layer}.attn_{one}.{kind}",
                replace(entry, shape=shape, nbytes=rows * size, start=start),
            )
            start += rows * size


def scales(architecture: str, parts: Sequence[GgufHeader]) -> dict[str, tuple[float, ...]]:
    """Return the factor of each matrix, or of each expert's, by names without a suffix.

    Those of rows that are rounded to NVFP4 too, which nothing here does, are passed over.
    """
    found: dict[str, tuple[float, ...]] = {}
    for part in parts:
        for name, entry in part.tensors.items():
            stem, _, kind = name.rpartition(".")
            if kind == "scale" and is_factor(architecture, name):
                found[stem.removesuffix(".weight")] = _factors(part, name, entry)
    return found


def _factors(part: GgufHeader, name: str, entry: TensorEntry) -> tuple[float, ...]:
    if entry.dtype != "F32":
        raise ModelError(f"{part.file} has {name} in {entry.dtype}; it must be F32.")
    return tuple(np.frombuffer(read_bytes(part.file, entry), "<f4").tolist())


def rope_factors(parts: Sequence[GgufHeader]) -> dict[str, tuple[float, ...]]:
    """Return the rotary factors ``long`` and ``short``, or neither. Files of Llama 3 have one list for
    both. Raises ModelError."""
    file = parts[0].file
    factors = {
        name: _factors(part, key, part.tensors[key])
        for name, key in _FACTORS.items()
        for part in parts
        if key in part.tensors
    }
    if "both" in factors:
        return {"long": factors["both"], "short": factors["both"]}
    if factors and len(factors) != 2:
        raise ModelError(
            f"{file} has rotary factors for {' and '.join(factors)} texts only. Download it again."
        )
    return factors


def _type_of(metadata: Mapping[str, Any], tensors: Mapping[str, LocatedTensor]) -> str:
    """Return the file type that the metadata names, else the type of most bytes."""
    stated = FILE_TYPES.get(metadata.get("general.file_type"))  # type: ignore[arg-type]
    if stated is not None:
        return stated
    sizes: dict[str, int] = {}
    for located in tensors.values():
        sizes[located.entry.dtype] = sizes.get(located.entry.dtype, 0) + located.entry.nbytes
    return max(sizes, key=lambda name: sizes[name])
