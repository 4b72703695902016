"""Convert the rotary position settings of config.json to ``Rope``: frequencies, with any scaling applied.

Source: Su et al. 2021 (RoFormer). Each scaling names its source. Transformers 5 writes
``rope_parameters``; earlier versions ``rope_theta``, ``rope_scaling`` and ``partial_rotary_factor``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from engine.errors import ModelError
from engine.models.architecture import Rope

Settings = Mapping[str, Any]
MOST_WIDTH = 2**16
"""Rotated numbers of a head: a list of what a damaged configuration says would fill the memory."""


class RopeConfig(Protocol):
    """The fields of a ``Checkpoint`` that the rope depends on. ``context``: max_position_embeddings."""

    @property
    def path(self) -> Path: ...
    @property
    def text_config(self) -> Settings: ...
    @property
    def context(self) -> int: ...
    @property
    def head_dim(self) -> int: ...


@dataclass(frozen=True, slots=True)
class ScalingInputs:
    """The inputs of a scaling besides the default frequencies."""

    settings: Settings
    theta: float
    context: int  # the most tokens that will be computed
    longest: int  # max_position_embeddings
    original: int  # the longest context of pretraining

    def number(self, key: str) -> float:
        return float(self.settings[key])


def rope_settings(config: Settings) -> Settings:
    """Return the settings of all layers, in either spelling; empty if there are none."""
    settings: Settings = config.get("rope_parameters") or config.get("rope_scaling") or {}
    return settings


def scaling_of(settings: Settings) -> str:
    """Return the kind of scaling."""
    return str(settings.get("rope_type") or settings.get("type") or "default")


def rope_base(config: Settings, settings: Settings, theta: float | None = None) -> float:
    """Return the base of the frequencies; ``theta`` if the ``settings`` do not say."""
    return float(settings.get("rope_theta") or theta or config.get("rope_theta") or 10000.0)


def read_rope(
    checkpoint: RopeConfig,
    context: int,
    *,
    settings: Settings | None = None,
    theta: float | None = None,
    part: float = 1.0,
    head_dim: int | None = None,
) -> Rope:
    """Return the ``Rope`` of layers with ``settings`` (default: the model's), up to ``context`` tokens.

    ``theta`` and ``part``, the part of a head that rotates, apply if the settings name none. ``head_dim``
    is the model's, unless told. Raises ModelError for an unknown scaling.
    """
    config = checkpoint.text_config
    if settings is None:
        settings = rope_settings(config)
    kind = scaling_of(settings)
    if kind not in SCALINGS:
        known = ", ".join(SCALINGS)
        raise ModelError(
            f"{checkpoint.path} has the rope_type {kind!r}, which is not supported; "
            f"supported are {known}. Choose another model."
        )
    key = "original_max_position_embeddings"
    original = config.get(key) or settings.get(key) or checkpoint.context
    base = rope_base(config, settings, theta)
    part = settings.get("partial_rotary_factor") or config.get("partial_rotary_factor") or part
    head_dim = head_dim or checkpoint.head_dim
    width = head_dim if kind == "proportional" else int(head_dim * float(part))
    if not 0 <= width <= MOST_WIDTH:
        raise ModelError(
            f"{checkpoint.path} rotates {width:,} numbers of a head, and at most {MOST_WIDTH:,} are "
            "supported. The configuration is probably damaged: download it again."
        )
    inputs = ScalingInputs(settings, base, context, checkpoint.context, int(original))
    rope = SCALINGS[kind]([base ** (-i / width) for i in range(0, width, 2)], inputs)
    return replace(rope, axes=_axes(settings, len(rope.frequencies)))


def _axes(settings: Settings, pairs: int) -> tuple[int, ...]:
    """Return ``Rope.axes`` by ``mrope_section``: how many pairs time, row and column rotate.

    They take turns while all have some left; what remains is time's. Sections side by side, as in
    Qwen2-VL, belong to no family here.
    """
    sections = settings.get("mrope_section")
    if not sections or not settings.get("mrope_interleaved"):
        return ()
    lengths = [int(each) for each in sections]
    axes = [0] * pairs
    for axis in (1, 2):
        for pair in range(axis, min(3 * lengths[axis], pairs), 3):
            axes[pair] = axis
    return tuple(axes)


def _default(frequencies: list[float], inputs: ScalingInputs) -> Rope:
    return Rope(tuple(frequencies))


def _dynamic(frequencies: list[float], inputs: ScalingInputs) -> Rope:
    """Stretch the base by a fixed ``alpha`` (Hunyuan). Otherwise change nothing: this scales only beyond
    max_position_embeddings, which no context here exceeds."""
    alpha, last = float(inputs.settings.get("alpha") or 1), len(frequencies) - 1
    return Rope(tuple(f * alpha ** (-pair / last) for pair, f in enumerate(frequencies)))


def _linear(frequencies: list[float], inputs: ScalingInputs) -> Rope:
    """Divide positions by ``factor`` (kaiokendev 2023)."""
    factor = inputs.number("factor")
    return Rope(tuple(frequency / factor for frequency in frequencies))


def _proportional(frequencies: list[float], inputs: ScalingInputs) -> Rope:
    """Rotate the first pairs alone, at the frequencies they have if all rotate (Gemma 4)."""
    rotated = int(float(inputs.settings.get("partial_rotary_factor") or 1.0) * len(frequencies))
    factor = float(inputs.settings.get("factor") or 1.0)
    still = (0.0,) * (len(frequencies) - rotated)
    return Rope((*(each / factor for each in frequencies[:rotated]), *still))


def _llama3(frequencies: list[float], inputs: ScalingInputs) -> Rope:
    """Divide low frequencies by ``factor``, keep high ones, blend between (Llama 3.1)."""
    factor, low = inputs.number("factor"), inputs.number("low_freq_factor")
    high = inputs.number("high_freq_factor")

    def scaled(frequency: float) -> float:
        periods = inputs.original * frequency / (2 * math.pi)  # in the original context
        keep = min(max((periods - low) / (high - low), 0.0), 1.0)
        return frequency * (keep + (1 - keep) / factor)

    return Rope(tuple(map(scaled, frequencies)))


def _yarn(frequencies: list[float], inputs: ScalingInputs) -> Rope:
    """As llama3, blended over dimensions instead of periods, with a magnitude (Peng et al. 2023)."""
    settings, width = inputs.settings, 2 * len(frequencies)
    factor = float(settings.get("factor") or inputs.longest / inputs.original)

    def dimension(periods: float) -> float:
        """Return the pair that completes so many periods in the original context."""
        ratio = inputs.original / (periods * 2 * math.pi)
        return width * math.log(ratio) / (2 * math.log(inputs.theta))

    low = dimension(settings.get("beta_fast") or 32)
    high = dimension(settings.get("beta_slow") or 1)
    if settings.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, width - 1)
    span = (high - low) or 0.001

    def scaled(pair: int, frequency: float) -> float:
        blend = min(max((pair - low) / span, 0.0), 1.0)
        return frequency * ((1 - blend) + blend / factor)

    interpolated = tuple(scaled(pair, frequency) for pair, frequency in enumerate(frequencies))
    return Rope(interpolated, _yarn_magnitude(settings, factor))


def _yarn_magnitude(settings: Settings, factor: float) -> float:
    if settings.get("attention_factor") is not None:
        return float(settings["attention_factor"])

    def magnitude(scale: float) -> float:
        return 0.1 * scale * math.log(factor) + 1.0 if factor > 1 else 1.0

    own, all_dim = settings.get("mscale"), settings.get("mscale_all_dim")
    return magnitude(own) / magnitude(all_dim) if own and all_dim else magnitude(1.0)


def _longrope(frequencies: list[float], inputs: ScalingInputs) -> Rope:
    """Divide each frequency by its factor in the list for short or for long texts (Ding et al. 2024).

    Transformers switches to the long list when a text outgrows the original context, and keeps the keys
    that were rotated before. A token's logits then depend on how the text was split, so here, as in vLLM,
    the context for which the model is loaded decides, once.
    """
    settings, original = inputs.settings, inputs.original
    factors = settings["long_factor" if inputs.context > original else "short_factor"]
    scaled = tuple(f / float(by) for f, by in zip(frequencies, factors, strict=True))
    magnitude = settings.get("attention_factor")
    if magnitude is None:
        factor = float(settings.get("factor") or inputs.longest / original)
        magnitude = math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0
    return Rope(scaled, float(magnitude))


SCALINGS: Mapping[str, Callable[[list[float], ScalingInputs], Rope]] = {
    "default": _default,
    "dynamic": _dynamic,
    "linear": _linear,
    "proportional": _proportional,
    "llama3": _llama3,
    "yarn": _yarn,
    "longrope": _longrope,
}
