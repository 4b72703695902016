"""GLM-4 of April 2025: norms on both sides, and half of each head rotated (Zhipu AI 2025)."""

from __future__ import annotations

from dataclasses import replace

from engine.models.architecture import Architecture, LayerSpec
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.models.families.common import architecture, attention, gated_mlp
from engine.models.rope import read_rope


def glm4(checkpoint: Checkpoint, context: int) -> Architecture:
    rope = replace(read_rope(checkpoint, context, part=0.5), interleaved=True)
    bias = bool(checkpoint.text_config.get("attention_bias", True))
    layer = LayerSpec(
        attention(checkpoint, rope, qkv_bias=bias), gated_mlp(checkpoint, joined=True)
    )
    return architecture(checkpoint, [layer] * checkpoint.layers, sandwich_norms=True)
