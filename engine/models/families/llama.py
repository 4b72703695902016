"""Llama 2 and 3, models with their architecture, as SmolLM2 (Touvron et al. 2023), and those that
differ little: Seed-OSS, ERNIE 4.5 and Hunyuan (ByteDance, Baidu, Tencent 2025), Phi-3, 3.5 and 4
(Abdin et al. 2024), SmolLM3 (Hugging Face 2025), StarCoder 2 (BigCode 2024), Command R7B and A
(Cohere 2024, 2025), GLM-4 of April 2025 and GLM-4.5.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from engine.errors import ModelError
from engine.models.architecture import Architecture, LayerSpec, Mlp, Rope
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.models.families.common import (
    architecture,
    attending,
    attention,
    biases,
    experts,
    gated_mlp,
    sliding_layers,
    uniform,
    window_of,
)
from engine.models.rope import read_rope, rope_settings, scaling_of

_LONGROPE_NAMES = ("su", "yarn")
"""LongRoPE's names in the first configurations of Phi-3."""


def phi3(checkpoint: Checkpoint, context: int) -> Architecture:
    settings = dict(rope_settings(checkpoint.text_config))
    if scaling_of(settings) in _LONGROPE_NAMES:
        settings["rope_type"] = "longrope"
    rope, window = read_rope(checkpoint, context, settings=settings), window_of(checkpoint)
    attends = attention(checkpoint, rope, window=window, joined=True)
    return uniform(checkpoint, attends, gated_mlp(checkpoint, joined=True))


def smollm3(checkpoint: Checkpoint, context: int) -> Architecture:
    """Return SmolLM3: ``no_rope_layers`` has 1 for a layer with positions, 0 for one without."""
    config = checkpoint.text_config
    every = int(config.get("no_rope_layer_interval", 4))
    with_rope = config.get("no_rope_layers") or [
        (index + 1) % every for index in range(checkpoint.layers)
    ]
    rope = read_rope(checkpoint, context, theta=config.get("rope_theta", 2_000_000.0))
    window = window_of(checkpoint) if config.get("use_sliding_window") else None
    sliding = sliding_layers(checkpoint, lambda index: not with_rope[index])
    mlp = gated_mlp(checkpoint, bias=bool(config.get("mlp_bias")))
    places = [
        (rope if rotates else None, window if slides else None)
        for rotates, slides in zip(with_rope, sliding, strict=False)
    ]
    return architecture(checkpoint, attending(checkpoint, places, mlp, **biases(checkpoint)))


def starcoder2(checkpoint: Checkpoint, context: int) -> Architecture:
    config = checkpoint.text_config
    bias = bool(config.get("use_bias", True))
    rope, window = read_rope(checkpoint, context), window_of(checkpoint)
    activation = str(config.get("hidden_act", "gelu_pytorch_tanh"))
    return uniform(
        checkpoint,
        attention(checkpoint, rope, window=window, qkv_bias=bias, output_bias=bias),
        Mlp(int(config["intermediate_size"]), activation, bias),
        epsilon=float(config.get("norm_epsilon", 1e-5)),
        layer_norms=True,
        norm_bias=True,
    )


def cohere2(checkpoint: Checkpoint, context: int) -> Architecture:
    """Return Cohere 2: three of four layers slide, and the others have no positions."""
    config = checkpoint.text_config
    rope = replace(read_rope(checkpoint, context), interleaved=True)
    every = int(config.get("sliding_window_pattern") or 4)
    local = None if window_of(checkpoint) is None else rope, window_of(checkpoint)
    sliding = sliding_layers(checkpoint, lambda index: (index + 1) % every != 0)
    places = [local if slides else (None, None) for slides in sliding]
    return architecture(
        checkpoint,
        attending(checkpoint, places, gated_mlp(checkpoint), **biases(checkpoint)),
        epsilon=float(config.get("layer_norm_eps", 1e-5)),
        layer_norms=True,
        parallel=True,
        logit_scale=float(config.get("logit_scale", 0.0625)),
    )


def glm4(checkpoint: Checkpoint, context: int) -> Architecture:
    config = checkpoint.text_config
    interleaved = bool(config.get("rope_interleaved", True))
    rope = replace(read_rope(checkpoint, context, part=0.5), interleaved=interleaved)
    attends = attention(checkpoint, rope, qkv_bias=bool(config.get("attention_bias", True)))
    return uniform(checkpoint, attends, gated_mlp(checkpoint, joined=True), sandwich_norms=True)


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
    attends = attention(checkpoint, rope, **differences)
    return uniform(checkpoint, attends, gated_mlp(checkpoint, bias=mlp_bias))
