"""Decoder layers of a head's own, as its config.json and its tensors' shapes describe them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.drafting.heads.stored import Stored
from engine.errors import ModelError
from engine.models.architecture import Architecture, Attention, GatedMlp, LayerSpec
from engine.models.rope import read_rope

_EPSILON = 1e-6


@dataclass(frozen=True, slots=True)
class _Positions:
    """What ``read_rope`` asks for."""

    path: Path
    text_config: Mapping[str, Any]
    context: int
    head_dim: int


def read_layers(
    stored: Stored,
    prefix: str,
    *,
    count: int,
    hidden: int,
    vocabulary: int,
    qk_norm: bool,
    heads: int | None = None,
    context: int | None = None,
) -> Architecture:
    """``count`` layers like the one under ``prefix``, whose widths are those of its tensors.

    ``heads`` and ``context`` are taken where the configuration leaves them out. Raises ModelError.
    """
    config, attention = stored.config, f"{prefix}self_attn."
    heads = stored.size("num_attention_heads", heads)
    queries, keys = (stored.matrix(f"{attention}{name}_proj.weight")[0] for name in "qk")
    head_dim = stored.size("head_dim") if config.get("head_dim") is not None else queries // heads
    if head_dim * heads != queries or not head_dim or keys % head_dim or head_dim % 2:
        raise ModelError(
            f"In {stored.folder}, {attention}q_proj.weight gives {queries:,} numbers and k_proj "
            f"{keys:,}, which are not {heads} heads of {head_dim} and some more. Use the config.json "
            "that was published with the head."
        )
    longest = stored.size("max_position_embeddings", context)
    rope = read_rope(_Positions(stored.folder, config, longest, head_dim), longest)
    biased = bool(config.get("attention_bias", False))
    layer = LayerSpec(
        Attention(
            heads=heads,
            kv_heads=keys // head_dim,
            head_dim=head_dim,
            query_scale=head_dim**-0.5,
            rope=rope,
            qkv_bias=biased,
            output_bias=biased,
            qk_norm=qk_norm,
        ),
        GatedMlp(
            intermediate=stored.matrix(f"{prefix}mlp.gate_proj.weight")[0],
            activation=str(config.get("hidden_act", "silu")),
            bias=bool(config.get("mlp_bias", False)),
        ),
    )
    return Architecture(
        layers=(layer,) * count,
        vocabulary=vocabulary,
        hidden=hidden,
        epsilon=float(config.get("rms_norm_eps", _EPSILON)),
        tied=False,
    )
