"""The own decoder: executes an ``Architecture``, row by row the same bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.backends.support import ATTENTION, Support
from engine.backends.torch import gated_delta
from engine.backends.torch.state import TorchState
from engine.kernels.cpu.attention import causal_bias, choose_attend, first_block
from engine.kernels.cpu.factory import PLAIN, Kernels
from engine.kernels.formats import FORMATS
from engine.models.activations import ACTIVATIONS, activation, by_rows
from engine.models.architecture import Architecture, Attention, GatedDeltaNet, LayerSpec
from engine.models.base import ModelInfo
from engine.models.hidden_states import NORMED, AuxHiddenStates, AuxLayer
from engine.models.rotation import rotations
from engine.models.sequence_state import KVCache, SequenceState
from engine.models.weights import (
    AttentionWeights,
    Layer,
    Names,
    TensorSource,
    load_layer,
    make_norm,
)

PREFILL_ROWS = 128
"""Rows of one prefill step: enough to be limited by arithmetic, few enough for small buffers."""

SUPPORT = Support(
    "The own decoder",
    ATTENTION
    | {"layers.mixer=GatedDeltaNet"}
    | {f"activation={name}" for name in ACTIVATIONS},
    FORMATS,
)  # fmt: skip
"""What it computes, in any size."""


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


class Decoder:
    """A decoder for one sequence, up to 16 rows a step, more in prefill."""

    def __init__(
        self,
        architecture: Architecture,
        names: Names,
        tensor: TensorSource,
        info: ModelInfo,
        kernels: Kernels = PLAIN,
    ) -> None:
        self.architecture = architecture
        self._info = info
        self.activation = by_rows(activation(architecture.activation))
        norm = tensor(names.norm)
        self.norm = make_norm(architecture, norm)
        self.dtype, self.device = norm.dtype, norm.device
        # The largest float copies come and go before anything else is there.
        table = tensor(names.embedding)  # (vocabulary, hidden)
        self.embedding = kernels.embedding(table)
        self.head = kernels.linear(table if architecture.tied else tensor(names.head))
        del table
        # Rounded like a weight: Gemma was trained so (transformers, pull request 29402).
        self.scale = float(torch.tensor(architecture.embedding_scale, dtype=self.dtype))
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

    @property
    def info(self) -> ModelInfo:
        return self._info

    def new_state(self, context: int, aux_layers: Sequence[AuxLayer] = ()) -> TorchState:
        """See ``TappableModel``."""
        features = AuxHiddenStates(
            aux_layers,
            layers=len(self.layers),
            hidden=self.architecture.hidden,
            context=context,
            dtype=self.dtype,
            device=self.device,
        )
        return TorchState(
            self.architecture, context, self.dtype, self.device, features if aux_layers else None
        )

    @torch.inference_mode()
    def embed(self, tokens: Sequence[int]) -> Tensor:
        """See ``Backbone``."""
        return self.embedding(torch.tensor(tokens, dtype=torch.long, device=self.device)).float()

    @torch.inference_mode()
    def logits(self, normed: Tensor) -> Tensor:
        """See ``Backbone``."""
        logits = self.head(normed.to(self.dtype)).float()
        cap = self.architecture.logit_cap
        return logits if cap is None else cap * by_rows(torch.tanh)(logits / cap)

    @torch.inference_mode()
    def forward(
        self, tokens: Sequence[int], state: SequenceState, *, last: int, final: bool = True
    ) -> Tensor:
        """See ``Model.forward``. Long inputs run in steps of ``PREFILL_ROWS``."""
        assert isinstance(state, TorchState)
        ids = torch.tensor(tokens, dtype=torch.long, device=self.device)
        hidden = torch.empty(0, self.architecture.hidden, dtype=self.dtype, device=self.device)
        kept = []
        for part in ids.split(PREFILL_ROWS):
            hidden = self._step(part, state, final=final)
            state.append(len(part), final=final)
            kept.append(hidden)
        if not last:
            return torch.empty(0, self.architecture.vocabulary, device=self.device)
        hidden = (hidden if last <= len(hidden) else torch.cat(kept))[-last:]
        return self.logits(self.norm(hidden))

    def _step(self, ids: Tensor, state: TorchState, *, final: bool = True) -> Tensor:
        """Run the layers on ``ids (rows,)`` at ``state.end``; return hidden (rows, hidden).

        Writes what these rows leave in the state, but not how many they are.
        """
        features, start = state.features, state.end
        inputs = [self._attention_inputs(kind, state, len(ids)) for kind in self.kinds]
        x = self.embedding(ids)
        if self.scale != 1:
            x = x * self.scale
        for index, (kind, layer) in enumerate(self.layers):
            if features is not None:
                features.write(AuxLayer(index), start, x)
            mixed = self._mix(index, layer, layer.mixer_norm(x), state, inputs[kind], final)
            if layer.mixer_after is not None:
                mixed = layer.mixer_after(mixed)
            x = x + mixed
            gate, up = layer.gate_up(layer.mlp_norm(x)).chunk(2, dim=-1)
            mixed = layer.down(self.activation(gate) * up)
            if layer.mlp_after is not None:
                mixed = layer.mlp_after(mixed)
            x = x + mixed
        if features is not None:
            features.write(AuxLayer(len(self.layers)), start, x)
            if features.has(NORMED):
                features.write(NORMED, start, self.norm(x))
        return x

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

    def _mix(
        self,
        index: int,
        layer: Layer,
        x: Tensor,
        state: TorchState,
        inputs: AttentionInputs | None,
        final: bool,
    ) -> Tensor:
        """The mixer's result for normed ``x (rows, hidden)``; leaves in the state what it keeps of it."""
        spec = self.architecture.layers[index].mixer
        if isinstance(layer.mixer, AttentionWeights):
            assert inputs is not None
            return self._attention(layer.mixer, x, state, state.slots[index], inputs)
        assert isinstance(spec, GatedDeltaNet)
        memory, epsilon = state.memories[index], self.architecture.epsilon
        return gated_delta.mix(layer.mixer, spec, x, memory, epsilon, final=final)

    def _attention(
        self,
        weights: AttentionWeights,
        x: Tensor,
        cache: KVCache,
        slot: int,
        inputs: AttentionInputs,
    ) -> Tensor:
        a, start, rows = self.architecture, cache.end, x.shape[0]
        turned = a.heads + a.kv_heads
        qkv = weights.qkv(x).view(rows, turned + a.kv_heads, a.head_dim)
        qk = qkv[:, :turned]
        if weights.qk_norm is not None:
            qk = F.rms_norm(qk.float(), (a.head_dim,), None, a.epsilon) * weights.qk_norm
        if inputs.rotation is not None:
            pairs = qk.float().view(rows, turned, a.head_dim // 2, 2)
            qk = torch.view_as_real(torch.view_as_complex(pairs) * inputs.rotation)
            qk = qk.view(rows, turned, a.head_dim)
        query, key = qk.to(x.dtype).split((a.heads, a.kv_heads), dim=1)
        cache.write(slot, start, key, qkv[:, turned:])
        keys, values = cache.blocks(slot, start + rows, inputs.first)
        return weights.output(
            self.attend(query.contiguous(), keys, values, inputs.bias, a.score_cap)
        )
