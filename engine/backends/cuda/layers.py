"""A checkpoint's tensors -> layers of the kernels' products, with what can be fused with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from torch import Tensor

from engine.kernels.cuda.linear.dispatch import (
    Weight,
    hold,
    make_linear,
    make_linear_for_any_rows,
)
from engine.kernels.cuda.linear.fusion import FusedLinear, Fusion, Norm
from engine.kernels.formats.blocks import widen
from engine.kernels.torch.factory import Kernels, plain_embedding
from engine.kernels.torch.linear import Biased, Linear
from engine.models.activations import Activation, activation
from engine.models.architecture import Architecture, LayerSpec
from engine.models.weights import Layer, RmsNorm, TensorSource, load_layer

FUSED_GATE = "silu"
"""The gate that the kernels apply themselves; others are operations of torch behind the product."""


@dataclass(frozen=True, slots=True)
class CudaLayer:
    """One layer. None for what the model lacks.

    ``gate`` is applied to the result of ``gate_up`` where the kernel does not do it.
    """

    qkv: FusedLinear  # its norm in front
    qk_norm: Tensor | None  # (heads + kv_heads, head_dim) float32
    rotation: Tensor | None  # (context, head_dim / 2, 2) float32
    output: FusedLinear
    attention_after: Norm | None
    gate_up: FusedLinear  # its norm in front
    gate: Activation | None
    down: FusedLinear
    mlp_after: Norm | None


class Held:
    """A weight as it is kept, while it is not known yet what is fused with its product."""

    def __init__(self, weight: Weight) -> None:
        self.weight = weight

    def __call__(self, x: Tensor) -> Tensor:
        return make_linear(self.weight)(x)


def load(
    architecture: Architecture,
    spec: LayerSpec,
    tensor: TensorSource,
    quantization: str,
    rotation: Tensor | None,
) -> CudaLayer:
    """One layer; ``tensor`` fetches by the name within the layer.

    The scale of the scores stays out of the weights: the kernel that turns the queries multiplies by it.
    """
    kernels = Kernels(lambda weight: Held(hold(quantization, widen(weight))), plain_embedding)
    unscaled = replace(spec, mixer=replace(spec.attention, query_scale=1.0))
    return _fused(spec, load_layer(architecture, unscaled, tensor, kernels), rotation)


def _fused(spec: LayerSpec, layer: Layer, rotation: Tensor | None) -> CudaLayer:
    fused = spec.feed_forward.activation == FUSED_GATE
    return CudaLayer(
        qkv=_product(layer.attention.qkv, layer.mixer_norm),
        qk_norm=layer.attention.qk_norm,
        rotation=rotation,
        output=_product(layer.attention.output),
        attention_after=norm_of(layer.mixer_after),
        gate_up=_product(layer.feed_forward.gate_up, layer.feed_forward_norm, gated=fused),
        gate=None if fused else _gate(activation(spec.feed_forward.activation)),
        down=_product(layer.feed_forward.down),
        mlp_after=norm_of(layer.feed_forward_after),
    )


def norm_of(norm: RmsNorm | None) -> Norm | None:
    """The kernels' name of it."""
    return None if norm is None else Norm(norm.weight, norm.epsilon)


def _product(linear: Linear, norm: RmsNorm | None = None, *, gated: bool = False) -> FusedLinear:
    """The product with a held weight, its bias and what is in front of it in one launch."""
    bias = linear.bias if isinstance(linear, Biased) else None
    held = linear.linear if isinstance(linear, Biased) else linear
    assert isinstance(held, Held)
    return make_linear_for_any_rows(held.weight, Fusion(norm_of(norm), bias, gated))


def _gate(function: Activation) -> Activation:
    return partial(_gated, function)


def _gated(function: Callable[[Tensor], Tensor], both: Tensor) -> Tensor:
    """``both (rows, 2 * width)``: the gate's outputs, then what they multiply."""
    gate, other = both.chunk(2, dim=-1)
    return function(gate) * other
