"""The compiled step's state of one sequence: keys, values, aux hidden states, and recurrences.

A recurrent layer has two states. One has taken in committed tokens; rows that are pending go from it to
the other, the tip. If all of them are committed, the two change places. If some are, the step takes
these in again before its next rows, by the code that computed them, from what the layer keeps of its
last rows.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.kernels.native import library as native
from engine.kernels.native import structures
from engine.machine.device_memory import zeros
from engine.models.architecture import Architecture, Recurrent
from engine.models.hidden_states import AuxHiddenStates, AuxLayer
from engine.models.prompt_content import PromptContent
from engine.models.sequence_state import Checkpoints, SequenceState
from engine.values import CHECKPOINT_MB, MAX_ROWS, RECENT_ROWS


@dataclass(frozen=True, slots=True)
class Saved:
    """States behind ``absorbed`` tokens, and the rows that are needed to go on from there."""

    states: Sequence[Tensor]
    recent: Sequence[Tensor]
    absorbed: int

    @property
    def bytes(self) -> int:
        """What it takes."""
        return sum(each.nbytes for each in (*self.states, *self.recent))


class Recurrences:
    """The memory of each recurrent layer, as recent_rows.h and gated_delta.h read it."""

    def __init__(self, specs: Sequence[Recurrent]) -> None:
        self._kernel = max((spec.kernel for spec in specs), default=1)
        self.states = [zeros((2, spec.state_numbers), torch.float32) for spec in specs]
        self.recent = [
            zeros((RECENT_ROWS + MAX_ROWS, spec.row_numbers), torch.float32) for spec in specs
        ]
        self._current = 0  # which state has taken in committed tokens
        self._absorbed = 0  # how many
        self.view = (structures.Recurrence * len(specs))()
        for view, states, recent in zip(self.view, self.states, self.recent, strict=True):
            view.states = (ctypes.c_void_p * 2)(*(state.data_ptr() for state in states))
            view.recent = recent.data_ptr()

    def place(self, sequence: structures.Sequence, before: SequenceState, *, final: bool) -> None:
        """Say in ``sequence``, whose rows follow ``before``, between which states they go."""
        pending, tip = before.pending, 1 - self._current
        assert final or pending + sequence.rows + self._kernel - 1 <= RECENT_ROWS or not self.states
        sequence.from_, sequence.to = (tip if pending else self._current), tip
        sequence.absorbed, sequence.pending = (before.end if pending else self._absorbed), tip
        if final:
            sequence.to = self._current

    def computed(self, rows: int, before: SequenceState, *, final: bool) -> None:
        """Note that the step did what ``place`` said."""
        if not before.pending:
            self._absorbed = before.length + (rows if final else 0)

    def commit(self, rows: Sequence[int], before: SequenceState) -> None:
        """Keep these of the rows of a chain that are pending in ``before``."""
        if before.pending and len(rows) == before.pending:
            self._current, self._absorbed = 1 - self._current, before.end

    def commit_tree(self, rows: Sequence[int], *, length: int) -> None:
        """Keep a path of a tree: its rows stand at their positions from now on."""
        for recent in self.recent:
            for position, row in enumerate(rows, length):
                recent[position % RECENT_ROWS] = recent[RECENT_ROWS + row]

    def save(self, length: int) -> Saved:
        """Return a copy of what is behind ``length`` committed tokens."""
        rows = self._rows(self._absorbed, length)
        return Saved(
            [states[self._current].clone() for states in self.states],
            [recent[rows] for recent in self.recent],
            self._absorbed,
        )

    def restore(self, saved: Saved | None, length: int) -> None:
        """Go back to ``saved``, which was behind ``length`` tokens; None: to the beginning."""
        if saved is None:
            self._absorbed = 0
            for states in self.states:
                states[self._current].zero_()
            return
        self._absorbed = saved.absorbed
        rows = self._rows(saved.absorbed, length)
        for states, state in zip(self.states, saved.states, strict=True):
            states[self._current].copy_(state)
        for recent, kept in zip(self.recent, saved.recent, strict=True):
            recent[rows] = kept

    def _rows(self, absorbed: int, length: int) -> list[int]:
        first = max(0, absorbed - self._kernel + 1)
        return [position % RECENT_ROWS for position in range(first, length)]


class NativeState(SequenceState):
    """Keys and values of one sequence, in the layout of attention.h.

    For each size of heads keys (layers, kv_heads, groups, head_dim, 16), values (layers, kv_heads,
    groups * 16, head_dim), float32 or bfloat16, as are the hidden states. The last group is for the rows
    of a tree.
    """

    def __init__(
        self,
        architecture: Architecture,
        context: int,
        dtype: torch.dtype,
        aux: AuxHiddenStates | None = None,
        checkpoint_bytes: int = CHECKPOINT_MB << 20,
    ) -> None:
        super().__init__(context, aux)
        groups = -(-context // native.LANES) + 1
        sizes = architecture.kv_sizes
        layers = Counter(sizes)
        # By size, so that a row of all layers is copied at once.
        self.keys = {
            (heads, width): zeros((count, heads, groups, width, native.LANES), dtype)
            for (heads, width), count in layers.items()
        }
        self.values = {
            (heads, width): zeros((count, heads, groups * native.LANES, width), dtype)
            for (heads, width), count in layers.items()
        }
        self._slots = [_addresses(sizes, each) for each in (self.keys, self.values)]
        self._last_slots = architecture.last_slots
        self._places = [(size, sizes[:slot].count(size)) for slot, size in enumerate(sizes)]
        self._placed: object = None  # what the current step points into
        aux_layers = (
            [] if aux is None else [_aux_layer(aux, aux_layer) for aux_layer in aux.aux_layers]
        )
        self.aux_layers = (structures.AuxLayer * len(aux_layers))(*aux_layers)
        mixers = [spec.mixer for spec in architecture.layers]
        self.recurrences = Recurrences([each for each in mixers if isinstance(each, Recurrent)])
        self._checkpoints: Checkpoints[Saved] = Checkpoints(checkpoint_bytes)
        self.view = structures.Cache(
            *self._slots,
            self.recurrences.view,
            self.aux_layers,
            len(aux_layers),
            dtype == torch.bfloat16,
            groups * native.LANES,
        )

    @property
    def crops(self) -> bool:
        return not self.recurrences.states

    def place(self, sequence: structures.Sequence, rows: int, *, final: bool) -> None:
        """Say in ``sequence`` that it computes ``rows`` behind this state."""
        assert self.end + rows <= self.context
        sequence.cache, sequence.rows, sequence.start = self.view, rows, self.end
        self.recurrences.place(sequence, self, final=final)
        if self.content is not None:
            self._place_content(sequence, self.content, rows)

    def _place_content(
        self, sequence: structures.Sequence, content: PromptContent, rows: int
    ) -> None:
        """Say in ``sequence`` which rows have embeddings of their own, and where in images they are."""
        sequence.shift = content.shift
        if self.end >= content.end:
            return
        places = content.positions(self.end, self.end + rows)
        embedded = (ctypes.c_void_p * rows)()
        embeddings = list(content.embeddings(self.end, self.end + rows))
        for first, part in embeddings:
            for row, embedding in enumerate(part, first):
                embedded[row] = embedding.data_ptr()
        sequence.embedded = ctypes.addressof(embedded)
        sequence.places = places.data_ptr()
        self._placed = embedded, embeddings, places  # until the next step, which points into them

    def kv_buffers(self, slides: bool) -> tuple[Tensor, Tensor]:
        size, number = self._places[self._last_slots[slides]]
        return self.keys[size][number], self.values[size][number]

    def keys_values(self, slides: bool, end: int) -> tuple[Tensor, Tensor]:
        keys, values = self.kv_buffers(slides)
        return keys.transpose(2, 3).flatten(1, 2)[:, :end], values[:, :end]

    def append(self, rows: int, *, final: bool) -> None:
        self.recurrences.computed(rows, self, final=final)
        super().append(rows, final=final)

    def commit(self, rows: Sequence[int]) -> None:
        if self._tree is None or not rows:
            self.recurrences.commit(rows, self)
        super().commit(rows)

    def _keep_path(self, rows: Sequence[int]) -> None:
        # The step has left a tree's rows in the last group.
        for position, row in enumerate(rows, self.length):
            group, lane = divmod(position, native.LANES)
            for size in self.keys:
                keys, values = self.keys[size], self.values[size]
                keys[:, :, group, :, lane] = keys[:, :, -1, :, row]
                values[:, :, position] = values[:, :, row - native.ROWS]
        if self.aux is not None:
            self.aux.keep(self.length, rows)
        self.recurrences.commit_tree(rows, length=self.length)

    def reachable(self, length: int) -> int:
        """See ``SequenceState``. Recurrent layers go back to where they were saved, and to 0."""
        length = super().reachable(length)
        if self.crops or length == self.length:
            return length
        return self._checkpoints.reachable(length)

    def rewind(self, length: int) -> None:
        before = self.length
        super().rewind(length)
        if self.recurrences.states and length != before:
            saved = self._checkpoints.at(length) if length else None
            self.recurrences.restore(saved, length)
            self._checkpoints.forget_after(length)

    def save_checkpoint(self) -> None:
        if self.recurrences.states and self.length:
            saved = self.recurrences.save(self.length)
            self._checkpoints.save(self.length, saved, saved.bytes)

    def copy_prefix(self, other: SequenceState, length: int) -> int:
        """See ``SequenceState``. The last group of keys is copied whole, with stale ones."""
        assert isinstance(other, NativeState) and length <= other.length
        length = other.reachable(length)
        if length <= self.length:
            return self.length
        if self.recurrences.states:
            at_end = length == other.length
            saved = other.recurrences.save(length) if at_end else other._checkpoints.at(length)
            self.recurrences.restore(saved, length)
        groups = slice(self.length // native.LANES, -(-length // native.LANES))
        rows = slice(self.length, length)
        for size in self.keys:
            self.keys[size][:, :, groups] = other.keys[size][:, :, groups]
            self.values[size][:, :, rows] = other.values[size][:, :, rows]
        if self.aux is not None and other.aux is not None:
            self.aux.rows[:, rows] = other.aux.rows[:, rows]
        self.settle(length)
        return length


def _addresses(
    sizes: Sequence[tuple[int, int]], tensors: Mapping[tuple[int, int], Tensor]
) -> ctypes.Array[ctypes.c_void_p]:
    """Return the address of each slot's part, in the order of the attention layers."""
    left = {size: iter(tensor) for size, tensor in tensors.items()}
    return (ctypes.c_void_p * len(sizes))(*(next(left[size]).data_ptr() for size in sizes))


def _aux_layer(aux: AuxHiddenStates, aux_layer: AuxLayer) -> structures.AuxLayer:
    return structures.AuxLayer(
        aux.at(aux_layer).data_ptr(), -1 if aux_layer.layer is None else aux_layer.layer
    )
