"""Helpers of the families' readers: sizes, sliding layers and windows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from engine.errors import ModelError
from engine.models.architecture import (
    Architecture,
    Attention,
    Experts,
    GatedMlp,
    LayerSpec,
    Mixer,
    Mlp,
    Rope,
)
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.models.rope import read_rope, rope_settings


def architecture(
    checkpoint: Checkpoint, layers: Sequence[LayerSpec], **differences: Any
) -> Architecture:
    """Return a decoder of the checkpoint's sizes; ``differences`` replace its fields."""
    fields: dict[str, Any] = {
        "vocabulary": checkpoint.vocabulary,
        "hidden": checkpoint.hidden,
        "epsilon": float(checkpoint.text_config.get("rms_norm_eps", 1e-6)),
        "tied": checkpoint.repeats_embedding,
    }
    return Architecture(layers=tuple(layers), **(fields | differences))


def uniform(
    checkpoint: Checkpoint,
    attends: Attention,
    feed_forward: Experts | GatedMlp | Mlp,
    **differences: Any,
) -> Architecture:
    """Return a decoder whose layers are all alike."""
    layer = LayerSpec(attends, feed_forward)
    return architecture(checkpoint, [layer] * checkpoint.layers, **differences)


def attention(checkpoint: Checkpoint, rope: Rope | None, **differences: Any) -> Attention:
    """Return attention of the checkpoint's sizes; ``differences`` replace its fields."""
    fields: dict[str, Any] = {
        "heads": checkpoint.heads,
        "kv_heads": checkpoint.kv_heads,
        "head_dim": checkpoint.head_dim,
        "query_scale": checkpoint.head_dim**-0.5,
    }
    return Attention(rope=rope, **(fields | differences))


def biases(checkpoint: Checkpoint, *, otherwise: bool = False) -> dict[str, bool]:
    """Return the biases of attention: ``attention_bias`` gives all of its layers one."""
    bias = bool(checkpoint.text_config.get("attention_bias", otherwise))
    return {"qkv_bias": bias, "output_bias": bias}


def attending(
    checkpoint: Checkpoint,
    places: Iterable[tuple[Rope | None, int | None]],
    feed_forward: Experts | GatedMlp,
    **differences: Any,
) -> list[LayerSpec]:
    """Return a layer with attention for each rope and window of ``places``."""
    return [
        LayerSpec(attention(checkpoint, rope, window=window, **differences), feed_forward)
        for rope, window in places
    ]


def gated_mlp(checkpoint: Checkpoint, **differences: Any) -> GatedMlp:
    """Return a gated MLP of the checkpoint's width; ``differences`` replace its fields."""
    config = checkpoint.text_config
    fields: dict[str, Any] = {
        "intermediate": int(config["intermediate_size"]),
        "activation": str(config.get("hidden_act", "silu")),
    }
    return GatedMlp(**(fields | differences))


def experts(checkpoint: Checkpoint, **differences: Any) -> Experts:
    """Return a mixture of the checkpoint's sizes; ``differences`` replace its fields."""
    config = checkpoint.text_config
    fields: dict[str, Any] = {
        "count": int(config.get("num_experts") or config.get("num_local_experts") or 0),
        "chosen": int(config.get("num_experts_per_tok") or 0),
        "intermediate": int(config.get("moe_intermediate_size") or config["intermediate_size"]),
        "activation": str(config.get("hidden_act", "silu")),
        "renormalised": bool(config.get("norm_topk_prob")),
    }
    return Experts(**(fields | differences))


def sparse_layers(checkpoint: Checkpoint, mixture: Experts) -> list[Experts | GatedMlp]:
    """Return the feed-forward of each layer: all have experts but those of ``mlp_only_layers``, or every
    ``decoder_sparse_step``-th."""
    config = checkpoint.text_config
    every, dense = int(config.get("decoder_sparse_step", 1)), config.get("mlp_only_layers") or ()
    return [
        gated_mlp(checkpoint) if (index + 1) % every or index in dense else mixture
        for index in range(checkpoint.layers)
    ]


def sliding_layers(checkpoint: Checkpoint, otherwise: Callable[[int], bool]) -> list[bool]:
    """Return whether each layer slides: by ``layer_types``, or else by ``otherwise(index)``."""
    sliding, full = "sliding_attention", "full_attention"
    names = layer_types(checkpoint, (sliding, full), lambda at: sliding if otherwise(at) else full)
    return [name == sliding for name in names]


def typed_layers(
    checkpoint: Checkpoint,
    mixers: Mapping[str, Mixer],
    feed_forwards: Sequence[Experts | GatedMlp],
    otherwise: Callable[[int], str],
) -> list[LayerSpec]:
    """Return a layer for each of ``feed_forwards``, with the one of ``mixers`` that its type names."""
    types = layer_types(checkpoint, tuple(mixers), otherwise)
    return [LayerSpec(mixers[name], each) for name, each in zip(types, feed_forwards, strict=True)]


def layer_types(
    checkpoint: Checkpoint, known: Sequence[str], otherwise: Callable[[int], str]
) -> list[str]:
    """Return the type of each layer, by ``layer_types`` or else by ``otherwise(index)``.

    Raises ModelError for a type that is not ``known``, and for more or fewer than there are layers.
    """
    names = checkpoint.text_config.get("layer_types")
    if names is None:
        return [otherwise(index) for index in range(checkpoint.layers)]
    unknown = sorted(set(names) - set(known))
    if unknown or len(names) != checkpoint.layers:
        raise ModelError(
            f"{checkpoint.config_file}: layer_types must name one of {' and '.join(known)} "
            f"for each of the {checkpoint.layers} layers; it has {len(names)} "
            f"entries{', including ' + ', '.join(unknown) if unknown else ''}. "
            f"{checkpoint.config_remedy}"
        )
    return list(names)


def ropes(
    checkpoint: Checkpoint, context: int, theta: float, sliding_theta: float
) -> tuple[Rope, Rope]:
    """Return the ropes of global and of sliding layers, with these bases if the settings name none.

    Settings that do not tell them apart are those of global layers.
    """
    settings = rope_settings(checkpoint.text_config)
    nested = "full_attention" in settings or "sliding_attention" in settings
    far = settings.get("full_attention") or {} if nested else settings
    near = settings.get("sliding_attention") or {} if nested else {}
    return (
        read_rope(checkpoint, context, settings=far, theta=theta),
        read_rope(checkpoint, context, settings=near, theta=sliding_theta),
    )


def window_of(checkpoint: Checkpoint) -> int | None:
    """Return the sliding window in tokens; None if there is none."""
    size = checkpoint.text_config.get("sliding_window")
    return None if size is None else int(size)
