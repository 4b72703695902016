"""The eager executor of a decoder: torch computes each operation, row by row the same bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.backends.layer_decoder import LayerDecoder
from engine.backends.support import ATTENTION, Support
from engine.backends.torch import gated_delta
from engine.backends.torch.state import TorchState
from engine.kernels.formats import FORMATS
from engine.kernels.torch.attention import causal_bias, choose_attend, first_block
from engine.kernels.torch.factory import PLAIN, Kernels
from engine.models.activations import ACTIVATIONS, activation, by_rows
from engine.models.architecture import Architecture, Attention, GatedDeltaNet, LayerSpec
from engine.models.base import ModelInfo
from engine.models.hidden_states import AuxLayer
from engine.models.rotation import rotations
from engine.models.sequence_state import KVCache
from engine.models.weights import (
    AttentionWeights,
    Layer,
    Names,
    TensorSource,
    load_layer,
    make_norm,
)

SUPPORT = Support(
    "The own decoder",
    {**ATTENTION, GatedDeltaNet: ()},
    ACTIVATIONS,
    FORMATS,
)  # fmt: skip
"""Its operations, which take any size."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What layers with the same ``LayerSpec`` share."""

    attends: bool = False
    rotation: Tensor | None = None  # (context, head_dim / 2), complex
    window: int | None = None


@dataclass(frozen=True, slots=True)
class AttentionInputs:
    """What the rows of one step see in all layers of a kind that attends."""

    rotation: Tensor | None  # (rows, 1, head_dim / 2), complex
    first: int  # block of the cache
    bias: Tensor  # see causal_bias


@dataclass(frozen=True, slots=True)
class Step:
    """One forward step: ``inputs`` has one entry for each ``Kind``, None where it does not attend."""

    state: TorchState
    inputs: Sequence[AttentionInputs | None]
    final: bool


class TorchDecoder(LayerDecoder[TorchState, Step]):
    """A decoder for one sequence, up to 16 rows a step, more in prefill."""

    prefill_rows = 128  # enough to be limited by arithmetic, few enough for small buffers

    def __init__(
        self,
        architecture: Architecture,
        names: Names,
        tensor: TensorSource,
        info: ModelInfo,
        kernels: Kernels = PLAIN,
    ) -> None:
        norm = tensor(names.norm)
        super().__init__(architecture, info, norm.dtype, norm.device)
        self.norm = make_norm(architecture, norm)
        self.activation = by_rows(activation(architecture.activation))
        # The largest float copies come and go before anything else is there.
        table = tensor(names.embedding)  # (vocabulary, hidden)
        self.embedding = kernels.embedding(table)
        self.head = kernels.linear(table if architecture.tied else tensor(names.head))
        del table
        specs = list(dict.fromkeys(architecture.layers))
        self.kinds = [self._kind(spec) for spec in specs]
        self.layers = [
            (specs.index(spec), self._load(names.layer(index), spec, tensor, kernels))
            for index, spec in enumerate(architecture.layers)
        ]
        self.attend = choose_attend(
            architecture.heads,
            architecture.kv_heads,
            architecture.head_dim,
            self.dtype,
            self.device,
        )

    def _kind(self, spec: LayerSpec) -> Kind:
        if not isinstance(spec.mixer, Attention):
            return Kind()
        rope, window = spec.mixer.rope, spec.mixer.window
        if rope is None:
            return Kind(True, None, window)
        table = rotations(rope, self.architecture.head_dim, self._info.context)
        return Kind(True, table.to(self.device), window)

    def _load(self, prefix: str, spec: LayerSpec, tensor: TensorSource, kernels: Kernels) -> Layer:
        return load_layer(self.architecture, spec, lambda name: tensor(prefix + name), kernels)

    def new_state(self, context: int, aux_layers: Sequence[AuxLayer] = ()) -> TorchState:
        """See ``HiddenStateModel``."""
        aux = self.new_aux(aux_layers, context)
        return TorchState(self.architecture, context, self.dtype, self.device, aux)

    @torch.inference_mode()
    def logits(self, normed: Tensor) -> Tensor:
        """See ``Backbone``."""
        logits = self.head(normed.to(self.dtype)).float()
        cap = self.architecture.logit_cap
        return logits if cap is None else cap * by_rows(torch.tanh)(logits / cap)

    def final_norm(self, x: Tensor) -> Tensor:
        """See ``LayerDecoder``."""
        return self.norm(x)

    def positions(self, state: TorchState, rows: int) -> Tensor:
        """See ``LayerDecoder``."""
        return torch.arange(state.end, state.end + rows, device=self.device)

    def begin(self, state: TorchState, rows: int, *, final: bool) -> Step:
        """See ``LayerDecoder``."""
        inputs = [self._attention_inputs(kind, state, rows) for kind in self.kinds]
        return Step(state, inputs, final)

    def mixer(self, index: int, x: Tensor, step: Step) -> Tensor:
        """See ``LayerDecoder``."""
        (kind, layer), spec = self.layers[index], self.architecture.layers[index].mixer
        normed = layer.mixer_norm(x)
        if isinstance(layer.mixer, AttentionWeights):
            inputs, slot = step.inputs[kind], step.state.slots[index]
            assert inputs is not None
            mixed = self._attention(layer.mixer, normed, step.state, slot, inputs)
        else:
            assert isinstance(spec, GatedDeltaNet)
            memory, epsilon = step.state.memories[index], self.architecture.epsilon
            mixed = gated_delta.mix(layer.mixer, spec, normed, memory, epsilon, final=step.final)
        return x + (mixed if layer.mixer_after is None else layer.mixer_after(mixed))

    def feed_forward(self, index: int, x: Tensor) -> Tensor:
        """See ``LayerDecoder``."""
        _, layer = self.layers[index]
        gate, up = layer.gate_up(layer.mlp_norm(x)).chunk(2, dim=-1)
        result = layer.down(self.activation(gate) * up)
        return x + (result if layer.mlp_after is None else layer.mlp_after(result))

    def _attention_inputs(self, kind: Kind, state: KVCache, rows: int) -> AttentionInputs | None:
        if not kind.attends:
            return None
        start, end = state.end, state.end + rows
        first = first_block(start, kind.window)
        keys, _ = state.blocks(0, end, first)
        group = self.architecture.heads // self.architecture.kv_heads
        bias = causal_bias(start, rows, group, len(keys), keys, first=first, window=kind.window)
        rotation = None if kind.rotation is None else kind.rotation[start:end, None, :]
        return AttentionInputs(rotation, first, bias)

    def _attention(
        self,
        weights: AttentionWeights,
        x: Tensor,
        cache: KVCache,
        slot: int,
        inputs: AttentionInputs,
    ) -> Tensor:
        a, start, rows = self.architecture, cache.end, x.shape[0]
        rotated = a.heads + a.kv_heads
        qkv = weights.qkv(x).view(rows, rotated + a.kv_heads, a.head_dim)
        qk = qkv[:, :rotated]
        if weights.qk_norm is not None:
            qk = F.rms_norm(qk.float(), (a.head_dim,), None, a.epsilon) * weights.qk_norm
        if inputs.rotation is not None:
            pairs = qk.float().view(rows, rotated, a.head_dim // 2, 2)
            qk = torch.view_as_real(torch.view_as_complex(pairs) * inputs.rotation)
            qk = qk.view(rows, rotated, a.head_dim)
        query, key = qk.to(x.dtype).split((a.heads, a.kv_heads), dim=1)
        cache.write(slot, start, key, qkv[:, rotated:])
        keys, values = cache.blocks(slot, start + rows, inputs.first)
        return weights.output(
            self.attend(query.contiguous(), keys, values, inputs.bias, a.score_cap)
        )
