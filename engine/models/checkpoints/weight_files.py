"""List the tensors of a model folder from the headers of its weight files.

Weights come from safetensors only: a pickle can run code when it is read, so it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from engine.errors import ModelError
from engine.files import bounded, parse_json
from engine.models.checkpoints.parts import is_scales, split_tensors
from engine.models.checkpoints.prequantised import NF4, STATE, auxiliary, nf4_state
from engine.models.checkpoints.safetensors_header import TensorEntry, read_header, unreadable
from engine.values.units import counted

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"

_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")


class TensorInfo(NamedTuple):
    """The file, shape and dtype (safetensors' names: F32, BF16, ...) of a tensor.

    A weight that bitsandbytes quantised has its original shape and the dtype ``NF4``.
    """

    file: Path
    shape: tuple[int, ...]
    dtype: str


def read_tensors(
    folder: Path, config: Mapping[str, Any] = MappingProxyType({})
) -> tuple[dict[str, TensorInfo], int]:
    """Return all tensors of ``folder`` by name, and their bytes together. Raises ModelError.

    ``config``: the text model's; see ``split_tensors``.
    """
    tensors: dict[str, TensorInfo] = {}
    stored_bytes = 0
    for file, expected in _weight_files(folder):
        header = read_header(file)
        absent = sorted(expected - header.keys())
        if absent:
            raise ModelError(
                f"{folder / INDEX_FILE} lists {counted(len(absent), 'tensor')} that {file.name} does "
                f"not have ({some(absent)}). Index and shards come from different downloads: "
                "download all of them again."
            )
        stored_bytes += sum(entry.nbytes for entry in header.values())
        found = dict(split_tensors(file, header, config))
        tensors |= {
            name: _info(file, name, found)
            for name in found
            if not auxiliary(name, found) and not is_scales(name)
        }
    if not tensors:
        raise ModelError(f"The weights in {folder} have no tensors. Download them again.")
    return tensors, stored_bytes


def _info(file: Path, name: str, header: Mapping[str, TensorEntry]) -> TensorInfo:
    state = header.get(name + STATE)
    if state is None:
        return TensorInfo(file, header[name].shape, header[name].dtype)
    return TensorInfo(file, nf4_state(file, name, state).shape, NF4)


def _weight_files(folder: Path) -> list[tuple[Path, set[str]]]:
    """Return the files to read, each with the tensors that the index lists for it."""
    single = folder / SINGLE_FILE
    if single.is_file():
        return [(single, set())]
    index = folder / INDEX_FILE
    if index.is_file():
        return _shards(folder, index)
    raise ModelError(_no_weights(folder))


def _shards(folder: Path, index: Path) -> list[tuple[Path, set[str]]]:
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise ModelError(f"{index} has no 'weight_map'. Download the file again.")
    by_file: dict[str, set[str]] = {}
    for name, file in weight_map.items():
        if not _is_shard_name(file):
            raise ModelError(
                f"{index}: tensor {name!r} should be in {file!r}, which is not a safetensors "
                "file of this folder. Download the index again."
            )
        by_file.setdefault(file, set()).add(name)
    missing = sorted(file for file in by_file if not (folder / file).is_file())
    if missing:
        raise ModelError(
            f"{folder} lacks {len(missing)} of its {len(by_file)} weight files: "
            f"{some(missing)}. Download the model again; existing files are kept."
        )
    return [(folder / file, names) for file, names in sorted(by_file.items())]


def _no_weights(folder: Path) -> str:
    pickles = sorted(file.name for pattern in _PICKLES for file in folder.glob(pattern))
    others = sorted(file.name for file in folder.glob("*.safetensors"))
    if others:
        return (
            f"{folder} has {some(others)} but neither {SINGLE_FILE} nor {INDEX_FILE}. Add "
            "the index, or use the model in transformers layout."
        )
    if pickles:
        return (
            f"{folder} has only pickle weights ({some(pickles)}). Reading a pickle can run "
            "any code, so it is refused. Use a safetensors version, or convert the weights "
            "on an isolated machine."
        )
    return f"{folder} has a config.json but no weights: {SINGLE_FILE} is missing. Download them."


def _is_shard_name(file: object) -> bool:
    """Return whether ``file`` is a plain name in this folder: an index must not reach outside it."""
    return isinstance(file, str) and Path(file).name == file and file.endswith(".safetensors")


def some(names: list[str]) -> str:
    """Return the first three names, and how many others there are."""
    more = len(names) - 3
    return ", ".join(names[:3]) + (f" and {more} more" if more > 0 else "")


def read_json(file: Path) -> dict[str, Any]:
    """Return the object in a model's JSON file. Raises ModelError."""
    try:
        value = parse_json(bounded(file).decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ModelError(f"{file} is not UTF-8 text. Copy or download it again.") from error
    except ValueError as error:
        raise ModelError(
            f"{file} is not valid JSON: {error}. Correct it, or download the file again."
        ) from error
    except OSError as error:
        raise unreadable(file, error) from error
    if not isinstance(value, dict):
        raise ModelError(f"{file} must hold a JSON object. Download the file again.")
    return value
