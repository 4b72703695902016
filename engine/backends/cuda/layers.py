"""Build layers of fused linear kernels from a checkpoint's tensors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from engine.backends.cuda import recurrent
from engine.backends.cuda.feed_forward import (
    CudaExperts,
    CudaMlp,
    CudaOwnInput,
    CudaOwnInputs,
    gate_of,
)
from engine.backends.cuda.recurrent import CudaRecurrence
from engine.kernels.cuda.linear.bulk import BulkLinear
from engine.kernels.cuda.linear.dispatch import Weight, convert_weight, embedding_of, make_linear
from engine.kernels.cuda.linear.experts import ExpertsLinear, stack
from engine.kernels.cuda.linear.fusion import Fusion, Norm
from engine.kernels.torch.factory import Kernels, plain_embedding
from engine.kernels.torch.linear import Biased, Linear
from engine.kernels.torch.linear import make_linear as make_exact
from engine.models.activations import activation
from engine.models.architecture import Architecture, Attention, Experts, LayerSpec
from engine.models.tensor_shapes import Names
from engine.models.weight_loading import WeightSource, load_layer, load_per_layer
from engine.models.weights import (
    AttentionWeights,
    ExpertsWeights,
    GatedMlpWeights,
    OwnInputWeights,
)

WIDEST_HEAD = 512
"""The tiles of wider heads do not fit into a multiprocessor."""

FUSED_GATE = "silu"
"""The gate that the kernels apply themselves; torch applies others after the product."""


@dataclass(frozen=True, slots=True)
class CudaLayer:
    """One layer. Parts that the model lacks are None."""

    inputs: BulkLinear  # of the mixer, with the norm before it: queries, keys and values, or others
    qk_norm: Tensor | None  # (heads + kv_heads, head_dim) float32
    rotation: Tensor | None  # (context, head_dim / 2, 2) float32
    sinks: Tensor | None  # (heads,) float32
    recurrence: CudaRecurrence | None  # in place of attention
    output: BulkLinear
    mixer_after: Norm | None
    feed_forward: CudaMlp | CudaExperts  # with the norm before it
    feed_forward_after: Norm | None
    own_input: CudaOwnInput | None
    scalar: float


class UnfusedLinear:
    """A linear layer whose norm and gate are not known yet; ``_fused`` takes its weight."""

    def __init__(self, weight: Weight) -> None:
        self.weight = weight

    def __call__(self, x: Tensor) -> Tensor:
        return make_linear(self.weight)(x)


def _kernels(quantization: str, device: torch.device) -> Kernels:
    return Kernels(
        lambda weight: UnfusedLinear(convert_weight(quantization, weight, device)),
        plain_embedding,
        lambda weight: make_exact(weight.to(device, torch.float32)),
        _stacked,
    )


def _stacked(linears: Iterator[Linear], count: int) -> Linear:
    """Return the layers of ``count`` experts as one, see ``stack``."""
    biases = []

    def weights() -> Iterator[Weight]:
        for linear in linears:
            weight, bias = _parts(linear)
            biases.append(bias)
            yield weight

    unfused = UnfusedLinear(stack(weights(), count))
    stacked = [bias for bias in biases if bias is not None]
    return Biased(unfused, torch.stack(stacked)) if stacked else unfused


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
    attends = isinstance(spec.mixer, Attention)
    if isinstance(spec.mixer, Attention):
        spec = replace(spec, mixer=replace(spec.mixer, query_scale=1.0))
    layer = load_layer(architecture, spec, tensor, _kernels(quantization, device))
    mixer = layer.mixer
    return CudaLayer(
        inputs=_fused(
            mixer.qkv if isinstance(mixer, AttentionWeights) else mixer.inputs, layer.mixer_norm
        ),
        qk_norm=mixer.qk_norm if isinstance(mixer, AttentionWeights) else None,
        rotation=rotation,
        sinks=mixer.sinks if isinstance(mixer, AttentionWeights) else None,
        recurrence=None if attends else recurrent.load(architecture, spec.mixer, mixer),
        output=_fused(mixer.output),
        mixer_after=layer.mixer_after,
        feed_forward=_experts(spec.feed_forward, layer.feed_forward, layer.feed_forward_norm)
        if isinstance(spec.feed_forward, Experts)
        else _mlp(spec.feed_forward.activation, layer.feed_forward, layer.feed_forward_norm),
        feed_forward_after=layer.feed_forward_after,
        own_input=_own_input(spec.feed_forward.activation, layer.own_input),
        scalar=layer.scalar,
    )


def _own_input(function: str, weights: OwnInputWeights | None) -> CudaOwnInput | None:
    if weights is None:
        return None
    gate, output = _fused(weights.gate), _fused(weights.output)
    return CudaOwnInput(gate, activation(function), output, weights.after)


def load_own_inputs(
    architecture: Architecture,
    names: Names,
    tensor: WeightSource,
    quantization: str,
    device: torch.device,
) -> CudaOwnInputs | None:
    """Load what makes the layers' own inputs; None if they have none."""
    weights = load_per_layer(architecture, names, tensor, _kernels(quantization, device))
    if weights is None:
        return None
    table = convert_weight(quantization, tensor(names.per_layer_embedding), device)
    projection, norm = _fused(weights.projection), weights.norm
    return CudaOwnInputs(projection, norm, embedding_of(table), weights.scale)


def _mlp(function: str, weights: object, norm: Norm | None = None) -> CudaMlp:
    assert isinstance(weights, GatedMlpWeights)
    gated = function == FUSED_GATE
    return CudaMlp(
        _fused(weights.gate_up, norm, gated=gated),
        None if gated else gate_of(activation(function)),
        _fused(weights.down),
    )


def _experts(spec: Experts, weights: object, norm: Norm | None) -> CudaExperts:
    assert isinstance(weights, ExpertsWeights)
    gated = spec.activation == FUSED_GATE and spec.clamp is None

    def fused(linear: Linear | tuple[Linear, ...], *, gated: bool = False) -> ExpertsLinear:
        assert not isinstance(linear, tuple)
        weight, bias = _parts(linear)
        return ExpertsLinear(weight, bias, spec.chosen, gated=gated)

    return CudaExperts(
        spec=spec,
        norm=norm,
        router=weights.router,
        score_bias=weights.score_bias,
        gate_up=fused(weights.gate_up, gated=gated),
        gate=None if gated else gate_of(activation(spec.activation), spec.clamp),
        down=fused(weights.down),
        shared=None if weights.shared is None else _mlp(spec.activation, weights.shared),
        norms=weights.norms,
        score_scale=weights.score_scale,
    )


def _fused(linear: Linear, norm: Norm | None = None, *, gated: bool = False) -> BulkLinear:
    """Fuse a loaded linear layer with its bias, the norm before it and the gate after it."""
    weight, bias = _parts(linear)
    return BulkLinear(weight, Fusion(norm, bias, gated))


def _parts(linear: Linear) -> tuple[Weight, Tensor | None]:
    """Return the weight and the bias of a loaded linear layer."""
    bias = linear.bias if isinstance(linear, Biased) else None
    unfused = linear.linear if isinstance(linear, Biased) else linear
    assert isinstance(unfused, UnfusedLinear)
    return unfused.weight, bias


def wrong_width(architecture: Architecture) -> str | None:
    """Return why the kernels cannot compute heads of such a size; None if they can."""
    for attention in architecture.attentions:
        if attention.head_dim > WIDEST_HEAD or attention.head_dim % 2:
            return (
                f"Its attention heads have size {attention.head_dim}; the kernels support even "
                f"sizes up to {WIDEST_HEAD}."
            )
    return None
