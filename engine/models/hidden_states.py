"""The target's hidden states, for heads that draft from them: one row for every token in its state.

Nothing here has a length of its own. Row i belongs to token i, and the rows below the length of the
state that holds them are valid: ``commit`` and ``rewind`` of the state are theirs too. The pending token
has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from engine.kernels.torch.linear import Linear
from engine.machine.device_memory import zeros


@dataclass(frozen=True, slots=True)
class AuxLayer:
    """Where a hidden state is read.

    ``layer`` i is the residual stream that enters decoder layer i: 0 is the embedding, the number of
    layers what leaves the last one. None is that one behind the final norm, which the output head takes.

    The numbers are those of vLLM's ``aux_hidden_state_layers`` and ``eagle_aux_hidden_state_layer_ids``,
    and of transformers' ``hidden_states[i]`` but for its last, which is normed: that is ``NORMED``.
    DFlash's ``target_layer_ids`` name a layer by what leaves it: add 1.
    """

    layer: int | None


NORMED = AuxLayer(None)


def entering(*layers: int) -> tuple[AuxLayer, ...]:
    """Return the aux layers that show what enters these layers."""
    return tuple(AuxLayer(layer) for layer in layers)


def joined(aux_layers: Iterable[AuxLayer]) -> tuple[AuxLayer, ...]:
    """Return each aux layer once, in the order they first come in."""
    return tuple(dict.fromkeys(aux_layers))


class AuxHiddenStates:
    """What was read at ``aux_layers``: ``rows`` (aux layers, context, hidden), allocated once."""

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
        """Raises ValueError for a layer behind the last of ``layers``."""
        for aux_layer in aux_layers:
            if aux_layer.layer is not None and not 0 <= aux_layer.layer <= layers:
                raise ValueError(f"there is no layer {aux_layer.layer} among {layers} to read at")
        self._places = {aux_layer: place for place, aux_layer in enumerate(aux_layers)}
        self.rows = zeros((len(aux_layers), context, hidden), dtype, device)

    @property
    def aux_layers(self) -> tuple[AuxLayer, ...]:
        return tuple(self._places)

    def at(self, aux_layer: AuxLayer) -> Tensor:
        """Return the rows of one layer (context, hidden), a view. Raises KeyError if it is not kept."""
        return self.rows[self._places[aux_layer]]

    def has(self, aux_layer: AuxLayer) -> bool:
        return aux_layer in self._places

    def write(self, aux_layer: AuxLayer, positions: Tensor, states: Tensor) -> None:
        """Store ``states (rows, hidden)`` at ``positions (rows,)`` int64, if the layer is kept."""
        place = self._places.get(aux_layer)
        if place is not None:
            self.rows[place].index_copy_(0, positions, states.to(self.rows.dtype))

    def keep(self, start: int, rows: Sequence[int]) -> None:
        """Of rows that were written from ``start`` on, moves these, in rising order, to its begin."""
        for at, row in enumerate(rows):
            if row != at:
                self.rows[:, start + at] = self.rows[:, start + row]


@dataclass(frozen=True, slots=True)
class EmbeddingAndHead:
    """A model's embedding table and output head in its executor's layout; logits become ``cap`` *
    tanh(logits / ``cap``)."""

    embedding: Linear
    head: Linear
    cap: float | None


class Backbone(Protocol):
    """What a head sees of the target it drafts for."""

    @property
    def length(self) -> int:
        """Tokens that have features: all but the pending one, while a proposer drafts."""

    @property
    def tree_nodes(self) -> int:
        """How many tokens a drafted tree with branches may have; 0 where only chains are verified."""

    def aux_hidden_states(self, aux_layer: AuxLayer, start: int, end: int) -> Tensor:
        """float32 (end - start, hidden) of the tokens ``start`` .. ``end - 1``, with end <= length.

        Valid until the target's next step: keep a copy, not the result.
        """

    def embed(self, tokens: Sequence[int]) -> Tensor:
        """float32 (tokens, hidden): rows of the embedding table, as stored (Gemma scales them after)."""

    def logits(self, normed: Tensor) -> Tensor:
        """float32 (rows, vocabulary): the output head on ``normed`` float32 (rows, hidden)."""

    def aux_buffer(self, aux_layer: AuxLayer) -> Tensor:
        """All rows of a layer (context, hidden) as they are kept; where they lie never changes.

        Those below ``length`` are valid.
        """

    @property
    def embedding_and_head(self) -> EmbeddingAndHead | None:
        """What ``embed`` and ``logits`` compute with; None where that is not compiled."""
