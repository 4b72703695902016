"""Convert a GGUF file's settings of rotary positions to transformers' ``rope_parameters``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from engine.errors import ModelError
from engine.models.checkpoints.gguf.settings import Settings

_PARTLY_ROTATED = ("phi3", "qwen35", "qwen35moe", "qwen3next", "glm4", "glm4moe", "dflash")


def rope_parameters(
    settings: Settings, head_dim: int, factors: Mapping[str, Sequence[float]]
) -> dict[str, Any]:
    """Return the rope of a model, or of its global layers. ``factors``: see ``config_from``."""
    rope: dict[str, Any] = {
        "rope_type": "default",
        "rope_theta": settings.number("rope.freq_base", 10_000.0),
    }
    width = settings.size("rope.dimension_count", head_dim)
    if width != head_dim:
        partly = {settings.architecture, settings.prefix} & {*_PARTLY_ROTATED}
        if not partly or width > head_dim or width % 2:
            raise settings.wrong("rope.dimension_count", width, str(head_dim))
        rope["partial_rotary_factor"] = width / head_dim
    kind = settings.optional("rope.scaling.type") or "none"
    original = "rope.scaling.original_context_length"
    if settings.optional(original):
        rope["original_max_position_embeddings"] = settings.size(original)
    if factors:
        return rope | _longrope(settings, width, factors)
    if kind == "none" and settings.optional("rope.scale_linear"):  # older than the scaling's type
        return rope | {"rope_type": "linear", "factor": settings.number("rope.scale_linear")}
    if kind in ("linear", "yarn"):
        rope |= {"rope_type": kind, "factor": settings.number("rope.scaling.factor")}
        return rope | _yarn(settings) if kind == "yarn" else rope
    if kind != "none":
        raise settings.wrong("rope.scaling.type", kind, "none, linear, yarn, or come with factors")
    return rope


def _yarn(settings: Settings) -> dict[str, Any]:
    """Return the rest of YaRN's settings. Mistral's are such that nothing is magnified."""
    rope: dict[str, Any] = {
        name: settings.number(f"rope.scaling.yarn_{name}")
        for name in ("beta_fast", "beta_slow")
        if settings.optional(f"rope.scaling.yarn_{name}")
    }
    if settings.architecture == "mistral3":
        rope["attention_factor"] = 1.0
    elif settings.optional("rope.scaling.yarn_attn_factor"):  # llama.cpp itself does not use it
        rope["attention_factor"] = settings.number("rope.scaling.yarn_attn_factor")
    key = "attention.temperature_scale"
    if settings.optional(key):
        rope["llama_4_scaling_beta"] = settings.number(key)
    return rope


def _longrope(
    settings: Settings, width: int, factors: Mapping[str, Sequence[float]]
) -> dict[str, Any]:
    """Return LongRoPE's settings. Files have Llama 3's scaling in this form too."""
    for name, listed in factors.items():
        if len(listed) != width // 2 or not all(0 < factor < np.inf for factor in listed):
            raise ModelError(
                f"{settings.file}: the {name} rotary factors must be {width // 2} numbers above "
                "0. The file is damaged: download it again."
            )
    return {
        "rope_type": "longrope",
        "long_factor": list(factors["long"]),
        "short_factor": list(factors["short"]),
        "attention_factor": settings.number("rope.scaling.attn_factor", 1.0),
    }


def both_ropes(settings: Settings, rope: Mapping[str, Any], theta: float) -> dict[str, Any]:
    """Return the ropes of global layers and of sliding ones, whose base is ``theta`` by default."""
    own = settings.number("rope.freq_base_swa", theta)
    near = {"rope_type": "default", "rope_theta": own}
    return {"full_attention": rope, "sliding_attention": near}


def rope_in_images(settings: Settings, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rope's settings with how positions in images rotate pairs."""
    sections = settings.optional("rope.dimension_sections")
    if not isinstance(sections, list):
        return {}
    own = {"mrope_section": sections[:3], "mrope_interleaved": True}
    return {"rope_parameters": {**config["rope_parameters"], **own}}
