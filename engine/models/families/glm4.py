"""GLM-4 of April 2025: norms on both sides, half of each head rotated. GLM-4.5: experts (2025)."""

from __future__ import annotations

from dataclasses import replace

from engine.errors import ModelError
from engine.models.architecture import Architecture, LayerSpec
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.models.families.common import architecture, attention, experts, gated_mlp
from engine.models.rope import read_rope


def glm4(checkpoint: Checkpoint, context: int) -> Architecture:
    config = checkpoint.text_config
    interleaved = bool(config.get("rope_interleaved", True))
    rope = replace(read_rope(checkpoint, context, part=0.5), interleaved=interleaved)
    bias = bool(config.get("attention_bias", True))
    layer = LayerSpec(
        attention(checkpoint, rope, qkv_bias=bias), gated_mlp(checkpoint, joined=True)
    )
    return architecture(checkpoint, [layer] * checkpoint.layers, sandwich_norms=True)


def glm4_moe(checkpoint: Checkpoint, context: int) -> Architecture:
    """Return GLM-4.5, 4.5-Air and on: the first ``first_k_dense_replace`` layers have no experts."""
    config = checkpoint.text_config
    if int(config.get("n_group") or 1) > 1:
        raise ModelError(
            f"{checkpoint.path} chooses groups of experts first (n_group), which is not "
            "supported. Use a GLM with one group, like the published ones."
        )
    width = int(config["moe_intermediate_size"])
    mixture = experts(
        checkpoint,
        count=int(config["n_routed_experts"]),
        sigmoid=True,
        score_bias=True,
        renormalised=bool(config.get("norm_topk_prob", True)),
        scale=float(config.get("routed_scaling_factor", 1.0)),
        shared=width * int(config.get("n_shared_experts", 1)),
    )
    attends = attention(
        checkpoint,
        read_rope(checkpoint, context, part=0.5),
        qk_norm=bool(config.get("use_qk_norm")),
        qkv_bias=bool(config.get("attention_bias")),
    )
    dense = int(config.get("first_k_dense_replace", 1))
    layers = [
        LayerSpec(attends, gated_mlp(checkpoint) if index < dense else mixture)
        for index in range(checkpoint.layers)
    ]
    return architecture(checkpoint, layers)
