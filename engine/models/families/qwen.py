"""Qwen 2 and 2.5: a bias on q, k and v. Qwen 3: norms on q and k instead (Qwen Team 2024, 2025).

Qwen 3-Next and 3.5: most layers are gated delta nets, the others gate what they attend to (2025, 2026).
All three also have experts in some sizes, the last two with a shared one.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.models.architecture import (
    Architecture,
    Experts,
    GatedDeltaNet,
    GatedMlp,
    LayerSpec,
)
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.models.families.common import (
    architecture,
    attention,
    biases,
    experts,
    gated_mlp,
    sliding_layers,
    sparse_layers,
    typed_layers,
    window_of,
)
from engine.models.rope import read_rope


def qwen2(checkpoint: Checkpoint, context: int) -> Architecture:
    return _qwen(checkpoint, context, [gated_mlp(checkpoint)] * checkpoint.layers, qkv_bias=True)


def qwen3(checkpoint: Checkpoint, context: int) -> Architecture:
    return _qwen3(checkpoint, context, [gated_mlp(checkpoint)] * checkpoint.layers)


def qwen3_moe(checkpoint: Checkpoint, context: int) -> Architecture:
    return _qwen3(checkpoint, context, sparse_layers(checkpoint, experts(checkpoint)))


def _qwen3(
    checkpoint: Checkpoint, context: int, feed_forwards: Sequence[Experts | GatedMlp]
) -> Architecture:
    return _qwen(checkpoint, context, feed_forwards, qk_norm=True, **biases(checkpoint))


def _qwen(
    checkpoint: Checkpoint,
    context: int,
    feed_forwards: Sequence[Experts | GatedMlp],
    **differences: bool,
) -> Architecture:
    """Return a Qwen: with ``use_sliding_window``, its layers from ``max_window_layers`` on slide."""
    config = checkpoint.text_config
    rope = read_rope(checkpoint, context)
    window = window_of(checkpoint) if config.get("use_sliding_window") else None
    first = int(config.get("max_window_layers", 28))
    sliding = sliding_layers(checkpoint, lambda index: index >= first)
    layers = [
        LayerSpec(
            attention(checkpoint, rope, window=window if slides else None, **differences), each
        )
        for slides, each in zip(sliding, feed_forwards, strict=True)
    ]
    return architecture(checkpoint, layers)


def qwen3_5(checkpoint: Checkpoint, context: int) -> Architecture:
    return _hybrid(checkpoint, context, [gated_mlp(checkpoint)] * checkpoint.layers)


def qwen3_5_moe(checkpoint: Checkpoint, context: int) -> Architecture:
    mixture = _with_shared(checkpoint, renormalised=True)
    return _hybrid(checkpoint, context, [mixture] * checkpoint.layers)


def qwen3_next(checkpoint: Checkpoint, context: int) -> Architecture:
    mixture = _with_shared(checkpoint)
    return _hybrid(checkpoint, context, sparse_layers(checkpoint, mixture))


def _with_shared(checkpoint: Checkpoint, **differences: bool) -> Experts:
    width = int(checkpoint.text_config["shared_expert_intermediate_size"])
    return experts(checkpoint, shared=width, shared_gate=True, **differences)


def _hybrid(
    checkpoint: Checkpoint, context: int, feed_forwards: Sequence[Experts | GatedMlp]
) -> Architecture:
    """Every fourth layer attends, unless ``layer_types`` says otherwise. All norms multiply by 1 + w
    but those inside the delta nets. Positions of text are the same in the three parts of its rope."""
    config = checkpoint.text_config
    rope = read_rope(checkpoint, context, part=0.25)
    attends = attention(checkpoint, rope, qk_norm=True, output_gate=True, **biases(checkpoint))
    recurs = GatedDeltaNet(
        key_heads=int(config["linear_num_key_heads"]),
        value_heads=int(config["linear_num_value_heads"]),
        key_dim=int(config["linear_key_head_dim"]),
        value_dim=int(config["linear_value_head_dim"]),
        kernel=int(config["linear_conv_kernel_dim"]),
        tiled=bool(config.get("linear_value_heads_tiled")),
    )
    every = int(config.get("full_attention_interval") or 4)
    layers = typed_layers(
        checkpoint,
        {"linear_attention": recurs, "full_attention": attends},
        feed_forwards,
        lambda index: "full_attention" if (index + 1) % every == 0 else "linear_attention",
    )
    return architecture(checkpoint, layers, centred_norms=True)
