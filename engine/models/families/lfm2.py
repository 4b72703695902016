"""LFM2 and 2.5: most layers are gated short convolutions (Liquid AI 2025, arXiv 2511.23404).

The MoE sizes have experts in all but the first layers.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.models.architecture import Architecture, Experts, GatedMlp, ShortConvolution
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.models.families.common import architecture, attention, experts, gated_mlp, typed_layers
from engine.models.rope import read_rope


def lfm2(checkpoint: Checkpoint, context: int) -> Architecture:
    mlp = GatedMlp(intermediate(checkpoint), "silu")
    return _convolving(checkpoint, context, [mlp] * checkpoint.layers)


def lfm2_moe(checkpoint: Checkpoint, context: int) -> Architecture:
    config = checkpoint.text_config
    mixture = experts(
        checkpoint,
        sigmoid=True,
        score_bias=bool(config.get("use_expert_bias", True)),
        renormalised=bool(config.get("norm_topk_prob", True)),
        scale=float(config.get("routed_scaling_factor", 1.0)),
    )
    dense = min(int(config.get("num_dense_layers", 2)), checkpoint.layers)
    mlps = [gated_mlp(checkpoint)] * dense
    return _convolving(checkpoint, context, [*mlps, *[mixture] * (checkpoint.layers - dense)])


def _convolving(
    checkpoint: Checkpoint, context: int, feed_forwards: Sequence[Experts | GatedMlp]
) -> Architecture:
    """Return LFM2: ``layer_types``, or in earlier files ``full_attn_idxs``, say which layers attend."""
    config = checkpoint.text_config
    attends = attention(
        checkpoint,
        read_rope(checkpoint, context, theta=config.get("rope_theta", 1e6)),
        qk_norm=True,
    )
    convolves = ShortConvolution(checkpoint.hidden, int(config.get("conv_L_cache", 3)))
    attending = config.get("full_attn_idxs")
    if attending is None:
        attending = range(checkpoint.layers)
    layers = typed_layers(
        checkpoint,
        {"conv": convolves, "full_attention": attends},
        feed_forwards,
        lambda at: "full_attention" if at in attending else "conv",
    )
    return architecture(checkpoint, layers, epsilon=float(config.get("norm_eps", 1e-5)))


def intermediate(checkpoint: Checkpoint) -> int:
    """Return how wide the MLPs are: ``block_ff_dim`` is for two matrices, of which SwiGLU has three."""
    config = checkpoint.text_config
    width = int(config.get("block_ff_dim") or config["intermediate_size"])
    if not config.get("block_auto_adjust_ff_dim", True):
        return width
    width = 2 * width // 3
    factor = config.get("block_ffn_dim_multiplier", 1.0)
    if factor is None:
        return width
    multiple = int(config.get("block_multiple_of", 256))
    return -(-int(factor * width) // multiple) * multiple
