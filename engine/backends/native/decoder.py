"""The own decoder with its step in C++: the same ``Architecture``, weights in the step's own layout.

Every row, in a prompt or beside drafted ones, goes through the same code; its bits depend on nothing
beside it.
"""

from __future__ import annotations

import ctypes
import math
import weakref
from collections.abc import Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from engine.backends.native.state import NativeState
from engine.backends.native.trimmed_head import TrimmedHead
from engine.kernels.formats.blocks import Weight
from engine.kernels.native import library as native
from engine.kernels.native import structures
from engine.kernels.native.library import Library, Matrix
from engine.kernels.torch.factory import Kernels, plain_embedding
from engine.kernels.torch.linear import Biased, Linear
from engine.models.activations import by_rows
from engine.models.architecture import Architecture, LayerSpec, Rope
from engine.models.base import Entry, ModelInfo
from engine.models.hidden_states import AuxHiddenStates, AuxLayer, EmbeddingAndHead
from engine.models.rotation import cosines
from engine.models.sequence_state import SequenceState
from engine.models.trimmed_vocabulary import TrimmedVocabulary
from engine.models.weights import Layer, Names, WeightSource, load_layer, make_norm
from engine.noise import Draws

__all__ = ["Library", "NativeDecoder", "takes_file_dtype"]

_QUERIES = ("self_attn.q_proj.weight", "self_attn.qkv_proj.weight")


def takes_file_dtype(architecture: Architecture, quantization: str) -> bool:
    """Return whether matrices may keep the file's dtype, rounded only by ``quantization``.

    The scale of the scores is folded into a weight: in bf16 that is exact for a power of two alone.
    """
    exact = all(
        each.qk_norm or math.frexp(each.query_scale)[0] == 0.5 for each in architecture.attentions
    )
    return exact or quantization != "fp32"


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
        """``tensor`` gives vectors in float32; keys and values are kept in ``cached``.

        Matrices that it gives in blocks stay so; others are held in ``kind``. ``rounded``: as
        ``native.Matrix``, of all but the embedding.
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
        kernels = Kernels(make, plain_embedding)
        layers = [
            load_layer(architecture, spec, partial(_at, tensor, names.layer(index)), kernels)
            for index, spec in enumerate(architecture.layers)
        ]
        last = tensor(names.norm)
        assert isinstance(last, Tensor)
        norm = make_norm(architecture, last)
        rotations = {
            (each.rope, each.head_dim): cosines(each.rope, each.head_dim, info.context)
            for each in set(architecture.attentions)
            if each.rope is not None
        }
        parts = [
            _layer(layer, spec, rotations, slot)
            for slot, (layer, spec) in enumerate(zip(layers, architecture.layers, strict=True))
        ]
        shape = structures.Shape(
            embedding=embedding.pointer,
            head=head.pointer,
            norm=norm.weight.data_ptr(),
            vocabulary=architecture.vocabulary,
            hidden=architecture.hidden,
            context=info.context,
            epsilon=architecture.epsilon,
            # Rounded like a weight: Gemma was trained so (transformers, pull request 29402).
            embedding_scale=float(torch.tensor(architecture.embedding_scale, dtype=cached)),
        )
        # What the structures point to lives as long as the decoder.
        self._embedding, self._head = embedding, head
        self._layers, self._kept = layers, (norm, rotations)
        self._trimmed_head: TrimmedHead | None = None
        self._begin(shape, parts)

    def _begin(self, shape: structures.Shape, parts: Sequence[structures.Layer]) -> None:
        """Makes the step of these layers. Raises MemoryError."""
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

    def new_state(self, context: int, aux_layers: Sequence[AuxLayer] = ()) -> NativeState:
        """See ``TappableModel``."""
        aux = AuxHiddenStates(
            aux_layers,
            layers=len(self.architecture.layers),
            hidden=self.architecture.hidden,
            context=context,
            dtype=self._cached,
            device=torch.device("cpu"),
        )
        return NativeState(self.architecture, context, self._cached, aux if aux_layers else None)

    @property
    def embedding_and_head(self) -> EmbeddingAndHead:
        """See ``Backbone``."""
        return EmbeddingAndHead(self._embedding, self._head, self.architecture.logit_cap)

    def embed(self, tokens: Sequence[int]) -> Tensor:
        """See ``Backbone``."""
        return self._embedding.rows(tokens)

    def logits(self, normed: Tensor) -> Tensor:
        """See ``Backbone``."""
        return self._capped(self._head(normed))

    def _capped(self, logits: Tensor) -> Tensor:
        cap = self.architecture.logit_cap
        return logits if cap is None else cap * by_rows(torch.tanh)(logits / cap)

    def forward(
        self, tokens: Sequence[int], state: SequenceState, *, last: int, final: bool = True
    ) -> Tensor:
        """See ``Model.forward``."""
        assert isinstance(state, NativeState) and 0 <= last <= len(tokens)
        logits = torch.empty(last, self.architecture.vocabulary)
        ids = _ids(tokens)
        step = self._step(ids, state, last, logits)
        self._library.forward(self._pointer, ctypes.byref(step))
        state.append(len(tokens), final=final)
        return self._capped(logits)

    def forward_among(
        self,
        tokens: Sequence[int],
        state: SequenceState,
        among: TrimmedVocabulary,
        *,
        final: bool = True,
    ) -> Tensor:
        """See ``WritingModel``."""
        assert isinstance(state, NativeState)
        trimmed = self._trimmed_to(among)
        ids = _ids(tokens)
        step = self._step(ids, state, 1, trimmed.logits, trimmed=trimmed.panels)
        self._library.forward(self._pointer, ctypes.byref(step))
        state.append(len(tokens), final=final)
        return self._capped(trimmed.widened(self.architecture.vocabulary))

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
        return native.MOST_ROWS

    def forward_batch(self, parts: Sequence[Entry]) -> list[Tensor]:
        """See ``BatchModel``."""
        assert sum(len(part.tokens) for part in parts) <= native.MOST_ROWS
        order = sorted(range(len(parts)), key=lambda at: not parts[at].final)  # those come last
        ordered = [parts[at] for at in order]
        sequences = (structures.Sequence * len(parts))()
        alive = []
        for sequence, part in zip(sequences, ordered, strict=True):
            assert isinstance(part.state, NativeState)
            ancestors = None
            if part.parents is not None:
                assert len(part.tokens) <= native.ROWS
                alive.append((ctypes.c_int32 * len(part.parents))(*part.parents))
                ancestors = ctypes.addressof(alive[-1])
            _place(sequence, part.state, len(part.tokens), ancestors)
        ids = _ids([token for part in ordered for token in part.tokens])
        rows = [len(part.tokens) * (not part.final) for part in ordered]
        logits = torch.empty(sum(rows), self.architecture.vocabulary)
        step = structures.Step(
            ctypes.addressof(ids), sequences, len(parts), sum(rows), logits.data_ptr()
        )
        self._library.forward(self._pointer, ctypes.byref(step))
        for part in parts:
            assert isinstance(part.state, NativeState)
            if part.parents is None:
                part.state.append(len(part.tokens), final=part.final)
            else:
                part.state.append_tree(part.parents)
        found = dict(zip(order, self._capped(logits).split(rows), strict=True))
        return [found[at] for at in range(len(parts))]

    def write_on(
        self,
        tokens: Sequence[int],
        state: SequenceState,
        depth: int,
        limit: int,
        draws: Draws | None = None,
        floor: float = 0.0,
        among: TrimmedVocabulary | None = None,
        *,
        final: bool = True,
    ) -> tuple[list[int], list[float]]:
        """See ``WritingModel``."""
        assert isinstance(state, NativeState)
        ids = _ids(tokens)
        chosen, likely = (ctypes.c_int64 * depth)(), (ctypes.c_float * depth)()
        if among is None:
            logits = torch.empty(1, self.architecture.vocabulary)
            step, numbers = self._step(ids, state, 1, logits), None
            limit = min(limit, self.architecture.vocabulary)
        else:
            trimmed = self._trimmed_to(among)
            step = self._step(ids, state, 1, trimmed.logits, trimmed=trimmed.panels)
            numbers, limit = trimmed.ids.data_ptr(), trimmed.below(limit)
        sharpness, keys = 1.0, None
        if draws is not None:
            sharpness, keys = 1 / draws.temperature, (ctypes.c_uint64 * depth)(*draws.keys)
        count = self._library.continue_(
            self._pointer, ctypes.byref(step), depth, limit, numbers,
            sharpness, keys, floor, chosen, likely,
        )  # fmt: skip
        state.append(len(tokens), final=final)
        state.append(count - 1, final=False)
        return chosen[:count], likely[:count]

    def _trimmed_to(self, among: TrimmedVocabulary) -> TrimmedHead:
        """Return the trimmed head of ``among``; the last one is kept."""
        if self._trimmed_head is None or self._trimmed_head.among is not among:
            self._trimmed_head = TrimmedHead(among, self.architecture.vocabulary)
        return self._trimmed_head

    def _step(
        self,
        ids: ctypes.Array[ctypes.c_int64],
        state: NativeState,
        last: int,
        logits: Tensor,
        trimmed: structures.TrimmedPanels | None = None,
    ) -> structures.Step:
        """Return a step of one sequence. It points into its arguments, which must outlive it."""
        sequence = structures.Sequence()
        _place(sequence, state, len(ids))
        return structures.Step(
            ctypes.addressof(ids),
            ctypes.pointer(sequence),
            1,
            last,
            logits.data_ptr(),
            structures.TrimmedPanels() if trimmed is None else trimmed,
        )


def _place(
    sequence: structures.Sequence, state: NativeState, rows: int, parents: int | None = None
) -> None:
    """So many rows behind ``state``."""
    assert state.end + rows <= state.context
    sequence.cache, sequence.parents = state.view, parents
    sequence.rows, sequence.start = rows, state.end


def _ids(tokens: Sequence[int]) -> ctypes.Array[ctypes.c_int64]:
    return (ctypes.c_int64 * len(tokens))(*tokens)


def _at(tensor: WeightSource, prefix: str, name: str) -> Weight:
    return tensor(prefix + name)


def _with_wide_queries(tensor: WeightSource, name: str) -> Weight:
    """Return queries in float32: the scale of the scores, folded in, would round 16 bits again."""
    found = tensor(name)
    return found.float() if isinstance(found, Tensor) and name.endswith(_QUERIES) else found


def _layer(
    layer: Layer, spec: LayerSpec, rotations: Mapping[tuple[Rope, int], Tensor], slot: int
) -> structures.Layer:
    """Return ``layer`` for the step. ``slot``: where a cache has its keys and values."""
    weights, attention, mlp = layer.attention, spec.attention, layer.feed_forward
    rope, after = attention.rope, layer.feed_forward_after
    return structures.Layer(
        mixer_norm=layer.mixer_norm.weight.data_ptr(),
        mixer_after=layer.mixer_after and layer.mixer_after.weight.data_ptr(),
        mlp_norm=layer.feed_forward_norm.weight.data_ptr(),
        mlp_after=after and after.weight.data_ptr(),
        attention=structures.Attention(
            qkv=_matrix(weights.qkv),
            output=_matrix(weights.output),
            qk_norm=None if weights.qk_norm is None else weights.qk_norm.data_ptr(),
            rotation=None if rope is None else rotations[rope, attention.head_dim].data_ptr(),
            heads=attention.heads,
            kv_heads=attention.kv_heads,
            head_dim=attention.head_dim,
            window=attention.window or 0,
            slot=slot,
            score_cap=attention.score_cap or 0.0,
        ),
        mlp=structures.GatedMlp(
            gate_up=_matrix(mlp.gate_up),
            down=_matrix(mlp.down),
            intermediate=spec.feed_forward.intermediate,
            gate=native.GATES[spec.feed_forward.activation],
        ),
    )


def _matrix(linear: Linear) -> int:
    """Return the step's matrix of a linear layer, which adds the bias from now on."""
    matrix = linear.linear if isinstance(linear, Biased) else linear
    assert isinstance(matrix, Matrix)
    if isinstance(linear, Biased):
        matrix.set_bias(linear.bias)
    return matrix.pointer
