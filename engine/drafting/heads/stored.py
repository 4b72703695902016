"""A head's files: config.json and the names and shapes of tensors are read at once, tensors one by one.

They are a folder or a GGUF file. In folders safetensors are preferred. Older heads are published as
pickles only; torch's weights-only loader reads them, which makes tensors and containers and runs no code
from the file.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from engine.errors import ModelError
from engine.kernels.formats.blocks import Blocks
from engine.models.checkpoints.config_file import read_config
from engine.models.checkpoints.gguf.description import is_gguf, name_of
from engine.models.checkpoints.gguf.heads import read_head
from engine.models.checkpoints.gguf.tensors import read_original
from engine.models.checkpoints.safetensors_header import read_header
from engine.models.checkpoints.stored_tensor import check_finite, read_tensor
from engine.values import shown

PICKLES = ("*.pt", "*.bin", "*.pth")
MOST = 128
"""More layers, or tokens of a draft, than any head has: lists of what a damaged configuration says would
fill the memory."""
_OTHERS = {"training_args.bin", "optimizer.pt", "optimizer.bin", "scheduler.pt", "rng_state.pth"}
"""Files that a trainer leaves beside the weights."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The contents of a head's ``folder``, or GGUF file; call it with a tensor's name."""

    folder: Path
    config: Mapping[str, Any]
    shapes: Mapping[str, tuple[int, ...]]
    note: str | None = None
    """A remark for users: the weights are a pickle, and how it is read."""
    remedy: str = field(default="Download the head again.", kw_only=True)
    """What to do if tensors are absent or of other shapes."""
    fetch: Callable[[str], Tensor] = field(repr=False, kw_only=True)

    @property
    def name(self) -> str:
        """The folder's name, or the file's without its suffix."""
        return name_of(self.folder)

    @property
    def config_file(self) -> Path:
        """The file that holds ``config``: config.json, or the GGUF file itself."""
        return self.folder if is_gguf(self.folder) else self.folder / "config.json"

    def __call__(self, name: str) -> Tensor:
        """Return the tensor as stored, on the CPU. Raises ModelError where it is absent or not finite."""
        self.expect({name: None})
        tensor = self.fetch(name)
        check_finite(self.folder, name, tensor)
        return tensor

    def size(self, key: str, default: int | None = None, *, most: int = 1 << 40) -> int:
        """Return a whole number above 0 from config.json, or ``default``. Raises ModelError."""
        value = self.config.get(key, default)
        if type(value) is int and 0 < value <= most:
            return value
        raise self.wrong_key(key, f"a whole number above 0, at most {most:,}")

    def flag(self, key: str) -> bool:
        """Return a boolean from config.json; False where the key is absent. Raises ModelError."""
        value = self.config.get(key, False)
        if isinstance(value, bool):
            return value
        raise self.wrong_key(key, "true or false")

    def wrong_key(self, key: str, allowed: str) -> ModelError:
        """Return the error for a key of config.json whose value is not ``allowed``."""
        return ModelError(
            f"{self.config_file}: {key} is {shown(self.config.get(key))}; it must be "
            f"{allowed}. Use the config.json that was published with the head."
        )

    def matrix(self, name: str) -> tuple[int, int]:
        """Return a weight's (out, in). Raises ModelError where it is absent or no matrix."""
        self.expect({name: None})
        match self.shapes[name]:
            case (rows, columns):
                return rows, columns
            case other:
                raise ModelError(
                    f"In {self.folder}, {name} has shape {other}; it should have two dimensions. "
                    + self.remedy
                )

    def expect(self, shapes: Mapping[str, tuple[int, ...] | None]) -> None:
        """Raise ModelError unless all these tensors are there; None is any shape."""
        for name, expected in shapes.items():
            shape = self.shapes.get(name)
            if shape is None:
                raise ModelError(
                    f"{self.folder} has no tensor {name}: it is incomplete, or does not match its "
                    f"config.json. {self.remedy}"
                )
            if expected is not None and shape != expected:
                raise ModelError(
                    f"In {self.folder}, {name} has shape {shape}; the other tensors and config.json "
                    f"require {expected}. {self.remedy}"
                )


def open_stored(folder: Path) -> Stored:
    """Read names and shapes of all tensors in ``folder``, or a GGUF file. Raises ModelError."""
    if is_gguf(folder):
        return _from_gguf(folder)
    config = read_config(folder)
    files = sorted(folder.glob("*.safetensors"))
    if files:
        return _from_safetensors(folder, config, files)
    matching = {file for pattern in PICKLES for file in folder.glob(pattern)}
    pickles = sorted(file for file in matching if file.name not in _OTHERS)
    if not pickles:
        raise ModelError(
            f"{folder} has a config.json but no weights (*.safetensors, "
            f"{' or '.join(PICKLES)}). Download them."
        )
    return _from_pickles(folder, config, pickles)


def _from_safetensors(folder: Path, config: Mapping[str, Any], files: list[Path]) -> Stored:
    locations = {name: (file, info) for file in files for name, info in read_header(file).items()}
    shapes = {name: info.shape for name, (_, info) in locations.items()}
    return Stored(
        folder, config, MappingProxyType(shapes), fetch=lambda name: read_tensor(*locations[name])
    )


def _from_gguf(file: Path) -> Stored:
    """Return tensors as floats, whatever the file's type: ``LinearFactory`` rounds them again."""
    head = read_head(file)
    shapes = {name: located.entry.shape for name, located in head.tensors.items()}

    def fetch(name: str) -> Tensor:
        weight = read_original(name, head.tensors[name], (head.heads, head.kv_heads))
        tensor = weight.dequantise() if isinstance(weight, Blocks) else weight
        # llama.cpp has token ids where the published folder has offsets.
        return tensor - torch.arange(len(tensor)) if name == "d2t" else tensor

    return Stored(file, head.config, MappingProxyType(shapes), fetch=fetch)


def _from_pickles(folder: Path, config: Mapping[str, Any], files: list[Path]) -> Stored:
    tensors = {name: tensor for file in files for name, tensor in _unpickled(file).items()}
    shapes = MappingProxyType({name: tuple(tensor.shape) for name, tensor in tensors.items()})
    note = (
        f"{', '.join(file.name for file in files)} is a pickle. It was read with "
        "torch's weights-only loader, which runs no code."
    )
    return Stored(folder, config, shapes, note, fetch=lambda name: tensors[name].clone())


def _unpickled(file: Path) -> dict[str, Tensor]:
    """Return the tensors of a state dictionary, memory-mapped where the file allows it."""
    try:
        try:
            state = torch.load(file, map_location="cpu", weights_only=True, mmap=True)
        except RuntimeError:  # the form from before torch 1.6 cannot be mapped
            state = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ModelError(
            f"{file} is a damaged pickle, or holds more than tensors. Only tensors are "
            "read, because anything else could run code. Download it again, or get a "
            "safetensors version."
        ) from error
    except (RuntimeError, EOFError, OSError, ValueError, KeyError) as error:
        raise ModelError(
            f"{file} is not a readable torch file: it is incomplete or damaged. Download it again."
        ) from error
    tensors = state if isinstance(state, dict) else {}
    if not tensors or not all(isinstance(tensor, Tensor) for tensor in tensors.values()):
        raise ModelError(
            f"{file} holds no named tensors. Use the file that was published as the head's weights."
        )
    return tensors
