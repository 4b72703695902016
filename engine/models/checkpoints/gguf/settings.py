"""Read single settings of a GGUF file's metadata, with the key at fault in each error."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from engine.errors import ModelError
from engine.models.checkpoints.config_file import MOST_LAYERS
from engine.models.checkpoints.gguf.names import check_architecture
from engine.values import shown


class Settings:
    """The metadata of a model, by keys without its architecture's prefix. Methods raise ModelError."""

    def __init__(self, file: Path, metadata: Mapping[str, Any], family: str | None = None) -> None:
        """``family``: the architecture of models like this one, if it is a head."""
        self.file, self.metadata, self._family = file, metadata, family
        stated = metadata.get("general.architecture")
        self.prefix = str(stated)
        self.architecture = family or check_architecture(file, stated)

    def size(self, key: str, default: int | None = None, layer: int | None = None) -> int:
        """Return a whole number above 0; of a list, that of ``layer`` or the one that all layers have."""
        value = self._value(key, default)
        if isinstance(value, list) and layer is not None and layer < len(value):
            value = value[layer]
        return self.whole(key, value)

    def whole(self, key: str, value: Any) -> int:
        """Return ``value``, which ``key`` has, if it is as ``size`` returns it."""
        if isinstance(value, list) and value and value.count(value[0]) == len(value):
            value = value[0]
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
        raise self.wrong(key, value, "a whole number above 0, equal in all layers")

    def optional_size(self, key: str) -> int | None:
        """Return a whole number above 0; None if the file has 0 or nothing."""
        return self.size(key) if self.optional(key) else None

    def number(self, key: str, default: float | None = None) -> float:
        """Return a number above 0, as it was written in decimals: 1e-06, not 9.999999974752427e-07."""
        value = self._value(key, default)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < np.inf:
            return float(str(np.float32(value)))
        raise self.wrong(key, value, "a number above 0")

    @property
    def layers(self) -> int:
        """How many layers there are, those that draft included."""
        if (layers := self.size("block_count")) > MOST_LAYERS:
            raise self.wrong("block_count", layers, f"at most {MOST_LAYERS:,}")
        return layers

    @property
    def drafting_layers(self) -> int:
        """How many of the last layers draft for the others (MTP)."""
        key = "nextn_predict_layers"
        if self._family is not None:
            return 0
        if (drafting := self.optional_size(key) or 0) >= self.layers:
            raise self.wrong(key, drafting, f"less than block_count, {self.layers:,}")
        return drafting

    def optional(self, key: str) -> Any:
        return self.metadata.get(f"{self.prefix}.{key}")

    def wrong(self, key: str, value: object, expected: str) -> ModelError:
        return ModelError(
            f"{self.file}: {self.prefix}.{key} is {shown(value)}; it must be {expected}. "
            "The file is damaged or mislabelled: download it again."
        )

    def _value(self, key: str, default: Any) -> Any:
        value = self.optional(key)
        if value is None:
            value = default
        if value is None:
            raise ModelError(
                f"{self.file} has no {self.prefix}.{key}, so the model cannot be run. Download "
                "it again, or convert it again with llama.cpp's converter."
            )
        return value
