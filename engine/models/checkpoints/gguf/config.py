"""A GGUF file's metadata -> the config.json that transformers would have for the same model.

Families read that, and so know nothing of where it came from. What llama.cpp has built in rather than
in the file (Gemma's windows and scales, SmolLM3's layers without positions) stands here with its source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from engine.errors import ModelError
from engine.models.checkpoints.gguf.names import check_architecture

_CLASSES = {
    "llama": ("LlamaForCausalLM", "llama"),
    "qwen2": ("Qwen2ForCausalLM", "qwen2"),
    "qwen3": ("Qwen3ForCausalLM", "qwen3"),
    "smollm3": ("SmolLM3ForCausalLM", "smollm3"),
    "gemma2": ("Gemma2ForCausalLM", "gemma2"),
    "gemma3": ("Gemma3ForCausalLM", "gemma3_text"),
    "phi3": ("Phi3ForCausalLM", "phi3"),
}
"""Transformers' class and ``model_type`` of each architecture."""
_SMOLLM3_EVERY = 4
"""One layer in so many knows no positions (llama.cpp's smollm3.cpp)."""
_SLIDING_EVERY = {"gemma2": 2, "gemma3": 6}
"""One layer in so many sees the whole past, where the file does not say (llama.cpp's gemma*.cpp)."""
_WINDOWS = {"gemma2": 4096}
_NEAR_THETA = 10_000.0
"""Of Gemma 3's sliding layers."""
_LARGEST_GEMMAS = {"gemma2": 46, "gemma3": 62}
"""Layers of the 27B: there queries are scaled by the width of a head had it hidden / heads numbers."""


class Settings:
    """The metadata of one model, by keys behind its architecture's name; raises ModelError."""

    def __init__(self, file: Path, metadata: Mapping[str, Any]) -> None:
        self.file, self.metadata = file, metadata
        self.architecture = check_architecture(file, metadata.get("general.architecture"))

    def size(self, key: str, default: int | None = None) -> int:
        """A whole number above 0."""
        value = self._value(key, default)
        if isinstance(value, list) and value and value.count(value[0]) == len(value):
            value = value[0]
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
        raise self.wrong(key, value, "a whole number above 0, the same in all layers")

    def number(self, key: str, default: float | None = None) -> float:
        """A number above 0, as somebody wrote it in decimals: 1e-06, not 9.999999974752427e-07."""
        value = self._value(key, default)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < np.inf:
            return float(str(np.float32(value)))
        raise self.wrong(key, value, "a number above 0")

    def optional(self, key: str) -> Any:
        return self.metadata.get(f"{self.architecture}.{key}")

    def wrong(self, key: str, value: object, expected: str) -> ModelError:
        return ModelError(
            f"{self.file}: {self.architecture}.{key} is {value!r}; it must be {expected}. The file is "
            "damaged or of another kind than it says: download it again."
        )

    def _value(self, key: str, default: Any) -> Any:
        found = self.optional(key)
        if found is None:
            found = default
        if found is None:
            raise ModelError(
                f"{self.file} lacks {self.architecture}.{key}, without which nobody knows how to run the "
                "weights. Download it again, or convert it again with llama.cpp's converter."
            )
        return found


def config_from(
    settings: Settings, tensors: frozenset[str], factors: Mapping[str, Sequence[float]]
) -> dict[str, Any]:
    """``tensors``: transformers' names. ``factors``: what divides rotary frequencies, ``long`` and
    ``short``; empty where nothing does."""
    architecture = settings.architecture
    experts = settings.optional("expert_count")
    if experts:
        raise ModelError(
            f"{settings.file} has {experts} experts in each layer, which are not run from GGUF here. Use "
            "the model's safetensors repository."
        )
    name, model_type = _CLASSES[architecture]
    hidden, heads = settings.size("embedding_length"), settings.size("attention.head_count")
    head_dim = settings.size("attention.key_length", max(hidden // heads, 1))
    if settings.size("attention.value_length", head_dim) != head_dim:
        raise settings.wrong(
            "attention.value_length", settings.optional("attention.value_length"), str(head_dim)
        )
    config: dict[str, Any] = {
        "architectures": [name],
        "model_type": model_type,
        "hidden_size": hidden,
        "intermediate_size": settings.size("feed_forward_length"),
        "num_hidden_layers": settings.size("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": settings.size("attention.head_count_kv", heads),
        "head_dim": head_dim,
        "max_position_embeddings": settings.size("context_length"),
        "rms_norm_eps": settings.number("attention.layer_norm_rms_epsilon"),
        "tie_word_embeddings": "lm_head.weight" not in tensors,
        "attention_bias": "model.layers.0.self_attn.q_proj.bias" in tensors,
        "mlp_bias": "model.layers.0.mlp.gate_proj.bias" in tensors,
        "rope_parameters": _rope(settings, head_dim, factors),
    }
    return config | _own(settings, config)


def _own(settings: Settings, config: Mapping[str, Any]) -> dict[str, Any]:
    """What only one family has."""
    match settings.architecture:
        case "smollm3":
            return {"no_rope_layer_interval": _SMOLLM3_EVERY}
        case "phi3":
            return {"sliding_window": _window(settings)}
        case "gemma2" | "gemma3":
            return _gemma(settings, config)
    return {}


def _gemma(settings: Settings, config: Mapping[str, Any]) -> dict[str, Any]:
    architecture, layers = settings.architecture, int(config["num_hidden_layers"])
    head_dim = config["head_dim"]
    if layers == _LARGEST_GEMMAS[architecture]:
        head_dim = config["hidden_size"] // config["num_attention_heads"]
    own: dict[str, Any] = {"query_pre_attn_scalar": head_dim}
    window = _window(settings) or _WINDOWS.get(architecture)
    slides = [bool(window) and kind for kind in _sliding(settings, layers)]
    own["sliding_window"] = window
    own["layer_types"] = ["sliding_attention" if kind else "full_attention" for kind in slides]
    for key in ("attn_logit_softcapping", "final_logit_softcapping"):
        if settings.optional(key):
            own[key] = settings.number(key)
    if architecture == "gemma3":
        near = settings.number("rope.freq_base_swa", _NEAR_THETA)
        own["rope_parameters"] = {
            "full_attention": config["rope_parameters"],
            "sliding_attention": {"rope_type": "default", "rope_theta": near},
        }
    return own


def _window(settings: Settings) -> int | None:
    """Positions that sliding layers see; files that have no such layers say 0, or nothing."""
    key = "attention.sliding_window"
    return settings.size(key) if settings.optional(key) else None


def _sliding(settings: Settings, layers: int) -> list[bool]:
    """Which layers slide: as the file says, layer by layer or by a period, or as llama.cpp has it."""
    key = "attention.sliding_window_pattern"
    found = settings.optional(key)
    if isinstance(found, list):
        if len(found) != layers:
            raise settings.wrong(key, f"a list of {len(found)}", f"a list of {layers}")
        return [bool(kind) for kind in found]
    every = settings.size(key, _SLIDING_EVERY[settings.architecture])
    return [(index + 1) % every != 0 for index in range(layers)]


def _rope(
    settings: Settings, head_dim: int, factors: Mapping[str, Sequence[float]]
) -> dict[str, Any]:
    rope: dict[str, Any] = {
        "rope_type": "default",
        "rope_theta": settings.number("rope.freq_base", 10_000.0),
    }
    width = settings.size("rope.dimension_count", head_dim)
    if width != head_dim:
        if settings.architecture != "phi3" or width > head_dim or width % 2:
            raise settings.wrong("rope.dimension_count", width, str(head_dim))
        rope["partial_rotary_factor"] = width / head_dim
    kind = settings.optional("rope.scaling.type") or "none"
    original = settings.optional("rope.scaling.original_context_length")
    if original:
        rope["original_max_position_embeddings"] = settings.size(
            "rope.scaling.original_context_length"
        )
    if factors:
        return rope | _stretched(settings, width, factors)
    if kind == "none" and settings.optional(
        "rope.scale_linear"
    ):  # what came before the scaling's type
        return rope | {"rope_type": "linear", "factor": settings.number("rope.scale_linear")}
    if kind in ("linear", "yarn"):
        return rope | {"rope_type": kind, "factor": settings.number("rope.scaling.factor")}
    if kind != "none":
        raise settings.wrong("rope.scaling.type", kind, "none, linear, yarn, or come with factors")
    return rope


def _stretched(
    settings: Settings, width: int, factors: Mapping[str, Sequence[float]]
) -> dict[str, Any]:
    """LongRoPE, and Llama 3's scaling, of which a file holds what comes out: a factor for each pair."""
    for name, listed in factors.items():
        if len(listed) != width // 2 or not all(0 < factor < np.inf for factor in listed):
            raise ModelError(
                f"{settings.file}: the tensor of {name} rotary factors must hold {width // 2} numbers "
                "above 0. The file is damaged: download it again."
            )
    return {
        "rope_type": "longrope",
        "long_factor": list(factors["long"]),
        "short_factor": list(factors["short"]),
        "attention_factor": settings.number("rope.scaling.attn_factor", 1.0),
    }
