"""Build layers of fused linear kernels from a checkpoint's tensors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from engine.kernels.cuda.linear.bulk import BulkLinear
from engine.kernels.cuda.linear.dispatch import Weight, convert_weight, make_linear
from engine.kernels.cuda.linear.fusion import Fusion, Norm
from engine.kernels.torch.factory import Kernels, plain_embedding
from engine.kernels.torch.linear import Biased, Linear
from engine.models.activations import Activation, activation
from engine.models.architecture import Architecture, LayerSpec
from engine.models.weight_loading import WeightSource, load_layer
from engine.models.weights import GatedMlpWeights, RmsNorm

WIDEST_HEAD = 256
"""The tiles of wider heads do not fit into a multiprocessor."""

FUSED_GATE = "silu"
"""The gate that the kernels apply themselves; torch applies others after the product."""


@dataclass(frozen=True, slots=True)
class CudaLayer:
    """One layer. Parts that the model lacks are None.

    ``gate`` is applied to the result of ``gate_up`` if the kernel does not apply it.
    """

    qkv: BulkLinear  # with the norm before it
    qk_norm: Tensor | None  # (heads + kv_heads, head_dim) float32
    rotation: Tensor | None  # (context, head_dim / 2, 2) float32
    output: BulkLinear
    attention_after: Norm | None
    gate_up: BulkLinear  # with the norm before it
    gate: Activation | None
    down: BulkLinear
    mlp_after: Norm | None


class UnfusedLinear:
    """A linear layer whose norm and gate are not known yet; ``_fused`` takes its weight."""

    def __init__(self, weight: Weight) -> None:
        self.weight = weight

    def __call__(self, x: Tensor) -> Tensor:
        return make_linear(self.weight)(x)


def load(
    architecture: Architecture,
    spec: LayerSpec,
    tensor: WeightSource,
    quantization: str,
    rotation: Tensor | None,
    device: torch.device,
) -> CudaLayer:
    """Load one layer; ``tensor`` reads a tensor by its name within the layer.

    The weights do not include the scale of the scores: the rope kernel multiplies the queries by it.
    """
    kernels = Kernels(
        lambda weight: UnfusedLinear(convert_weight(quantization, weight, device)), plain_embedding
    )
    unscaled = replace(spec, mixer=replace(spec.attention, query_scale=1.0))
    layer = load_layer(architecture, unscaled, tensor, kernels)
    mlp = layer.feed_forward
    assert isinstance(mlp, GatedMlpWeights)
    gated = spec.feed_forward.activation == FUSED_GATE
    return CudaLayer(
        qkv=_fused(layer.attention.qkv, layer.mixer_norm),
        qk_norm=layer.attention.qk_norm,
        rotation=rotation,
        output=_fused(layer.attention.output),
        attention_after=norm_of(layer.mixer_after),
        gate_up=_fused(mlp.gate_up, layer.feed_forward_norm, gated=gated),
        gate=None if gated else partial(_gate, activation(spec.feed_forward.activation)),
        down=_fused(mlp.down),
        mlp_after=norm_of(layer.feed_forward_after),
    )


def norm_of(norm: RmsNorm | None) -> Norm | None:
    """Convert a norm to the kernels' class."""
    return None if norm is None else Norm(norm.weight, norm.epsilon)


def _fused(linear: Linear, norm: RmsNorm | None = None, *, gated: bool = False) -> BulkLinear:
    """Fuse a loaded linear layer with its bias, the norm before it and the gate after it."""
    bias = linear.bias if isinstance(linear, Biased) else None
    unfused = linear.linear if isinstance(linear, Biased) else linear
    assert isinstance(unfused, UnfusedLinear)
    fusion = Fusion(norm_of(norm), bias, gated)
    return BulkLinear(make_linear(unfused.weight, fusion), unfused.weight, fusion)


def _gate(function: Activation, gate_up: Tensor) -> Tensor:
    """Apply the gate to ``gate_up (rows, 2 * width)``, whose first half are the gate's outputs."""
    gate, up = gate_up.chunk(2, dim=-1)
    return function(gate) * up


def wrong_width(architecture: Architecture) -> str | None:
    """Return why the kernels cannot compute heads of such a size; None if they can."""
    for attention in architecture.attentions:
        if attention.head_dim > WIDEST_HEAD or attention.head_dim % 2:
            return (
                f"Its attention heads have size {attention.head_dim}; the kernels support even "
                f"sizes up to {WIDEST_HEAD}."
            )
    return None
