"""Rotary position settings of config.json -> ``Rope``: the frequencies, whatever stretched them.

Source: Su et al. 2021 (RoFormer). Each scaling names its own. Transformers 5 writes
``rope_parameters``; earlier versions ``rope_theta``, ``rope_scaling`` and ``partial_rotary_factor``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from engine.errors import ModelError
from engine.models.architecture import Rope

Settings = Mapping[str, Any]


class Described(Protocol):
    """What tells how positions turn; a ``Checkpoint`` is one. ``context``: max_position_embeddings."""

    @property
    def path(self) -> Path: ...
    @property
    def text_config(self) -> Settings: ...
    @property
    def context(self) -> int: ...
    @property
    def head_dim(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Stretch:
    """What a scaling may look at besides its own ``settings``."""

    settings: Settings
    theta: float
    context: int  # tokens that will be computed at most
    longest: int  # max_position_embeddings
    original: int  # the longest text of pretraining

    def number(self, key: str) -> float:
        return float(self.settings[key])


def rope_settings(config: Settings) -> Settings:
    """The settings of all layers, in either spelling; empty where there are none."""
    found: Settings = config.get("rope_parameters") or config.get("rope_scaling") or {}
    return found


def read_rope(
    checkpoint: Described,
    context: int,
    *,
    settings: Settings | None = None,
    theta: float | None = None,
) -> Rope:
    """The ``Rope`` of layers with these ``settings`` (default: the model's), up to ``context`` tokens.

    ``theta`` is what holds where the settings name none. Raises ModelError for an unknown scaling.
    """
    config = checkpoint.text_config
    if settings is None:
        settings = rope_settings(config)
    kind = settings.get("rope_type") or settings.get("type") or "default"
    if kind not in SCALINGS:
        known = ", ".join(SCALINGS)
        raise ModelError(
            f"{checkpoint.path} scales its rotary positions by {kind!r} (its setting rope_type); "
            f"known here are {known}. Another formula would give other words. Use a model with one "
            "of these."
        )
    key = "original_max_position_embeddings"
    original = config.get(key) or settings.get(key) or checkpoint.context
    base = float(settings.get("rope_theta") or theta or config.get("rope_theta") or 10000.0)
    part = settings.get("partial_rotary_factor") or config.get("partial_rotary_factor") or 1.0
    width = int(checkpoint.head_dim * float(part))
    stretch = Stretch(settings, base, context, checkpoint.context, int(original))
    return SCALINGS[kind]([base ** (-i / width) for i in range(0, width, 2)], stretch)


def _default(frequencies: list[float], stretch: Stretch) -> Rope:
    return Rope(tuple(frequencies))


def _linear(frequencies: list[float], stretch: Stretch) -> Rope:
    """Positions divided by ``factor`` (kaiokendev 2023)."""
    factor = stretch.number("factor")
    return Rope(tuple(frequency / factor for frequency in frequencies))


def _llama3(frequencies: list[float], stretch: Stretch) -> Rope:
    """Slows long wavelengths down by ``factor``, keeps short ones, blends between (Llama 3.1)."""
    factor, low = stretch.number("factor"), stretch.number("low_freq_factor")
    high = stretch.number("high_freq_factor")

    def scaled(frequency: float) -> float:
        turns = stretch.original * frequency / (2 * math.pi)  # in the original context
        keep = min(max((turns - low) / (high - low), 0.0), 1.0)
        return frequency * (keep + (1 - keep) / factor)

    return Rope(tuple(map(scaled, frequencies)))


def _yarn(frequencies: list[float], stretch: Stretch) -> Rope:
    """As llama3, blended over dimensions instead of turns, and sharpened (Peng et al. 2023)."""
    settings, width = stretch.settings, 2 * len(frequencies)
    factor = float(settings.get("factor") or stretch.longest / stretch.original)

    def dimension(turns: float) -> float:
        """Where a pair makes so many turns in the original context."""
        ratio = stretch.original / (turns * 2 * math.pi)
        return width * math.log(ratio) / (2 * math.log(stretch.theta))

    low = dimension(settings.get("beta_fast") or 32)
    high = dimension(settings.get("beta_slow") or 1)
    if settings.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, width - 1)
    span = (high - low) or 0.001

    def scaled(pair: int, frequency: float) -> float:
        slowed = min(max((pair - low) / span, 0.0), 1.0)
        return frequency * ((1 - slowed) + slowed / factor)

    turned = tuple(scaled(pair, frequency) for pair, frequency in enumerate(frequencies))
    return Rope(turned, _yarn_magnitude(settings, factor))


def _yarn_magnitude(settings: Settings, factor: float) -> float:
    if settings.get("attention_factor") is not None:
        return float(settings["attention_factor"])

    def sharpened(scale: float) -> float:
        return 0.1 * scale * math.log(factor) + 1.0 if factor > 1 else 1.0

    over, under = settings.get("mscale"), settings.get("mscale_all_dim")
    return sharpened(over) / sharpened(under) if over and under else sharpened(1.0)


def _longrope(frequencies: list[float], stretch: Stretch) -> Rope:
    """One factor a pair (Ding et al. 2024), from the list for short texts or from that for long.

    Transformers changes from one list to the other when a text outgrows the original context, and
    keeps the keys that were turned by the first. Then a token's logits depend on how the text came
    in, so here, as in vLLM, the context for which the model is loaded decides, once.
    """
    settings, original = stretch.settings, stretch.original
    factors = settings["long_factor" if stretch.context > original else "short_factor"]
    turned = tuple(f / float(by) for f, by in zip(frequencies, factors, strict=True))
    magnitude = settings.get("attention_factor")
    if magnitude is None:
        factor = float(settings.get("factor") or stretch.longest / original)
        magnitude = math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0
    return Rope(turned, float(magnitude))


SCALINGS: Mapping[str, Callable[[list[float], Stretch], Rope]] = {
    "default": _default,
    # Stretches only what is longer than max_position_embeddings, and no context here is.
    "dynamic": _default,
    "linear": _linear,
    "llama3": _llama3,
    "yarn": _yarn,
    "longrope": _longrope,
}
