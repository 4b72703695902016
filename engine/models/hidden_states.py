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

from engine.kernels.native.library import Matrix
from engine.machine.zeros import zeros


@dataclass(frozen=True, slots=True)
class Tap:
    """Where a hidden state is read.

    ``layer`` i is the residual stream that enters decoder layer i: 0 is the embedding, the number of
    layers what leaves the last one. None is that one behind the final norm, which the output head takes.

    The numbers are those of vLLM's ``aux_hidden_state_layers`` and ``eagle_aux_hidden_state_layer_ids``,
    and of transformers' ``hidden_states[i]`` but for its last, which is normed: that is ``NORMED``.
    DFlash's ``target_layer_ids`` name a layer by what leaves it: add 1.
    """

    layer: int | None


NORMED = Tap(None)


def entering(*layers: int) -> tuple[Tap, ...]:
    """The taps of what enters these layers."""
    return tuple(Tap(layer) for layer in layers)


def joined(taps: Iterable[Tap]) -> tuple[Tap, ...]:
    """Each tap once, in the order they first come in."""
    return tuple(dict.fromkeys(taps))


class Features:
    """What was read at ``taps``: ``rows`` (taps, context, hidden), allocated once."""

    def __init__(
        self,
        taps: Sequence[Tap],
        *,
        layers: int,
        hidden: int,
        context: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        """Raises ValueError for a tap behind the last of ``layers``."""
        for tap in taps:
            if tap.layer is not None and not 0 <= tap.layer <= layers:
                raise ValueError(f"there is no layer {tap.layer} among {layers} to tap")
        self._places = {tap: place for place, tap in enumerate(taps)}
        self.rows = zeros((len(taps), context, hidden), dtype, device)

    @property
    def taps(self) -> tuple[Tap, ...]:
        return tuple(self._places)

    def at(self, tap: Tap) -> Tensor:
        """The rows of one tap (context, hidden), as a view. Raises KeyError where it is not tapped."""
        return self.rows[self._places[tap]]

    def has(self, tap: Tap) -> bool:
        return tap in self._places

    def write_at(self, tap: Tap, positions: Tensor, states: Tensor) -> None:
        """As ``write``, where only the device knows the ``positions (rows,)`` int64."""
        place = self._places.get(tap)
        if place is not None:
            self.rows[place].index_copy_(0, positions, states.to(self.rows.dtype))

    def write(self, tap: Tap, start: int, states: Tensor) -> None:
        """Stores ``states (rows, hidden)`` of the tokens from ``start`` on, if ``tap`` is tapped."""
        place = self._places.get(tap)
        if place is not None:
            self.rows[place, start : start + len(states)] = states

    def keep(self, start: int, rows: Sequence[int]) -> None:
        """Of rows that were written from ``start`` on, moves these, in rising order, to its begin."""
        for at, row in enumerate(rows):
            if row != at:
                self.rows[:, start + at] = self.rows[:, start + row]


@dataclass(frozen=True, slots=True)
class EmbeddingAndHead:
    """Both ends of a model in the compiled step's layout; logits l become ``cap`` tanh(l / cap)."""

    embedding: Matrix
    head: Matrix
    cap: float | None


class Backbone(Protocol):
    """What a head sees of the target it drafts for."""

    @property
    def length(self) -> int:
        """Tokens that have features: all but the pending one, while a proposer drafts."""

    @property
    def tree_nodes(self) -> int:
        """How many tokens a drafted tree with branches may have; 0 where only chains are verified."""

    def features(self, tap: Tap, start: int, end: int) -> Tensor:
        """float32 (end - start, hidden) of the tokens ``start`` .. ``end - 1``, with end <= length.

        Valid until the target's next step: keep a copy, not the result.
        """

    def embed(self, tokens: Sequence[int]) -> Tensor:
        """float32 (tokens, hidden): rows of the embedding table, as stored (Gemma scales them after)."""

    def logits(self, normed: Tensor) -> Tensor:
        """float32 (rows, vocabulary): the output head on ``normed`` float32 (rows, hidden)."""

    def tapped(self, tap: Tap) -> Tensor:
        """All rows of a tap (context, hidden) as they are kept; where they lie never changes.

        Those below ``length`` are valid.
        """

    @property
    def embedding_and_head(self) -> EmbeddingAndHead | None:
        """What ``embed`` and ``logits`` compute with; None where that is not compiled."""
