"""Granite 3 and 4 without recurrence, and MiniCPM: Llama with multipliers (IBM 2024; OpenBMB 2024)."""

from __future__ import annotations

from dataclasses import replace

from engine.errors import ModelError
from engine.models.architecture import Architecture, LayerSpec
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.models.families.common import architecture, attention, gated_mlp
from engine.models.families.llama import llama
from engine.models.rope import read_rope


def granite(checkpoint: Checkpoint, context: int) -> Architecture:
    config = checkpoint.text_config
    bias = bool(config.get("attention_bias"))
    layer = LayerSpec(
        attention(
            checkpoint,
            read_rope(checkpoint, context),
            query_scale=float(config.get("attention_multiplier", 1)),
            qkv_bias=bias,
            output_bias=bias,
        ),
        gated_mlp(checkpoint, bias=bool(config.get("mlp_bias"))),
    )
    return architecture(
        checkpoint,
        [layer] * checkpoint.layers,
        embedding_scale=float(config.get("embedding_multiplier", 1)),
        residual_scale=float(config.get("residual_multiplier", 1)),
        logit_scale=1 / float(config.get("logits_scaling", 1)),
    )


def minicpm(checkpoint: Checkpoint, context: int) -> Architecture:
    """Return MiniCPM 1, 2 and 4. Raise ModelError if its attention is sparse."""
    config = checkpoint.text_config
    if config.get("sparse_config"):
        raise ModelError(
            f"{checkpoint.path} attends to parts of the text only (its setting sparse_config), which "
            "is not computed here. Remove the setting: the model then attends to all of it."
        )
    return replace(
        llama(checkpoint, context),
        embedding_scale=float(config.get("scale_emb", 1)),
        residual_scale=float(config.get("scale_depth", 1)) / checkpoint.layers**0.5,
        logit_scale=float(config.get("dim_model_base", 1)) / checkpoint.hidden,
    )
