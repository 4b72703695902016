"""Convert what a GGUF file says of its layers' kinds to transformers' ``layer_types``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.models.checkpoints.gguf.settings import Settings

_SLIDING_EVERY = {"gemma2": 2, "gemma3": 6, "gemma4": 6, "olmo2": 4, "exaone4": 4, "cohere2": 4}
"""The period of layers with global attention, if the file does not say (llama.cpp's models)."""
_WINDOWS = {"gemma2": 4096}
"""The window, likewise."""


def sliding_window(settings: Settings) -> int | None:
    """Return the window of sliding layers; None if there are no such layers."""
    stated = settings.optional_size("attention.sliding_window")
    return stated or _WINDOWS.get(settings.architecture)


def window_fields(settings: Settings, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the window and which layers slide; none do without."""
    layers, window = config["num_hidden_layers"], sliding_window(settings)
    sliding = sliding_layers(settings, layers) if window else [False] * layers
    return {"sliding_window": window, "layer_types": layer_types(sliding)}


def sliding_layers(settings: Settings, layers: int) -> list[bool]:
    """Return whether each layer slides: by the file's list or period, or by llama.cpp's default."""
    key = "attention.sliding_window_pattern"
    pattern = settings.optional(key)
    if isinstance(pattern, list):
        if len(pattern) != layers:
            raise settings.wrong(key, f"a list of {len(pattern)}", f"a list of {layers}")
        return [bool(slides) for slides in pattern]
    every = settings.size(key, _SLIDING_EVERY[settings.architecture])
    return [(index + 1) % every != 0 for index in range(layers)]


def types_by_kv_heads(settings: Settings, config: Mapping[str, Any], other: str) -> list[str]:
    """Return the type of each layer: ``other`` where the file lists 0 key-value heads."""
    key, layers = "attention.head_count_kv", config["num_hidden_layers"]
    listed = settings.optional(key)
    if not isinstance(listed, list) or len(listed) != layers:
        raise settings.wrong(key, listed, f"a list of {layers}, with 0 for layers of type {other}")
    return layer_types(listed, "full_attention", other)


def recurrent_types(settings: Settings, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the type of each layer, if the file lists them: drafting layers are in the list too."""
    key, layers = "attention.recurrent_layers", config["num_hidden_layers"]
    listed = settings.optional(key)
    if listed is None:
        return {}
    if not isinstance(listed, list) or len(listed) < layers:
        raise settings.wrong(key, listed, f"a list of {layers} or more")
    return {"layer_types": layer_types(listed[:layers], "linear_attention", "full_attention")}


def layer_types(
    flags: Sequence[object], where: str = "sliding_attention", else_: str = "full_attention"
) -> list[str]:
    """Return the type of each layer, ``where`` its flag is set and where it is not."""
    return [where if flag else else_ for flag in flags]
