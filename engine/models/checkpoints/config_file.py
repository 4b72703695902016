"""Read a folder's config.json, or say what the folder holds instead. Torch-free and quick to import."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.errors import ModelError
from engine.models.checkpoints.weight_files import read_json
from engine.values import shown

_MAMBA, _MAMBA_2 = "Mamba layers", "its own kind of Mamba-2 layers"
_MIXER_ALONE = "Mamba-2 layers without a feed-forward"
_RECURRENT = "its own kind of recurrent layers"
_LAYERS: Mapping[str, str] = {
    **dict.fromkeys(("mamba", "falcon_mamba", "jamba", "zamba", "plamo2"), _MAMBA),
    **dict.fromkeys(("mamba2", "nemotron_h", "nemotron_h_moe"), _MIXER_ALONE),
    "bamba": _MAMBA_2,
    "falcon_h1": "Mamba-2 and attention in parallel within a layer",
    "zamba2": "Mamba-2 layers that share attention",
    **dict.fromkeys(("rwkv", "rwkv6", "rwkv7", "rwkv6qwen2", "arwkv7", "xlstm"), _RECURRENT),
    **dict.fromkeys(("recurrent_gemma", "olmo_hybrid", "bailing_hybrid", "zaya"), _RECURRENT),
    "minimax": "lightning attention",
    "kimi_k2": "latent attention of a type that transformers does not know",
    "kimi_linear": "Kimi delta attention and latent attention",
    "deepseek_v4": "compressed attention",
    "glm_dsa": "latent attention with an indexer",
}
"""What models have that this engine does not compute, by ``model_type`` or a GGUF file's architecture."""
_KEYS: Mapping[str, str] = {
    "index_topk": "latent attention with an indexer",
    "linear_attn_config": _RECURRENT,
    "hybrid_override_pattern": _MAMBA_2,
    "ssm_state_size": _MAMBA_2,
    "mamba_d_state": _MAMBA_2,
}
"""The same by keys that only configurations with such layers have, the first that is there."""
_LAYER_TYPES = {"linear_attention", "mamba", "mamba2", "recurrent", "conv"}
"""Values of ``layer_types`` for layers that keep a state instead of keys and values."""
MOST_LAYERS = 10_000
"""More than any model has: a list of what a damaged configuration says would fill the memory."""
_ROTATES_HEAD_DIM = ("deepseek_v2", "deepseek_v3")
"""Model types whose latent attention has ``head_dim`` rotated numbers; transformers computes it."""
HYBRIDS = frozenset(
    {
        "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_next", "lfm2", "lfm2_moe",
        "granitemoehybrid",
    }
)  # fmt: skip
"""Model types with such layers that a family describes (models/families)."""


def check_computable(file: Path, config: Mapping[str, Any]) -> None:
    """Raise ModelError for a model with layers that cannot be run here, before its sizes are read."""
    kind = config.get("model_type")
    if not isinstance(kind, str | None):
        raise ModelError(
            f"{file}: key 'model_type' is {shown(kind)}; it must be text. Use the config.json that was "
            "published with the weights."
        )
    if kind in HYBRIDS:
        return
    found = uncomputed(kind) or next((what for key, what in _KEYS.items() if config.get(key)), None)
    layers = {
        each
        for key in ("layer_types", "layers_block_type")
        if isinstance(listed := config.get(key), list)
        for each in listed
        if isinstance(each, str)
    }
    if found or layers & _LAYER_TYPES:
        raise ModelError(refusal(kind or file.parent.name, found or _RECURRENT))
    widths = [config.get(key) for key in ("head_dim", "qk_rope_head_dim")]
    if kind in _ROTATES_HEAD_DIM and None not in widths and widths[0] != widths[1]:
        raise ModelError(
            f"{file} says head_dim {widths[0]} and qk_rope_head_dim {widths[1]}, which must "
            f"be equal for {kind}. Use the config.json that was published with the weights."
        )


def uncomputed(kind: object) -> str | None:
    """Return the layers of models of a ``model_type`` or architecture that are not computed here."""
    return _LAYERS.get(str(kind).replace("-", "_"))


def refusal(name: object, layers: str = _RECURRENT) -> str:
    """Return the message for a model with ``layers``."""
    return (
        f"{name} has {layers}, which is not supported. Choose a model with "
        "grouped-query attention, or Qwen3.5, LFM2 or Granite 4, whose recurrent "
        "layers are supported."
    )


def read_config(folder: Path) -> dict[str, Any]:
    """Return config.json. Raises ModelError that says what the folder holds instead."""
    if not os.path.isdir(folder):  # also one that cannot be looked up
        raise ModelError(f"There is no folder {folder}. Check the path, or download the model.")
    file = folder / "config.json"
    if not file.is_file():
        raise ModelError(
            f"{folder} is not a model: it has no config.json. {_instead_of_config(folder)}"
        )
    return read_json(file)


def _instead_of_config(folder: Path) -> str:
    if (folder / "adapter_config.json").is_file():
        return "It holds a PEFT adapter. Merge it into its base model and give the merged folder."
    files = sorted(file.name for file in folder.glob("*.gguf"))
    if files:
        return f"It holds GGUF files. Give one of them ({', '.join(files[:4])})."
    inside = sorted(child.name for child in folder.iterdir() if (child / "config.json").is_file())
    if inside:
        return f"Did you mean a folder inside it ({', '.join(inside[:4])})?"
    return "Give a folder in transformers layout: config.json, tokenizer.json, model.safetensors."
