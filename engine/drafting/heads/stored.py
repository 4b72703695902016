"""A head's files: configuration, tensor names and shapes at once, the tensors one by one.

Safetensors where there are any. Older heads are published as pickles only; those are read by torch's
weights-only loader, which makes tensors and containers and runs no code from the file.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from engine.errors import ModelError
from engine.models.checkpoints.safetensors_header import read_header
from engine.models.checkpoints.stored_tensor import check_finite, read_tensor

PICKLES = ("*.pt", "*.bin", "*.pth")
_OTHERS = {"training_args.bin", "optimizer.pt", "optimizer.bin", "scheduler.pt", "rng_state.pth"}
"""What a trainer leaves beside the weights."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What a head's folder holds; call it with a tensor's name."""

    folder: Path
    config: Mapping[str, Any]
    shapes: Mapping[str, tuple[int, ...]]
    note: str | None = None
    """That it is a pickle, and how it is read."""
    fetch: Callable[[str], Tensor] = field(repr=False, kw_only=True)

    def __call__(self, name: str) -> Tensor:
        """The tensor as stored, on the CPU. Raises ModelError where it is absent or not finite."""
        self.expect({name: None})
        tensor = self.fetch(name)
        check_finite(self.folder, name, tensor)
        return tensor

    @property
    def parameters(self) -> int:
        """Numbers in all tensors."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    def size(self, key: str, default: int | None = None) -> int:
        """A whole number above 0 from config.json, or ``default``. Raises ModelError."""
        value = self.config.get(key, default)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
        raise ModelError(
            f"{self.folder / 'config.json'}: key '{key}' is {value!r}; it must be a whole number above "
            "0. Use the config.json that was published with the head."
        )

    def flag(self, key: str) -> bool:
        """A yes or no from config.json, no where it says nothing. Raises ModelError."""
        value = self.config.get(key, False)
        if isinstance(value, bool):
            return value
        raise ModelError(
            f"{self.folder / 'config.json'}: key '{key}' is {value!r}; it must be true or false. Use the "
            "config.json that was published with the head."
        )

    def matrix(self, name: str) -> tuple[int, int]:
        """(out, in) of a weight. Raises ModelError where it is absent or no matrix."""
        self.expect({name: None})
        match self.shapes[name]:
            case (rows, columns):
                return rows, columns
            case other:
                raise ModelError(
                    f"In {self.folder}, {name} has the shape {other}; it should have two dimensions. "
                    "Download the head again."
                )

    def expect(self, shapes: Mapping[str, tuple[int, ...] | None]) -> None:
        """Raises ModelError unless all these tensors are there; None is any shape."""
        for name, wanted in shapes.items():
            found = self.shapes.get(name)
            if found is None:
                raise ModelError(
                    f"{self.folder} lacks the tensor {name}: it is incomplete, or not laid out as its "
                    "config.json says. Download the head again."
                )
            if wanted is not None and found != wanted:
                raise ModelError(
                    f"In {self.folder}, {name} has the shape {found}; by the other tensors and "
                    f"config.json it should have {wanted}. Download the head again."
                )


def open_stored(folder: Path, config: Mapping[str, Any]) -> Stored:
    """Reads names and shapes of all tensors in ``folder``. Raises ModelError for damaged files."""
    files = sorted(folder.glob("*.safetensors"))
    if files:
        return _from_safetensors(folder, config, files)
    found = {file for pattern in PICKLES for file in folder.glob(pattern)}
    pickles = sorted(file for file in found if file.name not in _OTHERS)
    if not pickles:
        raise ModelError(
            f"{folder} has a config.json but no weights: neither *.safetensors nor "
            f"{' or '.join(PICKLES)}. Download them."
        )
    return _from_pickles(folder, config, pickles)


def _from_safetensors(folder: Path, config: Mapping[str, Any], files: list[Path]) -> Stored:
    places = {name: (file, info) for file in files for name, info in read_header(file).items()}
    shapes = {name: info.shape for name, (_, info) in places.items()}
    return Stored(
        folder, config, MappingProxyType(shapes), fetch=lambda name: read_tensor(*places[name])
    )


def _from_pickles(folder: Path, config: Mapping[str, Any], files: list[Path]) -> Stored:
    tensors: dict[str, Tensor] = {}
    for file in files:
        tensors |= _unpickled(file)
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    note = (
        f"{', '.join(file.name for file in files)} is a pickle: it was read with torch's weights-only "
        "loader, which takes tensors and runs no code."
    )
    frozen = MappingProxyType(shapes)
    return Stored(folder, config, frozen, note, fetch=lambda name: tensors[name].clone())


def _unpickled(file: Path) -> dict[str, Tensor]:
    """The tensors of a state dictionary, mapped where the file allows it; ``fetch`` copies them."""
    try:
        try:
            found = torch.load(file, map_location="cpu", weights_only=True, mmap=True)
        except RuntimeError:  # the form from before torch 1.6 cannot be mapped
            found = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ModelError(
            f"{file} is a pickle that holds more than tensors, or is damaged. Only tensors are read from "
            "a pickle (torch's weights-only loader), because anything else could run code. Download it "
            "again, or get a safetensors version."
        ) from error
    except (RuntimeError, EOFError, OSError, ValueError, KeyError) as error:
        raise ModelError(
            f"{file} cannot be read as a torch file: it is incomplete or damaged. Download it again."
        ) from error
    tensors = found if isinstance(found, dict) else {}
    if not tensors or not all(isinstance(tensor, Tensor) for tensor in tensors.values()):
        raise ModelError(
            f"{file} holds no tensors by name, which is what a head is. Use the file that was published "
            "as the head's weights."
        )
    return tensors
