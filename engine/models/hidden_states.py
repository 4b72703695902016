"""The target's hidden states, for heads that draft from them: one row for every token in its state.

Row i belongs to token i. There is no length of its own: rows below the length of the sequence state that
holds them are valid, so they are committed and rewound with it. The pending token has no row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from engine.kernels.torch.linear import Linear
from engine.machine.device_memory import zeros
from engine.models.architecture import Architecture, Rope


@dataclass(frozen=True, slots=True)
class AuxLayer:
    """A place where the hidden state is read.

    ``layer`` i is the input of decoder layer i: 0 is the embedding, and the number of layers is the last
    one's output. None is that output after the final norm, which the output head takes.

    The numbers are those of vLLM's ``aux_hidden_state_layers`` and ``eagle_aux_hidden_state_layer_ids``,
    and of transformers' ``hidden_states[i]`` except its last, which is normed: that is ``NORMED``.
    DFlash's ``target_layer_ids`` number layers by their output: add 1.
    """

    layer: int | None


NORMED = AuxLayer(None)


def entering(*layers: int) -> tuple[AuxLayer, ...]:
    """Return the aux layers of these layers' inputs."""
    return tuple(AuxLayer(layer) for layer in layers)


def distinct(aux_layers: Iterable[AuxLayer]) -> tuple[AuxLayer, ...]:
    """Return each aux layer once, in order of first appearance."""
    return tuple(dict.fromkeys(aux_layers))


class AuxHiddenStates:
    """Hidden states of ``aux_layers``: ``rows`` (aux layers, context, hidden), allocated once."""

    def __init__(
        self,
        aux_layers: Sequence[AuxLayer],
        *,
        layers: int,
        hidden: int,
        context: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        """Raises ValueError for a layer beyond the last of ``layers``."""
        for aux_layer in aux_layers:
            if aux_layer.layer is not None and not 0 <= aux_layer.layer <= layers:
                raise ValueError(f"there is no layer {aux_layer.layer} among {layers} to read at")
        self._indices = {aux_layer: index for index, aux_layer in enumerate(aux_layers)}
        self.rows = zeros((len(aux_layers), context, hidden), dtype, device)

    @classmethod
    def of(
        cls,
        architecture: Architecture,
        aux_layers: Sequence[AuxLayer],
        context: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> AuxHiddenStates | None:
        """Return the buffers of a decoder's hidden states; None if there are no ``aux_layers``."""
        if not aux_layers:
            return None
        sizes = {"layers": len(architecture.layers), "hidden": architecture.hidden}
        return cls(aux_layers, **sizes, context=context, dtype=dtype, device=device)

    @property
    def aux_layers(self) -> tuple[AuxLayer, ...]:
        return tuple(self._indices)

    def at(self, aux_layer: AuxLayer) -> Tensor:
        """Return the rows of one layer (context, hidden), a view. Raises KeyError if it is not stored."""
        return self.rows[self._indices[aux_layer]]

    def has(self, aux_layer: AuxLayer) -> bool:
        return aux_layer in self._indices

    def write(self, aux_layer: AuxLayer, positions: Tensor, states: Tensor) -> None:
        """Store ``states (rows, hidden)`` at ``positions (rows,)`` int64, if the layer is stored."""
        index = self._indices.get(aux_layer)
        if index is not None:
            self.rows[index].index_copy_(0, positions, states.to(self.rows.dtype))

    def keep(self, start: int, rows: Sequence[int]) -> None:
        """Move these of the rows written from ``start`` on, in rising order, to ``start``."""
        for index, row in enumerate(rows):
            if row != index:
                self.rows[:, start + index] = self.rows[:, start + row]


@dataclass(frozen=True, slots=True)
class EmbeddingAndHead:
    """A model's embedding table and output head in its executor's layout. Logits are multiplied by
    ``scale``, then become ``cap`` * tanh(logits / ``cap``). ``rotations``: its tables for ropes and
    widths of heads."""

    embedding: Linear
    head: Linear
    cap: float | None
    scale: float
    rotations: Mapping[tuple[Rope, int], Tensor] = field(default_factory=dict)


class Backbone(Protocol):
    """The part of the target that a head uses."""

    @property
    def length(self) -> int:
        """Tokens that have hidden states: all but the pending one, while a proposer drafts."""

    @property
    def tree_nodes(self) -> int:
        """The most tokens of a drafted tree with branches; 0 if only chains are verified."""

    def aux_hidden_states(self, aux_layer: AuxLayer, start: int, end: int) -> Tensor:
        """Return float32 (end - start, hidden) of the tokens ``start`` .. ``end - 1``; end <= length.

        The result is valid until the target's next step: keep a copy.
        """

    def embed(self, tokens: Sequence[int]) -> Tensor:
        """Return float32 (tokens, hidden): rows of the embedding table, without Gemma's scale."""

    def logits(self, normed: Tensor) -> Tensor:
        """Return float32 (rows, vocabulary): the output head on ``normed`` float32 (rows, hidden)."""

    def keys_values(self, slides: bool) -> tuple[Tensor, Tensor]:
        """Return float32 (kv_heads, length, head_dim): see ``SequenceState.keys_values``."""

    def kv_buffers(self, slides: bool) -> tuple[Tensor, Tensor]:
        """Return the same as the compiled step stores it, at addresses that never change."""

    def aux_buffer(self, aux_layer: AuxLayer) -> Tensor:
        """Return all rows of a layer (context, hidden) as stored, at an address that never changes.

        Those below ``length`` are valid.
        """

    def head_operations(self) -> object | None:
        """Return ``Operations`` of heads on the target's own device, see ``RoundModel``; None without."""

    @property
    def embedding_and_head(self) -> EmbeddingAndHead | None:
        """The matrices of ``embed`` and ``logits``; None if they are not the compiled step's."""
