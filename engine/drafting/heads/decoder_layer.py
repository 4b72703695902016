"""A decoder layer, for heads that have layers of their own."""

from __future__ import annotations

from torch import Tensor

from engine.backends.operations import Arithmetic, Memory, Operations
from engine.kernels.operands import Rows
from engine.models.architecture import Architecture
from engine.models.weights import Layer, RmsNorm


def decoder_layer(
    ops: Operations,
    architecture: Architecture,
    layer: Layer,
    x: Tensor,
    residual: Tensor,
    memory: Memory,
    number: int,
    rows: Rows,
    *,
    causal: bool,
) -> Tensor:
    """``residual`` and what the layer adds to it for ``x``, its attention's normed input.

    ``number`` is its place in ``memory``. ``causal``: rows do not see the ones behind them.
    """
    qkv = ops.linear(layer.attention.qkv, x)
    attended = ops.attend(qkv, memory, number, layer.attention.qk_norm, rows, causal=causal)
    residual = ops.add(residual, ops.linear(layer.attention.output, attended))
    mlp = layer.feed_forward
    gates = ops.linear(mlp.gate_up, norm(ops, layer.feed_forward_norm, residual))
    gate, up = gates.chunk(2, dim=1)
    spec = architecture.layers[number].feed_forward
    active = ops.activate(spec.activation, gate, times=up)
    return ops.add(residual, ops.linear(mlp.down, active))


def norm(ops: Arithmetic, weights: RmsNorm, x: Tensor) -> Tensor:
    """``weights(x)``."""
    return ops.norm(x, weights.epsilon, weight=weights.weight)
