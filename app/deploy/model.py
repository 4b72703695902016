"""The facts of a model that a plan needs, from its config.json.

One reader serves folders, GGUF headers and the table of published models. The weight format is read from
``quantization_config``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.deploy.estimate.counting import Config, describe
from app.deploy.formats import AWQ, BF16, FP8, MXFP4, NVFP4
from engine.errors import ModelError
from engine.models.architecture import Architecture, Recurrent
from engine.models.checkpoints.checkpoint import inspect
from engine.models.checkpoints.config_file import read_config
from engine.models.checkpoints.gguf.description import is_gguf
from engine.models.sizes.weight_counts import LayerWeights, WeightCounts
from engine.values.memory import kv_numbers

STAND_IN = "/path/to"
"""Placeholder in the path of a folder that engines load in place of a GGUF file."""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """One model. ``name`` is what an engine loads: a repository on the hub, or a folder.

    ``latent``: numbers that latent attention caches of a token in a layer; 0 for other attention.
    ``window``: the sliding window of ``windowed_layers``. ``next_token_weights``: weights of the MTP
    module, 0 if there is none. ``format``: of its weights. ``linear_layers`` keep ``state`` numbers of a
    sequence each in the place of keys and values.
    """

    id: str
    name: str
    model_type: str
    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    context: int
    format: str
    counts: WeightCounts
    architecture: Architecture
    last_layer: LayerWeights
    latent: int = 0
    window: int = 0
    windowed_layers: int = 0
    next_token_weights: int = 0
    linear_layers: int = 0
    state: int = 0

    @property
    def parameters(self) -> int:
        """All weights except those of the MTP module."""
        return self.counts.total

    @property
    def active_parameters(self) -> int:
        return self.counts.active

    @property
    def experts(self) -> int:
        return self.last_layer.experts

    @property
    def cached_token(self) -> int:
        """Numbers that a layer caches of a token: keys and values of all heads, or latent attention's."""
        return self.latent or kv_numbers(self.kv_heads, self.head_dim)


def of_config(name: str, config: Config, id: str | None = None) -> ModelFacts:
    """Return the facts in a config.json. Raises ModelError if a needed one is missing."""
    try:
        return _of_config(name, config, id or name)
    except KeyError as error:
        raise ModelError(
            f"The configuration of {name} lacks the key {error}, without which nothing can be planned. "
            "Use the config.json that was published with the weights."
        ) from error


def of_path(path: Path) -> ModelFacts:
    """Return the facts of a folder or a GGUF file. Raises ModelError if it is no model."""
    if is_gguf(path):
        return of_config(f"{STAND_IN}/{path.stem}", inspect(path).text_config, id=path.name)
    config = read_config(path)
    text = config.get("text_config")
    return of_config(str(path), {**config, **text} if isinstance(text, Mapping) else config)


def _of_config(name: str, config: Config, id: str) -> ModelFacts:
    found = describe(config)
    architecture, mixers = found.architecture, [each.mixer for each in found.architecture.layers]
    latent = config["kv_lora_rank"] + config["qk_rope_head_dim"] if "kv_lora_rank" in config else 0
    windows = [each.window for each in architecture.attentions if each.window is not None]
    states = [each.state_numbers for each in mixers if isinstance(each, Recurrent)]
    attention = architecture.attentions[-1]
    modules = config.get("num_nextn_predict_layers") or config.get("mtp_num_hidden_layers") or 0
    joined = 2 * architecture.hidden**2 + 3 * architecture.hidden
    return ModelFacts(
        id,
        name,
        str(config["model_type"]),
        len(architecture.layers),
        architecture.hidden,
        config["intermediate_size"],
        config["num_attention_heads"],
        config.get("num_key_value_heads", config["num_attention_heads"]),
        attention.head_dim if not latent else architecture.hidden // config["num_attention_heads"],
        architecture.vocabulary,
        config["max_position_embeddings"],
        _format(config),
        found.counts,
        architecture,
        found.last,
        latent,
        max(windows, default=0),
        len(windows),
        modules * (found.last.total + joined),
        len(states),
        max(states, default=0),
    )


def _format(config: Config) -> str:
    scheme: Any = config.get("quantization_config")
    if not isinstance(scheme, Mapping):
        return BF16
    text = f"{scheme.get('quant_method')} {scheme.get('quant_algo')} {scheme.get('format')}".lower()
    for mark, kind in (
        ("mxfp4", MXFP4),
        ("nvfp4", NVFP4),
        ("awq", AWQ),
        ("fp8", FP8),
        ("float-quantized", FP8),
    ):
        if mark in text:
            return kind
    raise ModelError(
        f"Weights quantised by '{scheme.get('quant_method')}' cannot be planned for. Known are fp8, AWQ, "
        "NVFP4 and MXFP4."
    )
