"""StarCoder 2: LayerNorms, an MLP without gate, and biases throughout (BigCode 2024)."""

from __future__ import annotations

from engine.models.architecture import Architecture, LayerSpec, Mlp
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.models.families.common import architecture, attention, window_of
from engine.models.rope import read_rope


def starcoder2(checkpoint: Checkpoint, context: int) -> Architecture:
    config = checkpoint.text_config
    bias = bool(config.get("use_bias", True))
    layer = LayerSpec(
        attention(
            checkpoint,
            read_rope(checkpoint, context),
            window=window_of(checkpoint),
            qkv_bias=bias,
            output_bias=bias,
        ),
        Mlp(
            int(config["intermediate_size"]),
            str(config.get("hidden_act", "gelu_pytorch_tanh")),
            bias,
        ),
    )
    return architecture(
        checkpoint,
        [layer] * checkpoint.layers,
        epsilon=float(config.get("norm_epsilon", 1e-5)),
        layer_norms=True,
        norm_bias=True,
    )
