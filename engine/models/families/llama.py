"""Llama 2 and 3, and models with their architecture, as SmolLM2 (Touvron et al. 2023).

Seed-OSS, ERNIE 4.5 and Hunyuan differ from it by little (ByteDance 2025; Baidu 2025; Tencent 2025).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from engine.models.architecture import Architecture, LayerSpec, Rope
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.models.families.common import architecture, attention, biases, gated_mlp
from engine.models.rope import read_rope


def llama(checkpoint: Checkpoint, context: int) -> Architecture:
    """Return a decoder whose layers are all alike, with global attention and one rope."""
    return _llama(checkpoint, read_rope(checkpoint, context), **biases(checkpoint))


def seed_oss(checkpoint: Checkpoint, context: int) -> Architecture:
    config = checkpoint.text_config
    return _llama(
        checkpoint,
        read_rope(checkpoint, context),
        qkv_bias=bool(config.get("attention_bias", True)),
        output_bias=bool(config.get("attention_out_bias")),
    )


def ernie4_5(checkpoint: Checkpoint, context: int) -> Architecture:
    """Return ERNIE 4.5 without experts."""
    bias = bool(checkpoint.text_config.get("use_bias"))
    rope = replace(read_rope(checkpoint, context, theta=500_000.0), interleaved=True)
    return _llama(checkpoint, rope, mlp_bias=bias, qkv_bias=bias, output_bias=bias)


def hunyuan(checkpoint: Checkpoint, context: int) -> Architecture:
    """Return Hunyuan without experts: queries and keys are normed after the rope."""
    return _llama(
        checkpoint,
        read_rope(checkpoint, context),
        mlp_bias=False,
        qk_norm=True,
        qk_norm_after_rope=True,
        **biases(checkpoint),
    )


def _llama(
    checkpoint: Checkpoint, rope: Rope, mlp_bias: bool | None = None, **differences: Any
) -> Architecture:
    if mlp_bias is None:
        mlp_bias = bool(checkpoint.text_config.get("mlp_bias"))
    layer = LayerSpec(
        attention(checkpoint, rope, **differences), gated_mlp(checkpoint, bias=mlp_bias)
    )
    return architecture(checkpoint, [layer] * checkpoint.layers)
