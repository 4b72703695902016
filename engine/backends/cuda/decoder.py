"""The captured executor of a decoder: Triton's kernels on a CUDA device.

A step of 1 to 16 rows reads every weight once. Its position is on the device, so it may be captured in a
graph. In Triton's interpreter everything is in the CPU's memory.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from engine.backends.cuda import layers
from engine.backends.cuda.attention import DecoderAttention
from engine.backends.cuda.feed_forward import CudaExperts
from engine.backends.cuda.heads import HeadOperations
from engine.backends.cuda.passes import GraphCache, Parts
from engine.backends.cuda.recurrent import new_memories
from engine.backends.cuda.state import DeviceState, Step
from engine.backends.cuda.trial.verdicts import Verdict, kernel_errors
from engine.backends.layer_decoder import LayerDecoder
from engine.backends.support import ALL_MIXERS, ATTENTION, DECODER, EXPERTS, GATED_MLP, Support
from engine.kernels.cuda import STREAMED_ROWS
from engine.kernels.cuda.kv_cache import StaticKVCache
from engine.kernels.cuda.linear.bulk import BulkLinear
from engine.kernels.cuda.linear.dispatch import DTYPE, convert_weight, embedding_of
from engine.kernels.cuda.linear.fusion import FusedLinear, Norm, normalise
from engine.kernels.cuda.trees import tree_table
from engine.kernels.formats import AS_STORED, QUANTISED
from engine.kernels.formats.block_planes import FORMS
from engine.machine.devices import device_errors
from engine.models.activations import ACTIVATIONS, by_rows
from engine.models.architecture import (
    Architecture,
    Attention,
    GatedDeltaNet,
    Mamba2,
    ShortConvolution,
)
from engine.models.base import Entry, ModelInfo
from engine.models.hidden_states import AuxLayer
from engine.models.rounds import RoundDrafter, RoundRunner
from engine.models.sequence_state import SequenceState
from engine.models.tensor_shapes import Names
from engine.models.weight_loading import WeightSource, read_norm
from engine.values import MAX_ROWS

SUPPORT = Support(
    "The CUDA kernels",
    {
        Attention: ATTENTION[Attention]
        | {"temperature", "output_gate", "rope.axes", "sinks", "shared_with", "value_norm"},
        **{mixer: ALL_MIXERS[mixer] for mixer in (GatedDeltaNet, Mamba2, ShortConvolution)},
    },
    {**GATED_MLP, **EXPERTS},
    ACTIVATIONS,
    ("bf16", *QUANTISED, AS_STORED),
    DECODER | {"post_norms", "residual_scale", "logit_scale", "per_layer_width", "layer_scalars"},
    frozenset(FORMS),
)


def why_not(architecture: Architecture, weights: str, blocks: Collection[str] = ()) -> str | None:
    """Return why the kernels cannot run such a model, as a sentence for people; None if they can.

    ``blocks``: see ``Support.why_not``.
    """
    return SUPPORT.why_not(architecture, weights, blocks) or layers.wrong_width(architecture)


class CudaDecoder(LayerDecoder[DeviceState, Step]):
    """See ``RoundModel``, ``BatchModel``, ``TreeModel``. Steps of 1 to 16 rows have the same bits.

    All layers share the cache, whose length on the device is the position of a step's first row.
    """

    prefill_rows = 2048  # cuBLAS is at its best, and buffers are some hundred megabytes
    batch_rows = MAX_ROWS

    def __init__(
        self,
        architecture: Architecture,
        names: Names,
        tensor: WeightSource,
        info: ModelInfo,
        quantization: str,
        kv_dtype: torch.dtype = torch.bfloat16,
    ) -> None:
        """``quantization``: bf16, int8, nf4 or stored. ``kv_dtype``: bf16, or e4m3 in half the memory."""
        self.norm: Norm = read_norm(architecture, tensor, names.norm)
        super().__init__(architecture, info, DTYPE, self.norm.weight.device)
        self.cached = kv_dtype
        weight = convert_weight(quantization, tensor(names.embedding), self.device)
        self.embedding = embedding_of(weight)
        if not architecture.tied:
            weight = convert_weight(quantization, tensor(names.head), self.device)
        self.head = BulkLinear(weight)
        self.attention = DecoderAttention(architecture, info.context, self.device)
        self.layers = [
            layers.load(
                architecture,
                spec,
                names.within(index, tensor),
                quantization,
                self.attention.rotation(spec.mixer),
                self.device,
            )
            for index, spec in enumerate(architecture.layers)
        ]
        self.own = layers.load_own_inputs(architecture, names, tensor, quantization, self.device)
        self.verdict: Verdict | None = None  # of the kernels' trial, if there was one
        self._slots = architecture.kv_slots
        self._graphs = GraphCache(self.device)

    def new_state(self, context: int, aux_layers: Sequence[AuxLayer] = ()) -> DeviceState:
        """See ``HiddenStateModel``. Raise DeviceLost if the GPU is lost."""
        with device_errors(self.device):
            capacity = min(context, self._info.context)
            static = StaticKVCache(
                self.architecture.kv_sizes,
                capacity=capacity,
                device=self.device,
                dtype=self.cached,
            )
            self.attention.prepare(capacity)
            aux = self.new_aux(aux_layers, capacity + 1)
            memories = new_memories(self.architecture, self.device)
            saved = self._info.checkpoint_bytes
            images, slots = self.attention.in_images, self.architecture.last_slots
            return DeviceState(static, aux, memories, saved, images, slots)

    @torch.inference_mode()
    def logits(self, normed: Tensor) -> Tensor:
        """See ``Backbone``; the head's sums are not rounded to bf16."""
        logits = _joined([self.head(part.float()) for part in normed.split(STREAMED_ROWS)])
        logits, cap = logits * self.architecture.logit_scale, self.architecture.logit_cap
        return logits if cap is None else cap * torch.tanh(logits / cap)

    def forward(
        self, tokens: Sequence[int], state: SequenceState, *, last: int, final: bool = True
    ) -> Tensor:
        """See ``Model.forward``. Raise DeviceLost if the GPU is lost, KernelsFailed if a launch fails."""
        assert isinstance(state, DeviceState) and 0 <= last <= len(tokens)
        assert state.end + len(tokens) <= state.context
        with device_errors(self.device), kernel_errors(self.verdict):
            return super().forward(tokens, state, last=last, final=final)

    def forward_rows(
        self, x: Tensor, state: SequenceState, *, last: int, final: bool = True
    ) -> Tensor:
        """See ``LayerDecoder``; what a round verifies is captured as a graph. Raise as ``forward``."""
        assert isinstance(state, DeviceState) and state.end + len(x) <= state.context
        with device_errors(self.device), kernel_errors(self.verdict), torch.inference_mode():
            if final or len(x) > MAX_ROWS:
                return super().forward_rows(x, state, last=last, final=final)
            logits = self._graphs.run_rows(self._pass_rows, x.to(self.dtype), state)
            state.append(len(x), final=final)
            return logits[len(x) - last :]

    def _pass_rows(self, x: Tensor, parts: Parts) -> Tensor:
        step = [(state, rows, None) for state, rows in parts]
        return self.predict(self.run_rows(x, parts, step))

    def round_runner(
        self,
        state: SequenceState,
        drafter: RoundDrafter | None = None,
        *,
        captures: bool = True,
    ) -> RoundRunner:
        from engine.backends.cuda.graphs import Runner  # it needs Triton
        from engine.backends.cuda.round import DeviceRound

        assert isinstance(state, DeviceState)
        if not captures:
            self.without_graphs()
        return Runner(DeviceRound(self, state, drafter), captures, self.verdict)

    def without_graphs(self) -> None:
        self._graphs.captures = False

    def round_drafter(self, state: SequenceState) -> RoundDrafter:
        from engine.backends.cuda.round import ModelDrafter

        assert isinstance(state, DeviceState)
        return ModelDrafter(self, state)

    def head_operations(self, state: SequenceState) -> HeadOperations:
        assert isinstance(state, DeviceState)
        return HeadOperations(self, state)

    def final_norm(self, x: Tensor) -> Tensor:
        return normalise(x, self.norm)

    def positions(self, state: DeviceState, rows: int) -> Tensor:
        """See ``LayerDecoder``. Rows beyond the capacity go to one spare row."""
        cache = state.static
        return (cache.length + torch.arange(rows, device=self.device)).clamp_max(cache.capacity)

    @torch.inference_mode()
    def forward_batch(self, entries: Sequence[Entry]) -> list[Tensor]:
        """See ``BatchModel``. Linear layers compute the rows of all chains at once, attention each
        sequence's. A tree is computed alone: it comes once in that form, so no graph would serve it."""
        assert sum(len(entry.tokens) for entry in entries) <= MAX_ROWS
        chains = [entry for entry in entries if entry.parents is None]
        states = []
        for entry in chains:
            assert isinstance(entry.state, DeviceState)
            states.append(entry.state)
        with device_errors(self.device), kernel_errors(self.verdict):
            tokens = [entry.tokens for entry in chains]
            computed = iter(self._graphs.run(self._pass, tokens, states) if chains else ())
            for entry in chains:
                entry.state.append(len(entry.tokens), final=entry.final)
        found = []
        for entry in entries:
            if entry.parents is not None:
                found.append(self.forward_tree(entry.tokens, entry.parents, entry.state))
                continue
            logits = next(computed)
            found.append(logits[:0] if entry.final else logits)
        return found

    def _pass(self, ids: Tensor, parts: Parts) -> Tensor:
        step = [(state, rows, None) for state, rows in parts]
        return self.predict(self.run_layers(ids, parts, step))

    @torch.inference_mode()
    def forward_tree(
        self, tokens: Sequence[int], parents: Sequence[int], state: SequenceState
    ) -> Tensor:
        """See ``TreeModel``. Raises as ``forward``."""
        assert isinstance(state, DeviceState) and len(tokens) <= MAX_ROWS
        assert state.end + len(tokens) <= state.context
        with device_errors(self.device), kernel_errors(self.verdict):
            ids, rows = torch.tensor(tokens).to(self.device), len(tokens)
            step = [(state, rows, tree_table(parents).to(self.device))]
            logits = self.predict(self.run_layers(ids, [(state, rows)], step))
            state.append_tree(parents)
        return logits

    def begin(self, state: DeviceState, rows: int, *, final: bool) -> Step:
        return [(state, rows, None)]

    def run_rows(
        self,
        x: Tensor,
        parts: Sequence[tuple[DeviceState, int]],
        step: Step,
        own: Tensor | None = None,
    ) -> Tensor:
        """See ``LayerDecoder``."""
        for state, rows, tree in step:
            if state.memories is not None:
                state.memories.begin(state.static.length, rows, tree)
        return super().run_rows(x, parts, step, own)

    def mixer(self, index: int, x: Tensor, step: Step) -> Tensor:
        """See ``LayerDecoder``. ``inputs`` includes the norm, ``output`` the residual."""
        layer, spec = self.layers[index], self.architecture.layers[index].mixer
        inputs, gates = layer.inputs(x), None
        if isinstance(spec, Attention) and spec.output_gate:
            inputs, gates = inputs.tensor_split([-spec.heads * spec.head_dim], dim=1)
        results = []
        counts = [rows for _, rows, _ in step]
        for part, (state, _, tree) in zip(inputs.split(counts), step, strict=True):
            if isinstance(spec, Attention):
                kv = state.static.slots[self._slots[index]]
                results.append(self.attention(layer, spec, part, kv, state, tree))
            else:
                memories, recurrence = state.memories, layer.recurrence
                assert memories is not None and recurrence is not None
                memory = memories.layers[index]
                results.append(recurrence(part, memory, memories))
                memories.keep(memory, part)
        result = _joined(results)
        if gates is not None:
            result = by_rows(torch.sigmoid)(gates) * result
        return self._add(x, layer.output, result, layer.mixer_after)

    def feed_forward(self, index: int, x: Tensor, mixed: Tensor) -> Tensor:
        """See ``LayerDecoder``. Fused like ``mixer``."""
        part, after = self.layers[index].feed_forward, self.layers[index].feed_forward_after
        if isinstance(part, CudaExperts):
            return self._plus(mixed, part(x), after)
        return self._add(mixed, part.down, part.inner(x), after)

    def own_inputs(self, ids: Tensor, x: Tensor) -> Tensor | None:
        return None if self.own is None else self.own(ids, x)

    def finish(self, index: int, x: Tensor, own: Tensor | None) -> Tensor:
        """See ``LayerDecoder``."""
        layer = self.layers[index]
        if layer.own_input is not None and own is not None:
            x = layer.own_input(x, own[:, index])
        return x * layer.scalar if self.architecture.layer_scalars else x

    def _add(self, x: Tensor, linear: FusedLinear, inner: Tensor, after: Norm | None) -> Tensor:
        """Return ``x`` plus ``linear`` of ``inner``, normed by ``after`` if there is one, and scaled."""
        if after is None and self.architecture.residual_scale == 1:
            return linear(inner, x)
        return self._plus(x, linear(inner), after)

    def _plus(self, x: Tensor, result: Tensor, after: Norm | None) -> Tensor:
        """Return ``x`` plus ``result``, normed by ``after`` if there is one, and scaled."""
        scale = self.architecture.residual_scale
        if after is None:
            return torch.add(x, result, alpha=scale)
        if scale == 1:
            return normalise(result, after, x)
        return torch.add(x, normalise(result, after), alpha=scale)


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)
