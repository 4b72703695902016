"""The compiled executor of a decoder: its step is C++, with weights in its own layout.

Every row, of a prompt or a draft, goes through the same code, so its bits depend on no row beside it.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import weakref
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from engine.backends.native.layers import Positions, fill, layer_structure
from engine.backends.native.state import NativeState
from engine.kernels.formats.blocks import Weight
from engine.kernels.native import library as native
from engine.kernels.native import structures
from engine.kernels.native.library import Kind, Library, Matrix
from engine.kernels.native.weight_cache import CachedWeights
from engine.kernels.operands import GROUP, Candidates
from engine.kernels.torch.factory import Kernels, plain_embedding
from engine.models.activations import soft_cap
from engine.models.architecture import Architecture
from engine.models.base import Entry, ModelInfo
from engine.models.hidden_states import AuxHiddenStates, AuxLayer, EmbeddingAndHead
from engine.models.sequence_state import SequenceState
from engine.models.tensor_shapes import Names
from engine.models.trimmed_vocabulary import TrimmedVocabulary
from engine.models.weight_loading import WeightSource, load_layer, load_per_layer, read_norm
from engine.noise import Draws
from engine.values import MAX_STEP_ROWS

__all__ = ["Library", "NativeDecoder", "takes_file_dtype"]

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


class TrimmedHead:
    """The panels of a trimmed vocabulary, their tokens, and a buffer for a row of their logits."""

    def __init__(self, vocabulary: TrimmedVocabulary, tokens: int) -> None:
        self.vocabulary, self._candidates = vocabulary, Candidates(tokens)
        self._candidates.choose(vocabulary.runs)
        self.ids = torch.from_numpy(self._candidates.chosen)
        self.panels = self._candidates.panels
        self.logits = torch.empty(1, self.panels.panels * GROUP)

    def below(self, limit: int) -> int:
        """Return the number of tokens below ``limit``; they come first."""
        return int(torch.searchsorted(self.ids, limit))

    def widened(self, tokens: int) -> Tensor:
        """Return logits of the whole vocabulary: ``(1, tokens)``, -inf at all other tokens."""
        row = torch.full((1, tokens), float("-inf"))
        row[0, self.ids] = self.logits[0, : len(self.ids)]
        return row


class NativeDecoder:
    """See ``HiddenStateModel``, ``GeneratingModel``, ``BatchModel`` and ``CompiledModel``."""

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
        cache: CachedWeights | None = None,
    ) -> None:
        """Make the step. ``tensor`` returns vectors in float32; keys and values are stored in ``cached``.

        Matrices in blocks stay in blocks; others are stored in ``kind``. ``rounded``: see
        ``Matrix``; it applies to all but the embedding. ``cache``: what may have
        packed matrices. Raises MemoryError.
        """
        self.architecture, self._info, self._library = architecture, info, library
        self._cached = cached
        make = partial(Matrix, library, library.kinds[kind], rounded=rounded, cache=cache)
        if kind == "fp32" and not takes_file_dtype(architecture, kind):
            tensor = partial(_with_wide_queries, tensor)
        table = tensor(names.embedding)
        embedding = make(table, rounded=None)
        head = embedding if architecture.tied else make(tensor(names.head))
        del table
        exact = partial(Matrix, library, Kind.FP32)
        kernels = Kernels(make, plain_embedding, exact, stacked=True)
        layers = [
            load_layer(architecture, spec, names.within(index, tensor), kernels)
            for index, spec in enumerate(architecture.layers)
        ]
        norm = read_norm(architecture, tensor, names.norm)
        positions = Positions(architecture, info.context)
        slots, recurrent = architecture.kv_slots, itertools.count()
        parts = [
            layer_structure(
                layer, spec, positions, slots[index] if index in slots else next(recurrent)
            )
            for index, (layer, spec) in enumerate(zip(layers, architecture.layers, strict=True))
        ]
        per_layer = load_per_layer(architecture, names, tensor, kernels)
        second = None if per_layer is None else make(tensor(names.per_layer_embedding))
        shape = structures.Shape()
        fill(
            shape,
            architecture,
            layers=(structures.Layer * len(parts))(*parts),
            count=len(parts),
            embedding=embedding,
            head=head,
            norm=norm,
            context=info.context,
            # Rounded like a weight: Gemma was trained so (transformers, pull request 29402).
            embedding_scale=float(torch.tensor(architecture.embedding_scale, dtype=cached)),
            own_width=architecture.per_layer_width,
            own_projection=per_layer and per_layer.projection,
            own_embedding=second,
            own_norm=per_layer and per_layer.norm,
            own_epsilon=per_layer and per_layer.norm.epsilon,
            own_scale=per_layer and per_layer.scale,
        )
        # The structures point to these, so they live as long as the decoder.
        self._embedding, self._head = embedding, head
        self._per_layer = per_layer, second
        self._layers, self._norm, self._positions = layers, norm, positions
        self._trimmed_head: TrimmedHead | None = None
        self._shape = shape
        self._pointer = library.new_decoder(ctypes.byref(shape), library.pool)
        if not self._pointer:
            raise MemoryError("no memory for the buffers of a step")
        weakref.finalize(self, library.free_decoder, self._pointer).atexit = False

    @property
    def info(self) -> ModelInfo:
        return self._info

    def experts_read(self) -> float:
        """See ``MixtureModel``."""
        chosen = sum(each.chosen for each in self.architecture.mixtures)
        return float(self._library.experts_read(self._pointer) / chosen)

    def new_state(self, context: int, aux_layers: Sequence[AuxLayer] = ()) -> NativeState:
        """See ``Model``. Raises ValueError for more than the model's context: the step reads its tables
        of positions unchecked."""
        if context > self._info.context:
            raise ValueError(f"a state of {context} rows for a context of {self._info.context}")
        a, cached = self.architecture, self._cached
        aux = AuxHiddenStates.of(a, aux_layers, context, cached, torch.device("cpu"))
        return NativeState(a, context, cached, aux, self._info.checkpoint_bytes)

    @property
    def embedding_and_head(self) -> EmbeddingAndHead:
        a = self.architecture
        return EmbeddingAndHead(
            self._embedding, self._head, a.logit_cap, a.logit_scale, self._positions.rotations
        )

    def embed(self, tokens: Sequence[int]) -> Tensor:
        return self._embedding.rows(tokens)

    def logits(self, normed: Tensor) -> Tensor:
        logits = self._head(normed * self.architecture.logit_scale)
        return soft_cap(logits, self.architecture.logit_cap)

    def forward(
        self, tokens: Sequence[int], state: SequenceState, *, last: int, final: bool = True
    ) -> Tensor:
        assert isinstance(state, NativeState) and 0 <= last <= len(tokens)
        logits = torch.empty(last, self.architecture.vocabulary)
        ids = _ids(tokens)
        step = self._step(ids, state, last, logits, final=final)
        self._library.forward(self._pointer, ctypes.byref(step))
        state.append(len(tokens), final=final)
        return logits

    def forward_trimmed(
        self,
        tokens: Sequence[int],
        state: SequenceState,
        trimmed: TrimmedVocabulary,
        *,
        final: bool = True,
    ) -> Tensor:
        assert isinstance(state, NativeState)
        head = self._trimmed_head_of(trimmed)
        ids = _ids(tokens)
        step = self._step(ids, state, 1, head.logits, final=final, trimmed=head.panels)
        self._library.forward(self._pointer, ctypes.byref(step))
        state.append(len(tokens), final=final)
        return head.widened(self.architecture.vocabulary)

    def forward_tree(
        self, tokens: Sequence[int], parents: Sequence[int], state: SequenceState
    ) -> Tensor:
        assert len(tokens) <= native.ROWS
        (logits,) = self.forward_batch([Entry(tokens, state, parents)])
        return logits

    @property
    def batch_rows(self) -> int:
        return MAX_STEP_ROWS

    def forward_batch(self, entries: Sequence[Entry]) -> list[Tensor]:
        assert sum(len(entry.tokens) for entry in entries) <= MAX_STEP_ROWS
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
        by_index = dict(zip(order, logits.split(rows), strict=True))
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
        sampling, keys = None, None
        if draws is not None:
            sampling = ctypes.byref(structures.Sampling.of(draws.sampling))
            keys = (ctypes.c_uint64 * depth)(*draws.keys)
        count = self._library.draft(
            self._pointer, ctypes.byref(step), depth, limit, numbers,
            sampling, keys, floor, chosen, probabilities,
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
