"""The eager executor of a decoder: torch computes each operation, with the same bits for each row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from engine.backends.layer_decoder import LayerDecoder, add_own_input, add_residual, mlp, norm
from engine.backends.support import ALL_DECODER, ALL_MIXERS, EXPERTS, MLPS, Support
from engine.backends.torch import experts, gated_delta, mamba2, short_convolution
from engine.backends.torch.eager import RowArithmetic, split_qkv
from engine.backends.torch.state import TorchState
from engine.kernels.formats import AS_STORED, FORMATS
from engine.kernels.formats.block_planes import FORMS
from engine.kernels.torch.attention import Attend, causal_bias, choose_attend, first_page
from engine.kernels.torch.factory import PLAIN, Kernels
from engine.kernels.torch.linear import Linear
from engine.models.activations import ACTIVATIONS, activation, soft_cap
from engine.models.architecture import (
    Architecture,
    Attention,
    Experts,
    GatedDeltaNet,
    LayerSpec,
    Mamba2,
    Recurrent,
    ShortConvolution,
)
from engine.models.base import ModelInfo
from engine.models.hidden_states import AuxLayer
from engine.models.rotation import rotations, rotations_in_images, temperatures
from engine.models.sequence_state import KVCache
from engine.models.tensor_shapes import Names
from engine.models.weight_loading import WeightSource, load_layer, load_per_layer, read_norm
from engine.models.weights import (
    AttentionWeights,
    ExpertsWeights,
    Layer,
    MixerWeights,
)

if TYPE_CHECKING:
    from engine.backends.cuda.trial.verdicts import Verdict

SUPPORT = Support(
    "Foretoken's PyTorch code",
    ALL_MIXERS,
    {**MLPS, **EXPERTS},
    ACTIVATIONS,
    (*FORMATS, AS_STORED),
    ALL_DECODER,
    frozenset(FORMS),
)
"""Sizes are not limited. Blocks as they are stored are for GPUs: a CPU has the compiled step."""


@dataclass(frozen=True, slots=True)
class AttentionShared:
    """Values shared by layers with one ``Attention``.

    rotation (context, head_dim / 2) complex; temperature (context,).
    """

    rotation: Tensor | None
    temperature: Tensor | None
    attend: Attend


@dataclass(frozen=True, slots=True)
class AttentionInputs:
    """Inputs of one step shared by layers with the same ``Attention``."""

    rotation: Tensor | None  # (rows, 1, head_dim / 2), complex
    temperature: Tensor | None  # (rows, 1, 1)
    first: int  # page of the cache
    bias: Tensor  # see causal_bias


@dataclass(frozen=True, slots=True)
class Step:
    """One forward step."""

    state: TorchState
    inputs: Mapping[Attention, AttentionInputs]
    final: bool


class TorchDecoder(LayerDecoder[TorchState, Step]):
    """See ``HiddenStateModel``. Steps have up to 16 rows, more in prefill."""

    prefill_rows = 128  # enough to be limited by arithmetic, few enough for small buffers

    def __init__(
        self,
        architecture: Architecture,
        names: Names,
        tensor: WeightSource,
        info: ModelInfo,
        kernels: Kernels = PLAIN,
    ) -> None:
        last = tensor(names.norm)
        assert isinstance(last, Tensor)  # a vector
        super().__init__(architecture, info, last.dtype, last.device)
        self.norm = read_norm(architecture, tensor, names.norm)
        # First, because its float copy is the largest: it is freed before other weights are loaded.
        table = tensor(names.embedding)  # (vocabulary, hidden)
        self.embedding = kernels.embedding(table)
        self.head = kernels.linear(table if architecture.tied else tensor(names.head))
        del table
        self.shared = {spec: self._shared(spec) for spec in dict.fromkeys(architecture.attentions)}
        for spec in architecture.layers:
            activation(spec.feed_forward.activation)  # raises for an unknown one
        self.ops = RowArithmetic()
        self.gpu_products: Sequence[Linear] = ()  # those that kernels compute, to be tried
        self.verdict: Verdict | None = None  # of their trial
        self._experts_read = 0  # of the last step, in all layers
        self.layers = [
            self._load(spec, names.within(index, tensor), kernels)
            for index, spec in enumerate(architecture.layers)
        ]
        self.per_layer = load_per_layer(architecture, names, tensor, kernels)
        if self.per_layer is not None:
            self.second_embedding = kernels.embedding(tensor(names.per_layer_embedding))

    def _shared(self, spec: Attention) -> AttentionShared:
        attend = choose_attend(spec.heads, spec.kv_heads, spec.head_dim, self.dtype, self.device)
        context, device = self._info.context, self.device
        rotation = temperature = None
        if spec.rope is not None:
            rotation = rotations(spec.rope, spec.head_dim, context).to(device)
        if spec.temperature is not None:
            temperature = temperatures(spec.temperature, context).to(device)
        return AttentionShared(rotation, temperature, attend)

    def _load(self, spec: LayerSpec, at: WeightSource, kernels: Kernels) -> Layer:
        return load_layer(self.architecture, spec, at, kernels)

    def new_state(self, context: int, aux_layers: Sequence[AuxLayer] = ()) -> TorchState:
        aux = self.new_aux(aux_layers, context)
        return TorchState(
            self.architecture, context, self.dtype, self.device, aux, self._info.checkpoint_bytes
        )

    def experts_read(self) -> float:
        """See ``MixtureModel``."""
        return self._experts_read / sum(each.chosen for each in self.architecture.mixtures)

    @torch.inference_mode()
    def logits(self, normed: Tensor) -> Tensor:
        logits = self.head(normed.to(self.dtype)).float() * self.architecture.logit_scale
        return soft_cap(logits, self.architecture.logit_cap)

    def final_norm(self, x: Tensor) -> Tensor:
        return norm(self.ops, self.norm, x)

    def positions(self, state: TorchState, rows: int) -> Tensor:
        return torch.arange(state.end, state.end + rows, device=self.device)

    def begin(self, state: TorchState, rows: int, *, final: bool) -> Step:
        self._experts_read = 0
        inputs = {spec: self._attention_inputs(spec, state, rows) for spec in self.shared}
        return Step(state, inputs, final)

    def mixer(self, index: int, x: Tensor, step: Step) -> Tensor:
        layer, spec = self.layers[index], self.architecture.layers[index].mixer
        normed = norm(self.ops, layer.mixer_norm, x)
        if isinstance(layer.mixer, AttentionWeights):
            assert isinstance(spec, Attention)
            result = self._attention(layer.mixer, spec, normed, step, step.state.slots[index])
        else:
            assert isinstance(spec, Recurrent)
            state, epsilon = step.state.memories[index], self.architecture.epsilon
            result = mix_recurrent(layer.mixer, spec, normed, state, epsilon, final=step.final)
        scale = self.architecture.residual_scale
        return add_residual(self.ops, x, result, layer.mixer_after, scale)

    def feed_forward(self, index: int, x: Tensor, mixed: Tensor) -> Tensor:
        layer, spec = self.layers[index], self.architecture.layers[index].feed_forward
        weights = layer.mixer_norm if self.architecture.parallel else layer.feed_forward_norm
        normed = norm(self.ops, weights, x)
        if isinstance(layer.feed_forward, ExpertsWeights):
            assert isinstance(spec, Experts)
            result, read = experts.mix(self.ops, spec, layer.feed_forward, normed)
            self._experts_read += read
        else:
            result = mlp(self.ops, spec.activation, layer.feed_forward, normed)
        scale = self.architecture.residual_scale
        return add_residual(self.ops, mixed, result, layer.feed_forward_after, scale)

    def own_inputs(self, ids: Tensor, x: Tensor) -> Tensor | None:
        weights = self.per_layer
        if weights is None:
            return None
        parts = self.ops.linear(weights.projection, x).unflatten(1, (len(self.layers), -1))
        embedded = self.second_embedding(ids).view_as(parts)
        return self.ops.add(norm(self.ops, weights.norm, parts), embedded, weights.scale)

    def finish(self, index: int, x: Tensor, own: Tensor | None) -> Tensor:
        layer, spec = self.layers[index], self.architecture.layers[index].feed_forward
        if own is not None:
            x = add_own_input(self.ops, spec.activation, layer, x, own[:, index])
        return x * layer.scalar if self.architecture.layer_scalars else x

    def _attention_inputs(self, spec: Attention, state: KVCache, rows: int) -> AttentionInputs:
        start, end = state.end, state.end + rows
        first = first_page(start, spec.window)
        keys, _ = state.pages(0, end, first)
        group = spec.heads // spec.kv_heads
        bias = causal_bias(start, rows, group, len(keys), keys, first=first, window=spec.window)
        rotation, temperature = self.shared[spec].rotation, self.shared[spec].temperature
        if rotation is not None and spec.rope is not None:
            if state.content is not None and spec.rope.axes:
                places = state.content.positions(start, end)
                rotation = rotations_in_images(spec.rope, rotation, places)
            else:
                rotation = rotation[start:end]
        return AttentionInputs(
            None if rotation is None else rotation[:, None, :],
            None if temperature is None else temperature[start:end, None, None],
            first,
            bias,
        )

    def _attention(
        self, weights: AttentionWeights, spec: Attention, x: Tensor, step: Step, slot: int
    ) -> Tensor:
        cache, inputs, epsilon = step.state, step.inputs[spec], self.architecture.epsilon
        qkv, gates = weights.qkv(x), None
        if spec.output_gate:
            qkv, gates = qkv.tensor_split([-spec.heads * spec.head_dim], dim=1)
        query, key, value = split_qkv(qkv, spec, weights.qk_norm, inputs.rotation, epsilon)
        if inputs.temperature is not None:
            query = (query * inputs.temperature).to(query.dtype)
        if spec.shared_with is None:
            cache.write(slot, cache.end, key, value)
        keys, values = cache.pages(slot, cache.end + len(x), inputs.first)
        attend = self.shared[spec].attend
        attended = attend(
            query.contiguous(), keys, values, inputs.bias, spec.score_cap, weights.sinks
        )
        if gates is not None:
            attended = self.ops.activate("sigmoid", gates, times=attended)
        return weights.output(attended)


def mix_recurrent(
    weights: MixerWeights, spec: Recurrent, x: Tensor, state: Any, epsilon: float, *, final: bool
) -> Tensor:
    """Return a recurrent mixer's result (rows, hidden) for normed ``x``, and apply its rows to ``state``,
    which ``new_memory`` made."""
    return _MIXERS[type(spec)](weights, spec, x, state, epsilon, final=final)


_MIXERS: Mapping[type, Callable[..., Tensor]] = {
    GatedDeltaNet: gated_delta.mix,
    Mamba2: mamba2.mix,
    ShortConvolution: short_convolution.mix,
}
