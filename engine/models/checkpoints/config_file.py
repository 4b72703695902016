"""Read a folder's config.json, or say what the folder holds instead. Torch-free and quick to import."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.errors import ModelError
from engine.models.checkpoints.weight_files import read_json

_RECURRENT = {"linear_attention", "mamba", "mamba2", "recurrent"}
"""Values of ``layer_types`` for layers that keep a state instead of keys and values."""
_RECURRENT_KEYS = (
    "linear_attn_config",
    "hybrid_override_pattern",
    "ssm_state_size",
    "mamba_d_state",
)
"""Keys that only configurations with such layers have."""


HYBRIDS = frozenset({"qwen3_5", "qwen3_5_text"})
"""Model types with such layers that a family describes (models/families)."""


def check_computable(file: Path, config: Mapping[str, Any]) -> None:
    """Raise ModelError for a model with layers that cannot be run here, before its sizes are read."""
    if config.get("model_type") in HYBRIDS:
        return
    layers = {
        each
        for key in ("layer_types", "layers_block_type")
        if isinstance(listed := config.get(key), list)
        for each in listed
        if isinstance(each, str)
    }
    if layers & _RECURRENT or any(config.get(key) for key in _RECURRENT_KEYS):
        raise ModelError(recurrent(config.get("model_type") or file.parent.name))


def recurrent(name: str) -> str:
    """Return the message for a model with recurrent layers."""
    return (
        f"{name} has recurrent layers of a kind that is not computed here; only Qwen3.5's are. Choose "
        "Qwen3.5, or a model with attention alone."
    )


def read_config(folder: Path) -> dict[str, Any]:
    """Return config.json. Raises ModelError that says what the folder holds instead."""
    if not folder.exists():
        raise ModelError(f"There is no folder {folder}. Check the path, or download the model.")
    if not folder.is_dir():
        raise ModelError(
            f"{folder} is a file. Give the folder that holds config.json and model.safetensors, or a "
            "GGUF file."
        )
    file = folder / "config.json"
    if not file.is_file():
        raise ModelError(
            f"{folder} is no model: it has no config.json. {_instead_of_config(folder)}"
        )
    return read_json(file)


def _instead_of_config(folder: Path) -> str:
    if (folder / "adapter_config.json").is_file():
        return "It holds a PEFT adapter: merge it into its base model and give the merged folder."
    files = sorted(file.name for file in folder.glob("*.gguf"))
    if files:
        return f"It holds GGUF files: give one of them ({', '.join(files[:4])})."
    inside = sorted(child.name for child in folder.iterdir() if (child / "config.json").is_file())
    if inside:
        return f"Did you mean a folder inside it ({', '.join(inside[:4])})?"
    return "Give a folder in transformers' layout: config.json, tokenizer.json, model.safetensors."
