"""Make the linear layers and norms of a decoder from a checkpoint's tensors.

The scale of the scores, the order of a head's dimensions and 1 + w are folded into the weights once.
Blocks of codes carry the scale beside them, and are otherwise joined and reordered like rows of numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from engine.kernels.formats.blocks import Blocks, Stacked, Weight, join_adjacent, stack, widen
from engine.kernels.torch.factory import Kernels
from engine.kernels.torch.linear import Biased, Linear
from engine.models import weights
from engine.models.architecture import (
    Architecture,
    Attention,
    Experts,
    GatedDeltaNet,
    GatedMlp,
    LayerSpec,
    Mamba2,
    Mlp,
    Rope,
    ShortConvolution,
)
from engine.models.rotation import interleave
from engine.models.tensor_shapes import (
    MIXTURE_NORMS,
    OWN_NORM,
    PER_LAYER,
    ROUTER,
    ROUTER_NORM,
    SCORE_BIAS,
    SCORE_SCALE,
    SHARED_GATE,
    Names,
    bias_of,
    norm_names,
    shared_prefix,
)

TensorSource = Callable[[str], Tensor]
"""Returns a tensor by name, on the model's device: vectors in its compute dtype, matrices in any float
dtype that its kernels take."""

WeightSource = Callable[[str], Weight]
"""The same, but matrices may be blocks of a GGUF file."""


def load_layer(
    architecture: Architecture, spec: LayerSpec, at: WeightSource, kernels: Kernels
) -> weights.Layer:
    """Return one layer; ``at`` returns a tensor by its name within the layer."""
    a = architecture
    mixer_norm, mixer_after, feed_forward_norm, feed_forward_after = (
        None if name is None else read_norm(a, at, name) for name in norm_names(a)
    )
    if isinstance(spec.feed_forward, Experts) and spec.feed_forward.norms:
        assert isinstance(feed_forward_norm, weights.RmsNorm)
        ones = torch.ones_like(feed_forward_norm.weight, dtype=torch.float32)
        feed_forward_norm = replace(feed_forward_norm, weight=ones)
    return weights.Layer(
        mixer_norm=mixer_norm,
        mixer=_mixer(a, spec, at, kernels),
        mixer_after=mixer_after,
        feed_forward_norm=feed_forward_norm,
        feed_forward=_feed_forward(a, spec.feed_forward, at, kernels),
        feed_forward_after=feed_forward_after,
        own_input=_own_input(a, at, kernels) if a.per_layer_width else None,
        scalar=float(_vector(at("layer_scalar"))) if a.layer_scalars else 1.0,
    )


def load_per_layer(
    architecture: Architecture, names: Names, tensor: WeightSource, kernels: Kernels
) -> weights.PerLayerWeights | None:
    """Return what makes the layers' own inputs; None if they have none.

    Gemma's formula is (norm(hidden ** -0.5 * projection(x)) + width ** 0.5 * embedding) / 2 ** 0.5.
    """
    a = architecture
    if a.per_layer_width is None:
        return None
    projection, norm = (tensor(f"{names.root}{name}.weight") for name in PER_LAYER)
    return weights.PerLayerWeights(
        kernels.linear(projection),
        weights.RmsNorm(_vector(norm).float() * 0.5**0.5, a.epsilon * a.hidden),
        (a.per_layer_width / 2) ** 0.5,
    )


def _own_input(a: Architecture, at: WeightSource, kernels: Kernels) -> weights.OwnInputWeights:
    return weights.OwnInputWeights(
        gate=kernels.linear(at("per_layer_input_gate.weight")),
        output=kernels.linear(at("per_layer_projection.weight")),
        after=read_norm(a, at, OWN_NORM),
    )


def _mixer(
    a: Architecture, spec: LayerSpec, at: WeightSource, kernels: Kernels
) -> weights.MixerWeights:
    match spec.mixer:
        case Attention():
            return _attention(a, spec.mixer, at, kernels)
        case GatedDeltaNet():
            return _gated_delta(at, kernels)
        case Mamba2():
            return _mamba2(at, kernels)
        case ShortConvolution():
            return _short_convolution(at, kernels)


def _attention(
    a: Architecture, spec: Attention, at: WeightSource, kernels: Kernels
) -> weights.AttentionWeights:
    return weights.AttentionWeights(
        qkv=_linear(kernels, partial(_qkv, spec, at), spec.qkv_bias),
        qk_norm=_qk_norm(a, spec, at) if spec.qk_norm else None,
        output=_linear(kernels, lambda kind: at(f"self_attn.o_proj.{kind}"), spec.output_bias),
        sinks=_numbers(at, "self_attn.sinks") if spec.sinks else None,
    )


def _gated_delta(at: WeightSource, kernels: Kernels) -> weights.GatedDeltaWeights:
    inputs = [at(f"linear_attn.in_proj_{name}.weight") for name in ("qkv", "z", "a", "b")]
    return weights.GatedDeltaWeights(
        inputs=kernels.linear(stack(*inputs)),
        convolution=_taps(at, "linear_attn.conv1d.weight"),
        decay=-_numbers(at, "linear_attn.A_log").exp(),
        decay_bias=_numbers(at, "linear_attn.dt_bias"),
        norm=_numbers(at, "linear_attn.norm.weight"),
        output=kernels.linear(at("linear_attn.out_proj.weight")),
    )


def _mamba2(at: WeightSource, kernels: Kernels) -> weights.Mamba2Weights:
    return weights.Mamba2Weights(
        inputs=kernels.linear(at("mamba.in_proj.weight")),
        convolution=_taps(at, "mamba.conv1d.weight"),
        convolution_bias=_numbers(at, "mamba.conv1d.bias"),
        decay=-_numbers(at, "mamba.A_log").exp(),
        step_bias=_numbers(at, "mamba.dt_bias"),
        skip=_numbers(at, "mamba.D"),
        norm=_numbers(at, "mamba.norm.weight"),
        output=kernels.linear(at("mamba.out_proj.weight")),
    )


def _short_convolution(at: WeightSource, kernels: Kernels) -> weights.ShortConvolutionWeights:
    return weights.ShortConvolutionWeights(
        inputs=kernels.linear(at("conv.in_proj.weight")),
        convolution=_taps(at, "conv.conv.weight"),
        output=kernels.linear(at("conv.out_proj.weight")),
    )


def _taps(at: WeightSource, name: str) -> Tensor:
    """Return the weights (channels, 1, kernel) of a convolution as float32 (kernel, channels)."""
    return _numbers(at, name).flatten(1).T.contiguous()


def _feed_forward(
    a: Architecture, spec: GatedMlp | Mlp | Experts, at: WeightSource, kernels: Kernels
) -> weights.FeedForwardWeights:
    if isinstance(spec, Experts):
        return _experts(a, spec, at, kernels)

    def linear(name: str) -> Linear:
        return _linear(kernels, lambda kind: at(f"mlp.{name}_proj.{kind}"), spec.bias)

    if isinstance(spec, Mlp):
        return weights.MlpWeights(linear("up"), linear("down"))
    gate_up = _linear(kernels, partial(_gate_up, spec, at), spec.bias)
    return weights.GatedMlpWeights(gate_up, linear("down"))


def _experts(
    a: Architecture, spec: Experts, at: WeightSource, kernels: Kernels
) -> weights.ExpertsWeights:
    names = [ROUTER, SHARED_GATE] if spec.shared_gate else [ROUTER]
    matrix = torch.cat([widen(at(name)) for name in names])
    if spec.norms:
        matrix = matrix.float() * _numbers(at, ROUTER_NORM) * a.hidden**-0.5
    router = kernels.exact(matrix)
    if spec.bias:
        bias = _numbers(at, "mlp.gate.bias")
        router = Biased(router, torch.cat([bias, bias.new_zeros(len(names) - 1)]))
    shared = None
    if spec.shared is not None:
        gate, up, down = (
            at(f"{shared_prefix(spec)}{part}_proj.weight") for part in ("gate", "up", "down")
        )
        shared = weights.GatedMlpWeights(kernels.linear(stack(gate, up)), kernels.linear(down))
    return weights.ExpertsWeights(
        router=router,
        score_bias=_numbers(at, SCORE_BIAS) if spec.score_bias else None,
        gate_up=_of_experts(spec, at, kernels, "gate", "up"),
        down=_of_experts(spec, at, kernels, "down"),
        shared=shared,
        norms=_mixture_norms(a, at) if spec.norms else None,
        score_scale=_numbers(at, SCORE_SCALE) if spec.score_scales else None,
    )


def _mixture_norms(a: Architecture, at: WeightSource) -> weights.MixtureNorms:
    before, shared_after, experts_after = MIXTURE_NORMS
    return weights.MixtureNorms(
        experts=_numbers(at, before),
        shared=_numbers(at, "pre_feedforward_layernorm.weight"),
        experts_after=read_norm(a, at, experts_after),
        shared_after=read_norm(a, at, shared_after),
    )


def _of_experts(
    spec: Experts, at: WeightSource, kernels: Kernels, *parts: str
) -> Linear | tuple[Linear, ...]:
    """Return the linear layers of ``ExpertsWeights`` that consist of ``parts``."""

    def linear(names: Sequence[tuple[str, int]]) -> Linear:
        def fetch(kind: str) -> Stacked:
            found = [at(f"mlp.experts.{expert}.{part}_proj.{kind}") for part, expert in names]
            # Not copied to one tensor: that would take a layer's memory once more.
            joined = kind == "bias" or not kernels.stacked
            return stack(*found) if joined else join_adjacent(found)

        return _linear(kernels, fetch, spec.bias)

    every = range(spec.count)
    if kernels.stacked:
        return linear([(part, expert) for part in parts for expert in every])
    each = (linear([(part, expert) for part in parts]) for expert in every)
    return kernels.experts(each, spec.count)


def read_norm(architecture: Architecture, at: WeightSource, weight: str) -> weights.RmsNorm:
    """Return the norm whose weight has this name."""
    bias = _vector(at(bias_of(weight))) if architecture.norm_bias else None
    return make_norm(architecture, _vector(at(weight)), bias)


def make_norm(
    architecture: Architecture, weight: Tensor, bias: Tensor | None = None
) -> weights.RmsNorm:
    """Return the norm with ``weight`` and ``bias``."""
    if architecture.centred_norms:
        # In bf16 the sum 1 + w would lose the last bits of w, so these norms work in float32.
        weight = 1 + weight.float()
    if bias is not None:
        weight, bias = torch.stack([weight, bias.to(weight.dtype)])
    kind = weights.LayerNorm if architecture.layer_norms else weights.RmsNorm
    return kind(weight, architecture.epsilon, bias)


def _linear(kernels: Kernels, fetch: Callable[[str], Stacked], biased: bool) -> Linear:
    """Return the linear layer of ``fetch("weight")``, which adds ``fetch("bias")`` if it is biased."""
    linear = kernels.linear(fetch("weight"))
    return Biased(linear, _vector(fetch("bias"))) if biased else linear


def _vector(tensor: Stacked) -> Tensor:
    """Return a vector, which no file stores in blocks."""
    assert isinstance(tensor, Tensor)
    return tensor


def _numbers(at: WeightSource, name: str) -> Tensor:
    """Return a vector in float32."""
    return _vector(at(name)).float()


def _qkv(spec: Attention, at: WeightSource, kind: str) -> Stacked:
    """Return queries, keys and values stacked, the rotary pairs of the first two interleaved."""
    sizes = [heads * spec.head_dim for heads in (spec.heads, spec.kv_heads, spec.kv_heads)]
    if spec.joined:
        parts: Sequence[Weight] = at(f"self_attn.qkv_proj.{kind}").split(sizes)
    else:
        made = "q" if spec.shared_with is not None else "qk" if spec.keys_as_values else "qkv"
        parts = [at(f"self_attn.{name}_proj.{kind}") for name in made]
    query, *keys_values = parts
    if spec.keys_as_values:
        keys_values *= 2
    gates: list[Weight] = []
    if spec.output_gate:
        query, gate = _halves_of_heads(query, spec.heads)
        gates = [gate]
    query = _interleaved(query, spec.heads, spec.rope)
    if keys_values:
        keys_values[0] = _interleaved(keys_values[0], spec.kv_heads, spec.rope)
    if not spec.qk_norm:  # a norm would undo the scale, so its weight carries it
        scale = spec.query_scale
        query = query.times(scale) if isinstance(query, Blocks) else query * scale
    return stack(query, *keys_values, *gates)


def _halves_of_heads(weight: Weight, heads: int) -> tuple[Weight, Weight]:
    """Split rows that hold two parts of each head in turn into all first and all second parts."""
    first, second = torch.arange(len(weight)).view(heads, 2, -1).unbind(1)
    if isinstance(weight, Tensor):
        return weight[first.flatten()], weight[second.flatten()]
    return weight.rows(first.flatten()), weight.rows(second.flatten())


def _interleaved(weight: Weight, heads: int, rope: Rope | None) -> Weight:
    """As ``interleave``, also for blocks."""
    if isinstance(weight, Tensor):
        return interleave(weight, heads, rope)
    order = interleave(torch.arange(len(weight))[:, None], heads, rope)
    return weight.rows(order.flatten())


def _qk_norm(a: Architecture, spec: Attention, at: WeightSource) -> Tensor:
    """Return the weights of the heads' norms: (heads + kv_heads, head_dim), float32."""

    def norm(name: str, heads: int) -> Tensor:
        weight = _numbers(at, f"self_attn.{name}_norm.weight")
        weight = weight + 1 if a.centred_norms else weight
        weight = weight.view(-1, spec.head_dim).expand(heads, -1).flatten()
        return interleave(weight, heads, spec.rope).view(heads, spec.head_dim)

    query = norm("q", spec.heads) * spec.query_scale
    if spec.shared_with is not None:
        return query
    return torch.cat([query, norm("k", spec.kv_heads)])


def _gate_up(spec: GatedMlp, at: WeightSource, kind: str) -> Stacked:
    if spec.joined:
        return at(f"mlp.gate_up_proj.{kind}")
    return stack(*(at(f"mlp.{name}_proj.{kind}") for name in ("gate", "up")))
