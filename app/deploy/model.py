"""What a plan has to know of a model, taken from its config.json.

The same reader serves a folder, a GGUF file's header and the table of published models: facts have one
source. Quantised checkpoints say so themselves, by ``quantization_config``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.deploy.estimate.counting import Config, Counts, count, head_dim
from app.deploy.formats import AWQ, BF16, FP8, MXFP4, NVFP4
from engine.errors import ModelError
from engine.models.checkpoints.checkpoint import inspect, read_config
from engine.models.checkpoints.gguf.description import is_gguf

STAND_IN = "/path/to"
"""Begins the name of what engines load in place of a GGUF file: the same model as a folder, which is
wherever people have it."""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """One model. ``name`` is what an engine loads: a repository on the hub, or a folder.

    ``latent``: numbers that latent attention keeps of a token in a layer; 0 for heads. ``window`` is the
    length that ``windowed_layers`` look back; the others see everything. ``next_token_weights``: of the
    module that predicts one token more (MTP), 0 where the model has none. ``format``: of its weights.
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
    counts: Counts
    latent: int = 0
    window: int = 0
    windowed_layers: int = 0
    next_token_weights: int = 0

    @property
    def parameters(self) -> int:
        """Every weight but those of the module for the next token but one."""
        return self.counts.total

    @property
    def active_parameters(self) -> int:
        """What one token is multiplied with."""
        return self.counts.active

    @property
    def experts(self) -> int:
        """Experts in a layer; 0 for a dense model."""
        return self.counts.experts

    @property
    def cached_token(self) -> int:
        """Numbers that a token leaves in a layer's cache: keys and values of all heads, or what latent
        attention keeps in place of them."""
        return self.latent or 2 * self.kv_heads * self.head_dim


def of_config(name: str, config: Config, id: str | None = None) -> ModelFacts:
    """The facts that a config.json states. Raises ModelError where it lacks one that is needed."""
    try:
        return _of_config(name, config, id or name)
    except KeyError as error:
        raise ModelError(
            f"The configuration of {name} lacks the key {error}, without which nothing can be planned. "
            "Use the config.json that was published with the weights."
        ) from error


def of_path(path: Path) -> ModelFacts:
    """The facts of a folder or a GGUF file on disk. Raises ModelError for what is no model."""
    if is_gguf(path):
        return of_config(f"{STAND_IN}/{path.stem}", inspect(path).text_config, id=path.name)
    config = read_config(path)
    text = config.get("text_config")
    return of_config(str(path), {**config, **text} if isinstance(text, Mapping) else config)


def _of_config(name: str, config: Config, id: str) -> ModelFacts:
    counts = count(config)
    hidden, layers = config["hidden_size"], config["num_hidden_layers"]
    latent = config["kv_lora_rank"] + config["qk_rope_head_dim"] if "kv_lora_rank" in config else 0
    windowed = _windowed_layers(config)
    return ModelFacts(
        id,
        name,
        str(config["model_type"]),
        layers,
        hidden,
        config["intermediate_size"],
        config["num_attention_heads"],
        config.get("num_key_value_heads", config["num_attention_heads"]),
        head_dim(config),
        config["vocab_size"],
        config["max_position_embeddings"],
        _format(config),
        counts,
        latent,
        config.get("sliding_window") or 0 if windowed else 0,
        windowed,
        _next_token_weights(config, counts),
    )


def _windowed_layers(config: Config) -> int:
    kinds = config.get("layer_types")
    if isinstance(kinds, list):
        return sum(kind == "sliding_attention" for kind in kinds)
    return int(config["num_hidden_layers"]) // 2 if config["model_type"] == "gpt_oss" else 0


def _next_token_weights(config: Config, counts: Counts) -> int:
    """A layer, a product that joins state and embedding, and three norms, for each module
    (DeepSeek-V3, arXiv 2412.19437, section 2.2). Embedding and head are the model's own."""
    hidden = config["hidden_size"]
    module = counts.expert_layer + 2 * hidden * hidden + 3 * hidden
    return int(config.get("num_nextn_predict_layers") or 0) * int(module)


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
