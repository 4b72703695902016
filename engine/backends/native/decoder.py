"""The compiled executor of a decoder: its step is C++, with weights in its own layout.

Every row, of a prompt or a draft, goes through the same code, so its bits depend on no row beside it.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import weakref
from collections.abc import Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from engine.backends.native.state import NativeState
from engine.kernels.formats.blocks import Weight
from engine.kernels.native import library as native
from engine.kernels.native import structures
from engine.kernels.native.library import Library, Matrix
from engine.kernels.operands import GROUP
from engine.kernels.torch.factory import Kernels, plain_embedding
from engine.kernels.torch.linear import Biased, Linear
from engine.models.activations import soft_cap
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
    Temperature,
)
from engine.models.base import Entry, ModelInfo
from engine.models.hidden_states import AuxHiddenStates, AuxLayer, EmbeddingAndHead
from engine.models.rotation import cosines, temperatures
from engine.models.sequence_state import SequenceState
from engine.models.tensor_shapes import Names
from engine.models.trimmed_vocabulary import TrimmedVocabulary
from engine.models.weights import (
    AttentionWeights,
    ExpertsWeights,
    GatedDeltaWeights,
    GatedMlpWeights,
    Layer,
    Mamba2Weights,
    MlpWeights,
    RmsNorm,
    ShortConvolutionWeights,
    WeightSource,
    load_layer,
    load_per_layer,
    read_norm,
)
from engine.noise import Draws

__all__ = ["Library", "NativeDecoder", "takes_file_dtype"]

MIXERS: Mapping[type, structures.Mixer] = {
    Attention: structures.Mixer.ATTENTION,
    GatedDeltaNet: structures.Mixer.GATED_DELTA,
    Mamba2: structures.Mixer.MAMBA2,
    ShortConvolution: structures.Mixer.SHORT_CONVOLUTION,
}
FEED_FORWARDS: Mapping[type, structures.FeedForward] = {
    GatedMlp: structures.FeedForward.GATED_MLP,
    Mlp: structures.FeedForward.MLP,
    Experts: structures.FeedForward.EXPERTS,
}
"""The step's numbers of mixers and feed-forwards."""
_QUERIES = ("self_attn.q_proj.weight", "self_attn.qkv_proj.weight")

assert GROUP == native.LANES, "tokens are kept by whole panels"


def takes_file_dtype(architecture: Architecture, quantization: str) -> bool:
    """Return whether matrices may keep the file's dtype until ``quantization`` rounds them.

    The scale of the scores is folded into a weight, which in bf16 is exact only for a power of two.
    """
    exact = all(
        each.qk_norm or math.frexp(each.query_scale)[0] == 0.5 for each in architecture.attentions
    )
    return exact or quantization != "fp32"


class Positions:
    """Tables of the positions up to ``context``, which layers share."""

    def __init__(self, architecture: Architecture, context: int) -> None:
        self.rotations: dict[tuple[Rope, int], Tensor] = {}
        self._temperatures: dict[Temperature, Tensor] = {}
        for each in set(architecture.attentions):
            if each.rope is not None:
                key = each.rope, each.head_dim
                self.rotations[key] = cosines(*key, context)
            if each.temperature is not None:
                self._temperatures[each.temperature] = temperatures(each.temperature, context)

    def rotation(self, spec: Attention) -> int | None:
        """Return the address of a layer's cosines and sines, None if it has no positions."""
        rope = spec.rope
        return None if rope is None else self.rotations[rope, spec.head_dim].data_ptr()

    def temperature(self, spec: Attention) -> int | None:
        """Return the address of what a layer's queries are multiplied by, None if they are not."""
        wanted = spec.temperature
        return None if wanted is None else self._temperatures[wanted].data_ptr()


class TrimmedHead:
    """The panels of a trimmed vocabulary, their tokens, and a buffer for a row of their logits."""

    def __init__(self, vocabulary: TrimmedVocabulary, tokens: int) -> None:
        self.vocabulary = vocabulary
        self.ids = vocabulary.ids(tokens)
        self.logits = torch.empty(1, vocabulary.groups * GROUP)
        runs = [structures.Range(run.start, run.stop) for run in vocabulary.runs]
        self._runs = (structures.Range * len(runs))(*runs)
        self.panels = structures.TrimmedPanels(
            self._runs, len(self._runs), vocabulary.groups, len(self.ids)
        )

    def below(self, limit: int) -> int:
        """Return the number of tokens below ``limit``; they come first."""
        return int(torch.searchsorted(self.ids, limit))

    def widened(self, tokens: int) -> Tensor:
        """Return logits of the whole vocabulary: ``(1, tokens)``, -inf at all other tokens."""
        row = torch.full((1, tokens), float("-inf"))
        row[0, self.ids] = self.logits[0, : len(self.ids)]
        return row


class NativeDecoder:
    """A decoder whose steps compute rows of one sequence, or of several."""

    def __init__(
        self,
        architecture: Architecture,
        names: Names,
        tensor: WeightSource,
        info: ModelInfo,
        library: Library,
        kind: str,
        cached: torch.dtype,
        rounded: str | None = None,
    ) -> None:
        """Make the step. ``tensor`` returns vectors in float32; keys and values are stored in ``cached``.

        Matrices in blocks stay in blocks; others are stored in ``kind``. ``rounded``: see
        ``native.make_matrix``; it applies to all but the embedding.
        """
        self.architecture, self._info, self._library = architecture, info, library
        self._cached = cached
        make = partial(native.make_matrix, library, kind, rounded=rounded)
        if kind == "fp32" and not takes_file_dtype(architecture, kind):
            tensor = partial(_with_wide_queries, tensor)
        table = tensor(names.embedding)
        embedding = native.make_matrix(library, kind, table)
        head = embedding if architecture.tied else make(tensor(names.head))
        del table
        exact = partial(native.make_matrix, library, "fp32")
        kernels = Kernels(make, plain_embedding, exact, stacked=True)
        layers = [
            load_layer(architecture, spec, names.within(index, tensor), kernels)
            for index, spec in enumerate(architecture.layers)
        ]
        norm = read_norm(architecture, tensor, names.norm)
        positions = Positions(architecture, info.context)
        slots, recurrent = architecture.kv_slots, itertools.count()
        parts = [
            _layer(layer, spec, positions, slots[index] if index in slots else next(recurrent))
            for index, (layer, spec) in enumerate(zip(layers, architecture.layers, strict=True))
        ]
        shape = structures.Shape(
            embedding=embedding.pointer,
            head=head.pointer,
            norm=_norm(norm),
            vocabulary=architecture.vocabulary,
            hidden=architecture.hidden,
            context=info.context,
            layer_norms=architecture.layer_norms,
            norm_bias=architecture.norm_bias,
            parallel=architecture.parallel,
            epsilon=architecture.epsilon,
            residual_scale=architecture.residual_scale,
            logit_scale=architecture.logit_scale,
            # Rounded like a weight: Gemma was trained so (transformers, pull request 29402).
            embedding_scale=float(torch.tensor(architecture.embedding_scale, dtype=cached)),
        )
        per_layer = load_per_layer(architecture, names, tensor, kernels)
        second = None if per_layer is None else make(tensor(names.per_layer_embedding))
        if per_layer is not None and second is not None:
            shape.own_width = architecture.per_layer_width or 0
            shape.own_projection, shape.own_embedding = (
                _matrix(per_layer.projection),
                second.pointer,
            )
            shape.own_norm = per_layer.norm.weight.data_ptr()
            shape.own_epsilon, shape.own_scale = per_layer.norm.epsilon, per_layer.scale
        # The structures point to these, so they live as long as the decoder.
        self._embedding, self._head = embedding, head
        self._per_layer = per_layer, second
        self._layers, self._norm, self._positions = layers, norm, positions
        self._trimmed_head: TrimmedHead | None = None
        self._begin(shape, parts)

    def _begin(self, shape: structures.Shape, parts: Sequence[structures.Layer]) -> None:
        """Make the step of these layers. Raises MemoryError."""
        shape.layers = (structures.Layer * len(parts))(*parts)
        shape.count = len(parts)
        self._shape, self._parts = shape, parts
        pointer = self._library.new_decoder(ctypes.byref(shape), self._library.pool)
        if not pointer:
            raise MemoryError("no memory for the buffers of a step")
        self._pointer = pointer
        weakref.finalize(self, self._library.free_decoder, pointer)

    @property
    def info(self) -> ModelInfo:
        return self._info

    def experts_read(self) -> float:
        """See ``MixtureModel``."""
        chosen = sum(each.chosen for each in self.architecture.mixtures)
        return float(self._library.experts_read(self._pointer) / chosen)

    def new_state(self, context: int, aux_layers: Sequence[AuxLayer] = ()) -> NativeState:
        """See ``HiddenStateModel``."""
        aux = AuxHiddenStates(
            aux_layers,
            layers=len(self.architecture.layers),
            hidden=self.architecture.hidden,
            context=context,
            dtype=self._cached,
            device=torch.device("cpu"),
        )
        return NativeState(
            self.architecture,
            context,
            self._cached,
            aux if aux_layers else None,
            self._info.checkpoint_bytes,
        )

    @property
    def embedding_and_head(self) -> EmbeddingAndHead:
        """See ``Backbone``."""
        a = self.architecture
        return EmbeddingAndHead(
            self._embedding, self._head, a.logit_cap, a.logit_scale, self._positions.rotations
        )

    def embed(self, tokens: Sequence[int]) -> Tensor:
        """See ``Backbone``."""
        return self._embedding.rows(tokens)

    def logits(self, normed: Tensor) -> Tensor:
        """See ``Backbone``."""
        return self._capped(self._head(normed * self.architecture.logit_scale))

    def _capped(self, logits: Tensor) -> Tensor:
        return soft_cap(logits, self.architecture.logit_cap)

    def forward(
        self, tokens: Sequence[int], state: SequenceState, *, last: int, final: bool = True
    ) -> Tensor:
        """See ``Model.forward``."""
        assert isinstance(state, NativeState) and 0 <= last <= len(tokens)
        logits = torch.empty(last, self.architecture.vocabulary)
        ids = _ids(tokens)
        step = self._step(ids, state, last, logits, final=final)
        self._library.forward(self._pointer, ctypes.byref(step))
        state.append(len(tokens), final=final)
        return self._capped(logits)

    def forward_trimmed(
        self,
        tokens: Sequence[int],
        state: SequenceState,
        trimmed: TrimmedVocabulary,
        *,
        final: bool = True,
    ) -> Tensor:
        """See ``GeneratingModel``."""
        assert isinstance(state, NativeState)
        head = self._trimmed_head_of(trimmed)
        ids = _ids(tokens)
        step = self._step(ids, state, 1, head.logits, final=final, trimmed=head.panels)
        self._library.forward(self._pointer, ctypes.byref(step))
        state.append(len(tokens), final=final)
        return self._capped(head.widened(self.architecture.vocabulary))

    def forward_tree(
        self, tokens: Sequence[int], parents: Sequence[int], state: SequenceState
    ) -> Tensor:
        """See ``TreeModel``."""
        assert len(tokens) <= native.ROWS
        (logits,) = self.forward_batch([Entry(tokens, state, parents)])
        return logits

    @property
    def batch_rows(self) -> int:
        """See ``BatchModel``."""
        return native.MAX_STEP_ROWS

    def forward_batch(self, entries: Sequence[Entry]) -> list[Tensor]:
        """See ``BatchModel``."""
        assert sum(len(entry.tokens) for entry in entries) <= native.MAX_STEP_ROWS
        # Rows with logits come last.
        order = sorted(range(len(entries)), key=lambda index: not entries[index].final)
        ordered = [entries[index] for index in order]
        sequences = (structures.Sequence * len(entries))()
        alive = []
        for sequence, entry in zip(sequences, ordered, strict=True):
            assert isinstance(entry.state, NativeState)
            entry.state.place(sequence, len(entry.tokens), final=entry.final)
            if entry.parents is not None:
                assert len(entry.tokens) <= native.ROWS
                alive.append((ctypes.c_int32 * len(entry.parents))(*entry.parents))
                sequence.parents = ctypes.addressof(alive[-1])
        ids = _ids([token for entry in ordered for token in entry.tokens])
        rows = [len(entry.tokens) * (not entry.final) for entry in ordered]
        logits = torch.empty(sum(rows), self.architecture.vocabulary)
        step = structures.Step(
            ctypes.addressof(ids), sequences, len(entries), sum(rows), logits.data_ptr()
        )
        self._library.forward(self._pointer, ctypes.byref(step))
        for entry in entries:
            assert isinstance(entry.state, NativeState)
            if entry.parents is None:
                entry.state.append(len(entry.tokens), final=entry.final)
            else:
                entry.state.append_tree(entry.parents)
        by_index = dict(zip(order, self._capped(logits).split(rows), strict=True))
        return [by_index[index] for index in range(len(entries))]

    def generate(
        self,
        tokens: Sequence[int],
        state: SequenceState,
        depth: int,
        limit: int,
        draws: Draws | None = None,
        floor: float = 0.0,
        trimmed: TrimmedVocabulary | None = None,
        *,
        final: bool = True,
    ) -> tuple[list[int], list[float]]:
        """See ``GeneratingModel``."""
        assert isinstance(state, NativeState)
        ids = _ids(tokens)
        chosen, probabilities = (ctypes.c_int64 * depth)(), (ctypes.c_float * depth)()
        if trimmed is None:
            logits = torch.empty(1, self.architecture.vocabulary)
            step, numbers = self._step(ids, state, 1, logits, final=final), None
            limit = min(limit, self.architecture.vocabulary)
        else:
            head = self._trimmed_head_of(trimmed)
            step = self._step(ids, state, 1, head.logits, final=final, trimmed=head.panels)
            numbers, limit = head.ids.data_ptr(), head.below(limit)
        sharpness, keys = 1.0, None
        if draws is not None:
            sharpness, keys = 1 / draws.temperature, (ctypes.c_uint64 * depth)(*draws.keys)
        count = self._library.draft(
            self._pointer, ctypes.byref(step), depth, limit, numbers,
            sharpness, keys, floor, chosen, probabilities,
        )  # fmt: skip
        state.append(len(tokens), final=final)
        state.append(count - 1, final=False)
        return chosen[:count], probabilities[:count]

    def _trimmed_head_of(self, trimmed: TrimmedVocabulary) -> TrimmedHead:
        """Return the trimmed head of a vocabulary; the last one is cached."""
        if self._trimmed_head is None or self._trimmed_head.vocabulary is not trimmed:
            self._trimmed_head = TrimmedHead(trimmed, self.architecture.vocabulary)
        return self._trimmed_head

    def _step(
        self,
        ids: ctypes.Array[ctypes.c_int64],
        state: NativeState,
        last: int,
        logits: Tensor,
        *,
        final: bool,
        trimmed: structures.TrimmedPanels | None = None,
    ) -> structures.Step:
        """Return a step of one sequence. It points into its arguments, which must outlive it."""
        sequence = structures.Sequence()
        state.place(sequence, len(ids), final=final)
        return structures.Step(
            ctypes.addressof(ids),
            ctypes.pointer(sequence),
            1,
            last,
            logits.data_ptr(),
            structures.TrimmedPanels() if trimmed is None else trimmed,
        )


def _ids(tokens: Sequence[int]) -> ctypes.Array[ctypes.c_int64]:
    return (ctypes.c_int64 * len(tokens))(*tokens)


def _with_wide_queries(tensor: WeightSource, name: str) -> Weight:
    """Return queries in float32: in 16 bits, the scale of the scores would round them again."""
    weight = tensor(name)
    if isinstance(weight, Tensor) and name.endswith(_QUERIES):
        return weight.float()
    return weight


def _layer(layer: Layer, spec: LayerSpec, positions: Positions, slot: int) -> structures.Layer:
    """Return ``layer`` for the step. ``slot``: the index of what its mixer keeps of a sequence."""
    feed_forward = layer.feed_forward
    made = structures.Layer(
        mixer=MIXERS[type(spec.mixer)],
        feed_forward=FEED_FORWARDS[type(spec.feed_forward)],
        mixer_norm=_norm(layer.mixer_norm),
        mixer_after=_norm(layer.mixer_after),
        mlp_norm=_norm(layer.feed_forward_norm),
        mlp_after=_norm(layer.feed_forward_after),
        scalar=layer.scalar,
    )
    if isinstance(feed_forward, ExpertsWeights):
        assert isinstance(spec.feed_forward, Experts)
        made.experts = experts(feed_forward, spec.feed_forward)
    else:
        mlp = spec.feed_forward
        made.mlp = _mlp(feed_forward, mlp.intermediate, mlp.activation)
    if layer.own_input is not None:
        made.own = structures.OwnInput(
            gate=_matrix(layer.own_input.gate),
            output=_matrix(layer.own_input.output),
            after=layer.own_input.after.weight.data_ptr(),
            function=native.GATES[spec.feed_forward.activation],
        )
    match layer.mixer, spec.mixer:
        case AttentionWeights(), Attention():
            made.attention = _attention(layer.mixer, spec.mixer, positions, slot)
        case GatedDeltaWeights(), GatedDeltaNet():
            made.delta = _gated_delta(layer.mixer, spec.mixer, slot)
        case Mamba2Weights(), Mamba2():
            made.mamba = _mamba2(layer.mixer, spec.mixer, slot)
        case ShortConvolutionWeights(), ShortConvolution():
            made.convolution = _short_convolution(layer.mixer, spec.mixer, slot)
    return made


def _norm(norm: RmsNorm | None) -> int | None:
    """Return the address of a norm's weight, behind which its bias lies."""
    return None if norm is None else norm.weight.data_ptr()


def _mlp(weights: GatedMlpWeights | MlpWeights, width: int, activation: str) -> structures.GatedMlp:
    return structures.GatedMlp(
        gate_up=_matrix(weights.up if isinstance(weights, MlpWeights) else weights.gate_up),
        down=_matrix(weights.down),
        intermediate=width,
        gate=native.GATES[activation],
    )


def _address(vector: Tensor | None) -> int | None:
    return None if vector is None else vector.data_ptr()


def experts(weights: ExpertsWeights, spec: Experts) -> structures.Experts:
    """Return a mixture for the step, which points into ``weights``."""
    assert not isinstance(weights.gate_up, tuple) and not isinstance(weights.down, tuple)
    shared, norms = structures.GatedMlp(), weights.norms
    if weights.shared is not None and spec.shared is not None:
        shared = _mlp(weights.shared, spec.shared, spec.activation)
    return structures.Experts(
        router=_matrix(weights.router),
        gate_up=_matrix(weights.gate_up),
        down=_matrix(weights.down),
        score_bias=_address(weights.score_bias),
        score_scale=_address(weights.score_scale),
        norm=norms and norms.experts.data_ptr(),
        shared_norm=norms and norms.shared.data_ptr(),
        after=norms and _norm(norms.experts_after),
        shared_after=norms and _norm(norms.shared_after),
        shared=shared,
        count=spec.count,
        chosen=spec.chosen,
        intermediate=spec.intermediate,
        gate=native.GATES[spec.activation],
        sigmoid=spec.sigmoid,
        renormalised=spec.renormalised,
        shared_gate=spec.shared_gate,
        scale=spec.scale,
        clamp=spec.clamp or 0.0,
    )


def _attention(
    weights: AttentionWeights, spec: Attention, positions: Positions, slot: int
) -> structures.Attention:
    return structures.Attention(
        qkv=_matrix(weights.qkv),
        output=_matrix(weights.output),
        qk_norm=None if weights.qk_norm is None else weights.qk_norm.data_ptr(),
        sinks=None if weights.sinks is None else weights.sinks.data_ptr(),
        rotation=positions.rotation(spec),
        temperature=positions.temperature(spec),
        heads=spec.heads,
        kv_heads=spec.kv_heads,
        head_dim=spec.head_dim,
        window=spec.window or 0,
        slot=slot,
        output_gate=spec.output_gate,
        shared=spec.shared_with is not None,
        value_norm=spec.value_norm,
        qk_norm_across_heads=spec.qk_norm_across_heads,
        qk_norm_after_rope=spec.qk_norm_after_rope,
        score_cap=spec.score_cap or 0.0,
    )


def _gated_delta(
    weights: GatedDeltaWeights, spec: GatedDeltaNet, slot: int
) -> structures.GatedDelta:
    return structures.GatedDelta(
        inputs=_matrix(weights.inputs),
        output=_matrix(weights.output),
        convolution=weights.convolution.data_ptr(),
        decay=weights.decay.data_ptr(),
        decay_bias=weights.decay_bias.data_ptr(),
        norm=weights.norm.data_ptr(),
        key_heads=spec.key_heads,
        value_heads=spec.value_heads,
        key_dim=spec.key_dim,
        value_dim=spec.value_dim,
        kernel=spec.kernel,
        slot=slot,
        tiled=spec.tiled,
    )


def _mamba2(weights: Mamba2Weights, spec: Mamba2, slot: int) -> structures.Mamba2:
    return structures.Mamba2(
        inputs=_matrix(weights.inputs),
        output=_matrix(weights.output),
        convolution=weights.convolution.data_ptr(),
        convolution_bias=weights.convolution_bias.data_ptr(),
        decay=weights.decay.data_ptr(),
        step_bias=weights.step_bias.data_ptr(),
        skip=weights.skip.data_ptr(),
        norm=weights.norm.data_ptr(),
        heads=spec.heads,
        head_dim=spec.head_dim,
        groups=spec.groups,
        state=spec.state,
        kernel=spec.kernel,
        slot=slot,
    )


def _short_convolution(
    weights: ShortConvolutionWeights, spec: ShortConvolution, slot: int
) -> structures.ShortConvolution:
    return structures.ShortConvolution(
        inputs=_matrix(weights.inputs),
        output=_matrix(weights.output),
        convolution=weights.convolution.data_ptr(),
        width=spec.width,
        kernel=spec.kernel,
        slot=slot,
    )


def _matrix(linear: Linear) -> int:
    """Return the step's matrix of a linear layer; from now on it adds the bias."""
    matrix = linear.linear if isinstance(linear, Biased) else linear
    assert isinstance(matrix, Matrix)
    if isinstance(linear, Biased):
        matrix.set_bias(linear.bias)
    return matrix.pointer
