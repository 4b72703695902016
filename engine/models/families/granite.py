"""Granite 3 and 4, and MiniCPM: Llama with multipliers (IBM 2024, 2025; OpenBMB 2024).

Most layers of Granite 4's hybrids are Mamba-2, and the others have no positions.
"""

from __future__ import annotations

import math
from dataclasses import replace

from engine.errors import ModelError
from engine.models.architecture import (
    Architecture,
    Attention,
    Experts,
    GatedMlp,
    LayerSpec,
    Mamba2,
    Mixer,
    Rope,
)
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.models.families.common import (
    architecture,
    attention,
    biases,
    experts,
    gated_mlp,
    layer_types,
)
from engine.models.families.llama import llama
from engine.models.rope import read_rope

_UNBOUNDED = (None, [0.0, math.inf], [0.0, {"__float__": "Infinity"}])
"""Values of time_step_limit that change nothing; transformers 5 writes infinity as an object."""


def granite(checkpoint: Checkpoint, context: int) -> Architecture:
    config = checkpoint.text_config
    mlp = gated_mlp(checkpoint, bias=bool(config.get("mlp_bias")))
    rotates = config.get("position_embedding_type", "rope") == "rope"
    attends = _attention(checkpoint, read_rope(checkpoint, context) if rotates else None)
    return _granite(checkpoint, [LayerSpec(attends, mlp)] * checkpoint.layers)


def granite_hybrid(checkpoint: Checkpoint, context: int) -> Architecture:
    """Return Granite 4: ``layer_types`` say which layers are Mamba-2; some models have experts."""
    config = checkpoint.text_config
    rotates = config.get("position_embedding_type") == "rope"
    attends = _attention(checkpoint, read_rope(checkpoint, context) if rotates else None)
    mixers: dict[str, Mixer] = dict.fromkeys(("attention", "full_attention"), attends)
    names = layer_types(
        checkpoint, (*mixers, "mamba", "linear_attention"), lambda _: "linear_attention"
    )
    if set(names) - set(mixers):
        mixers |= dict.fromkeys(("mamba", "linear_attention"), _mamba2(checkpoint))
    width = int(config["shared_intermediate_size"])
    mlp: Experts | GatedMlp = gated_mlp(checkpoint, intermediate=width)
    if config.get("num_local_experts"):
        mlp = experts(checkpoint, renormalised=True, shared=width or None)
    return _granite(checkpoint, [LayerSpec(mixers[name], mlp) for name in names])


def _attention(checkpoint: Checkpoint, rope: Rope | None) -> Attention:
    scale = float(checkpoint.text_config.get("attention_multiplier", 1))
    return attention(checkpoint, rope, query_scale=scale, **biases(checkpoint))


def _mamba2(checkpoint: Checkpoint) -> Mamba2:
    config = checkpoint.text_config
    heads = int(config["mamba_n_heads"])
    head_dim = config.get("mamba_d_head", "auto")
    if head_dim == "auto":
        head_dim = int(config.get("mamba_expand", 2)) * checkpoint.hidden // heads
    if config.get("time_step_limit") not in _UNBOUNDED:
        raise ModelError(
            f"{checkpoint.config_file} limits the steps of its Mamba-2 layers "
            f"(time_step_limit), which is not supported. {checkpoint.config_remedy}"
        )
    return Mamba2(
        heads=heads,
        head_dim=int(head_dim),
        groups=int(config.get("mamba_n_groups", 1)),
        state=int(config["mamba_d_state"]),
        kernel=int(config.get("mamba_d_conv", 4)),
    )


def _granite(checkpoint: Checkpoint, layers: list[LayerSpec]) -> Architecture:
    config = checkpoint.text_config
    return architecture(
        checkpoint,
        layers,
        embedding_scale=float(config.get("embedding_multiplier", 1)),
        residual_scale=float(config.get("residual_multiplier", 1)),
        logit_scale=1 / float(config.get("logits_scaling", 1)),
    )


def minicpm(checkpoint: Checkpoint, context: int) -> Architecture:
    """Return MiniCPM 1, 2 and 4. Raise ModelError if its attention is sparse."""
    config = checkpoint.text_config
    if config.get("sparse_config"):
        raise ModelError(
            f"{checkpoint.path} has sparse attention (sparse_config), which is not "
            "supported. Remove the setting to use full attention."
        )
    return replace(
        llama(checkpoint, context),
        embedding_scale=float(config.get("scale_emb", 1)),
        residual_scale=float(config.get("scale_depth", 1)) / checkpoint.layers**0.5,
        logit_scale=float(config.get("dim_model_base", 1)) / checkpoint.hidden,
    )
