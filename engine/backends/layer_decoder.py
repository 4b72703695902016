"""The forward pass of a decoder, written once: a loop over its layers, each a mixer and a feed-forward.

An executor (torch, CUDA) derives from ``LayerDecoder`` and implements each part of a layer.
The compiled step has the same loop in C++ (kernels/native/step/decoder.h).
The functions below compute layers of heads and of torch's decoder with ``Operations``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar, Generic, TypeVar

import torch
from torch import Tensor

from engine.backends.operations import Arithmetic, Memory, Operations
from engine.kernels.operands import Rows
from engine.models.architecture import Architecture, Attention, Experts, GatedMlp, Mlp
from engine.models.base import ModelInfo
from engine.models.hidden_states import NORMED, AuxHiddenStates, AuxLayer
from engine.models.sequence_state import SequenceState
from engine.models.weights import (
    ExpertsWeights,
    GatedMlpWeights,
    Layer,
    LayerNorm,
    MlpWeights,
    RmsNorm,
)

State = TypeVar("State", bound=SequenceState)
Step = TypeVar("Step")


class LayerDecoder(ABC, Generic[State, Step]):
    """A ``Backbone`` whose steps compute rows of one sequence, or of several where the executor can.

    ``State`` is a sequence's state in this executor; ``Step`` holds what the layers of one step share.
    """

    prefill_rows: ClassVar[int]
    """Rows of one step of a prompt."""
    embedding: Callable[[Tensor], Tensor]
    """Token ids (rows,) -> (rows, hidden) in ``dtype``."""

    def __init__(
        self, architecture: Architecture, info: ModelInfo, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.architecture, self._info = architecture, info
        self.dtype, self.device = dtype, device
        # Rounded like a weight: Gemma was trained so (transformers, pull request 29402).
        self.scale = float(torch.tensor(architecture.embedding_scale, dtype=dtype))

    @property
    def info(self) -> ModelInfo:
        return self._info

    def without_drafts(self, why: str) -> None:
        """Let nothing draft for this model; see ``ModelInfo.undraftable``."""
        self._info = replace(self._info, undraftable=why)

    @abstractmethod
    def begin(self, state: State, rows: int, *, final: bool) -> Step:
        """Return what all layers need for ``rows`` rows after ``state``."""

    @abstractmethod
    def mixer(self, index: int, x: Tensor, step: Step) -> Tensor:
        """Return ``x (rows, hidden)`` plus layer ``index``'s mixer on normed ``x``.

        Mutates the state: the mixer writes what later rows need of these.
        """

    @abstractmethod
    def feed_forward(self, index: int, x: Tensor, mixed: Tensor) -> Tensor:
        """Return ``mixed`` plus layer ``index``'s feed-forward on normed ``x``, both (rows, hidden)."""

    def own_inputs(self, ids: Tensor, x: Tensor) -> Tensor | None:
        """Return the layers' own inputs (rows, layers, width) for embedded ``x``; None without."""
        return None

    def finish(self, index: int, x: Tensor, own: Tensor | None) -> Tensor:
        """Return layer ``index``'s result, for ``x`` of its feed-forward and the ``own`` inputs."""
        return x

    @abstractmethod
    def final_norm(self, x: Tensor) -> Tensor:
        """Return ``x (rows, hidden)`` normed for the output head."""

    @abstractmethod
    def logits(self, normed: Tensor) -> Tensor:
        """See ``Backbone``."""

    @abstractmethod
    def positions(self, state: State, rows: int) -> Tensor:
        """Return the positions of the next ``rows`` rows' hidden states: int64 (rows,)."""

    @torch.inference_mode()
    def embed(self, tokens: Sequence[int]) -> Tensor:
        return self.embedding(torch.tensor(tokens, dtype=torch.long, device=self.device)).float()

    def predict(self, hidden: Tensor) -> Tensor:
        """Return the logits of the last layer's output: float32 (rows, vocabulary)."""
        return self.logits(self.final_norm(hidden))

    @torch.inference_mode()
    def forward(
        self, tokens: Sequence[int], state: SequenceState, *, last: int, final: bool = True
    ) -> Tensor:
        """See ``Model.forward``. Long inputs run in steps of ``prefill_rows``."""
        ids = torch.tensor(tokens, dtype=torch.long).to(self.device)
        return self._forward(ids, state, self.run_layers, last=last, final=final)

    @torch.inference_mode()
    def forward_rows(
        self, x: Tensor, state: SequenceState, *, last: int, final: bool = True
    ) -> Tensor:
        """Return ``forward`` of rows whose input to the first layer here, ``x (rows, hidden)``, another
        executor has computed."""
        x = x.to(self.device, self.dtype)
        return self._forward(x, state, self.run_rows, last=last, final=final)

    def _forward(
        self,
        inputs: Tensor,
        state: SequenceState,
        run: Callable[[Tensor, Sequence[tuple[State, int]], Step], Tensor],
        *,
        last: int,
        final: bool,
    ) -> Tensor:
        own: State = state  # type: ignore[assignment]  # states are made by ``new_state`` alone
        hidden = []
        for part in inputs.split(self.prefill_rows):
            hidden.append(run(part, [(own, len(part))], self.begin(own, len(part), final=final)))
            own.append(len(part), final=final)
        if not last:
            return torch.empty(0, self.architecture.vocabulary, device=self.device)
        return self.predict(torch.cat(hidden)[-last:])

    def step(self, ids: Tensor, state: State, *, final: bool = True) -> Tensor:
        """Run the layers on ``ids (rows,)`` after ``state``; return (rows, hidden).

        Writes these rows to the state, but does not append them. Reads nothing back from the device, so a
        graph may capture it.
        """
        return self.run_layers(ids, [(state, len(ids))], self.begin(state, len(ids), final=final))

    def run_layers(self, ids: Tensor, parts: Sequence[tuple[State, int]], step: Step) -> Tensor:
        """Return the layers' output for ``ids (rows,)``, of which each state of ``parts`` has so many."""
        x = self.embedding(ids)
        if self.scale != 1:
            x = x * self.scale
        start = 0
        for state, rows in parts:
            part = x[start : start + rows]
            if state.content is not None:
                for first, embeddings in state.content.embeddings(state.end, state.end + rows):
                    part[first : first + len(embeddings)] = embeddings
            start += rows
        return self.run_rows(x, parts, step, self.own_inputs(ids, x))

    def run_rows(
        self, x: Tensor, parts: Sequence[tuple[State, int]], step: Step, own: Tensor | None = None
    ) -> Tensor:
        """Return ``run_layers`` for the first layer's input ``x (rows, hidden)``; see ``own_inputs``."""
        places, start = [], 0
        for state, rows in parts:
            if state.aux is not None:
                place = slice(start, start + rows)
                places.append((state.aux, self.positions(state, rows), place))
            start += rows
        for index in range(len(self.architecture.layers)):
            for aux, positions, place in places:
                aux.write(AuxLayer(index), positions, x[place])
            mixed = self.mixer(index, x, step)
            x = self.feed_forward(index, x if self.architecture.parallel else mixed, mixed)
            x = self.finish(index, x, own)
        for aux, positions, place in places:
            aux.write(AuxLayer(len(self.architecture.layers)), positions, x[place])
            if aux.has(NORMED):
                aux.write(NORMED, positions, self.final_norm(x[place]))
        return x

    def new_aux(self, aux_layers: Sequence[AuxLayer], context: int) -> AuxHiddenStates | None:
        """See ``AuxHiddenStates.of``."""
        return AuxHiddenStates.of(self.architecture, aux_layers, context, self.dtype, self.device)


def attention(
    ops: Operations,
    spec: Attention,
    layer: Layer,
    x: Tensor,
    memory: Memory,
    index: int,
    rows: Rows,
) -> Tensor:
    """Return the attention of ``layer``, the ``index``-th in ``memory``, for its normed input ``x``."""
    weights = layer.attention
    qkv, gates = ops.linear(weights.qkv, x), None
    if spec.output_gate:
        qkv, gates = qkv.tensor_split([-spec.heads * spec.head_dim], dim=1)
    attended = ops.attend(qkv, memory, index, weights.qk_norm, rows)
    if gates is not None:
        attended = ops.activate("sigmoid", gates, times=attended)
    return ops.linear(weights.output, attended)


def feed_forward(
    ops: Operations, spec: GatedMlp | Mlp | Experts, layer: Layer, x: Tensor
) -> Tensor:
    """Return ``x (rows, hidden)`` plus ``layer``'s feed-forward on normed ``x``."""
    weights, normed = layer.feed_forward, norm(ops, layer.feed_forward_norm, x)
    if isinstance(weights, ExpertsWeights):
        assert isinstance(spec, Experts)
        result = ops.experts(spec, weights, normed)
    else:
        result = mlp(ops, spec.activation, weights, normed)
    return add_residual(ops, x, result, layer.feed_forward_after)


def mlp(
    ops: Arithmetic, activation: str, weights: GatedMlpWeights | MlpWeights, normed: Tensor
) -> Tensor:
    """Return the MLP of its normed input ``(rows, hidden)``."""
    if isinstance(weights, MlpWeights):
        inner = ops.activate(activation, ops.linear(weights.up, normed))
    else:
        gate, up = ops.linear(weights.gate_up, normed).chunk(2, dim=1)
        inner = ops.activate(activation, gate, times=up)
    return ops.linear(weights.down, inner)


def add_own_input(ops: Arithmetic, function: str, layer: Layer, x: Tensor, own: Tensor) -> Tensor:
    """Return ``x (rows, hidden)`` plus what ``layer`` makes of its ``own`` input (rows, width)."""
    weights = layer.own_input
    assert weights is not None
    gated = ops.activate(function, ops.linear(weights.gate, x), times=own)
    return add_residual(ops, x, ops.linear(weights.output, gated), weights.after)


def add_residual(
    ops: Arithmetic, x: Tensor, result: Tensor, after: RmsNorm | None, scale: float = 1.0
) -> Tensor:
    """Return ``x`` plus ``scale`` times ``result``, which is normed by ``after`` if there is one."""
    return ops.add(x, norm(ops, after, result), scale)


def norm(ops: Arithmetic, weights: RmsNorm | None, x: Tensor) -> Tensor:
    """Return ``x (rows, width)``, normed if there are ``weights``."""
    if weights is None:
        return x
    if isinstance(weights, LayerNorm):
        wide = x.to(weights.weight.dtype)
        normed = torch.layer_norm(wide, x.shape[-1:], weights.weight, weights.bias, weights.epsilon)
        return normed.to(x.dtype)
    return ops.norm(x, weights.epsilon, weight=weights.weight, bias=weights.bias)
