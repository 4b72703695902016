"""Decoder layers of a head's own, as its config.json and its tensors' shapes describe them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from engine.backends.layer_decoder import norm
from engine.backends.linear_factory import LinearFactory
from engine.backends.operations import SUPPORT, Operations
from engine.drafting.heads.stored import Stored
from engine.errors import ModelError
from engine.kernels.operands import Rows
from engine.models.activations import activation
from engine.models.architecture import Architecture, Attention, GatedMlp, LayerSpec
from engine.models.hidden_states import AuxLayer
from engine.models.rope import read_rope
from engine.models.weight_loading import TensorSource, WeightSource, load_layer
from engine.models.weights import Layer, RmsNorm

_EPSILON = 1e-6


@dataclass(frozen=True, slots=True)
class _RopeSource:
    """See ``read_rope``."""

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
    inputs: int | None = None,
    heads: int | None = None,
    context: int | None = None,
) -> Architecture:
    """Return ``count`` layers like the one under ``prefix``, whose widths are those of its tensors.

    ``inputs``: the first layer's, if they are not its width. ``heads`` and ``context`` are defaults for
    keys that config.json lacks. Raises ModelError.
    """
    config, attention = stored.config, f"{prefix}self_attn."
    heads = stored.size("num_attention_heads", heads)
    queries, keys = (stored.matrix(f"{attention}{name}_proj.weight")[0] for name in "qk")
    head_dim = stored.size("head_dim") if config.get("head_dim") is not None else queries // heads
    fits = head_dim * heads == queries and head_dim and not (keys % head_dim or head_dim % 2)
    if not fits or not keys or queries % keys:
        raise ModelError(
            f"In {stored.folder}, {attention}q_proj.weight has {queries:,} outputs and "
            f"k_proj {keys:,}, which do not match {heads} heads of size {head_dim}. Use the "
            "config.json that was published with the head."
        )
    longest = stored.size("max_position_embeddings", context)
    rope = read_rope(_RopeSource(stored.folder, config, longest, head_dim), longest)
    biased = bool(config.get("attention_bias", False))
    function = str(config.get("hidden_act", "silu"))
    activation(function)  # raises for an unknown one
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
            activation=function,
            bias=bool(config.get("mlp_bias", False)),
        ),
    )
    architecture = Architecture(
        layers=(
            replace(layer, mixer=replace(layer.attention, inputs=inputs)),
            *[layer] * (count - 1),
        ),
        vocabulary=vocabulary,
        hidden=hidden,
        epsilon=float(config.get("rms_norm_eps", _EPSILON)),
        tied=False,
    )
    reason = SUPPORT.why_not(architecture, "fp32")
    if reason is not None:
        raise ModelError(f"{stored.folder} cannot draft here. {reason} Choose another head.")
    return architecture


def load_layers(
    architecture: Architecture, sources: Sequence[WeightSource], linears: LinearFactory
) -> tuple[Layer, ...]:
    """Return the layers, each read from its source."""
    return tuple(
        load_layer(architecture, spec, source, linears.kernels(spec, architecture.hidden))
        for spec, source in zip(architecture.layers, sources, strict=True)
    )


def layer_source(stored: Stored, prefix: str, linears: LinearFactory) -> TensorSource:
    """Return what fetches the tensors under ``prefix``: vectors as the head computes with them."""

    def fetch(name: str) -> Tensor:
        tensor = stored(prefix + name)
        return tensor if tensor.dim() > 1 else linears.vector(tensor)

    return fetch


def joined_states(
    ops: Operations, aux_layers: Sequence[AuxLayer], rows: Rows, norms: Sequence[RmsNorm] = ()
) -> Tensor:
    """Return the target's hidden states at ``rows`` side by side, as ``fc`` takes them.

    If there are ``norms``, each is normed by its own.
    """
    states = [ops.aux_hidden_states(aux_layer, rows) for aux_layer in aux_layers]
    if norms:
        states = [norm(ops, own, state) for own, state in zip(norms, states, strict=True)]
    return ops.join(*states)


def refuse_relatives(stored: Stored, kind: str, reasons: Mapping[str, object]) -> None:
    """Raise ModelError for the first reason that is true: such a head computes something else."""
    for reason, present in reasons.items():
        if present:
            raise ModelError(
                f"{stored.folder} is not a plain {kind} head: it has {reason}, which is not "
                "supported. Choose another head for this target."
            )
