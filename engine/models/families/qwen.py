"""Qwen 2 and 2.5: a bias on q, k and v. Qwen 3: norms on q and k instead (Qwen Team 2024, 2025).

Qwen 3.5: most layers are gated delta nets, the others gate what they attend to (Qwen Team 2026).
"""

from __future__ import annotations

from engine.models.architecture import Architecture, Attention, GatedDeltaNet, LayerSpec
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.models.families.common import (
    architecture,
    attention,
    gated_mlp,
    layer_types,
    sliding_layers,
    window_of,
)
from engine.models.rope import read_rope


def qwen2(checkpoint: Checkpoint, context: int) -> Architecture:
    return architecture(checkpoint, _layers(checkpoint, context, qkv_bias=True))


def qwen3(checkpoint: Checkpoint, context: int) -> Architecture:
    bias = bool(checkpoint.text_config.get("attention_bias"))
    layers = _layers(checkpoint, context, qk_norm=True, qkv_bias=bias, output_bias=bias)
    return architecture(checkpoint, layers)


def _layers(checkpoint: Checkpoint, context: int, **differences: bool) -> list[LayerSpec]:
    """Return the layers: with ``use_sliding_window``, those from ``max_window_layers`` on slide."""
    config = checkpoint.text_config
    rope = read_rope(checkpoint, context)
    window = window_of(checkpoint) if config.get("use_sliding_window") else None
    first = int(config.get("max_window_layers", 28))
    sliding = sliding_layers(checkpoint, lambda index: index >= first)
    mlp = gated_mlp(checkpoint)
    return [
        LayerSpec(
            attention(checkpoint, rope, window=window if slides else None, **differences), mlp
        )
        for slides in sliding
    ]


def qwen3_5(checkpoint: Checkpoint, context: int) -> Architecture:
    """Every fourth layer attends, unless ``layer_types`` says otherwise. All norms multiply by 1 + w
    but those inside the delta nets. Positions of text are the same in the three parts of its rope."""
    config = checkpoint.text_config
    bias = bool(config.get("attention_bias"))
    attends = attention(
        checkpoint,
        read_rope(checkpoint, context, part=0.25),
        qk_norm=True,
        qkv_bias=bias,
        output_bias=bias,
        output_gate=True,
    )
    recurs = GatedDeltaNet(
        key_heads=int(config["linear_num_key_heads"]),
        value_heads=int(config["linear_num_value_heads"]),
        key_dim=int(config["linear_key_head_dim"]),
        value_dim=int(config["linear_value_head_dim"]),
        kernel=int(config["linear_conv_kernel_dim"]),
        tiled=bool(config.get("linear_value_heads_tiled")),
    )
    every = int(config.get("full_attention_interval") or 4)
    types = layer_types(
        checkpoint,
        ("linear_attention", "full_attention"),
        lambda index: "full_attention" if (index + 1) % every == 0 else "linear_attention",
    )
    mlp = gated_mlp(checkpoint)
    mixers: dict[str, Attention | GatedDeltaNet] = {
        "linear_attention": recurs,
        "full_attention": attends,
    }
    layers = [LayerSpec(mixers[name], mlp) for name in types]
    return architecture(checkpoint, layers, centred_norms=True)
