"""What a model keeps of one sequence: the state behind its committed tokens, and rows that wait.

An executor computes rows behind the state. Rows of a prompt are final: they are committed as they are
computed. Rows of a verification, or of a draft, are pending until ``commit`` says which of them stay.
What the state is (keys and values, a recurrence) its subclass knows.

The state behind n tokens depends on these tokens alone, bit for bit: not on how the prompt was cut, on
rejected rows, or on what was rewound.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.kernels.torch.attention import KV_BLOCK
from engine.machine.device_memory import zeros
from engine.models.hidden_states import AuxHiddenStates


class SequenceState:
    """``length`` committed tokens, and ``pending`` rows computed behind them."""

    def __init__(self, context: int, aux: AuxHiddenStates | None = None) -> None:
        """``context``: the most rows. ``aux``: hidden states of these rows, for heads that read them;
        they are committed and rewound with the rest."""
        self.context = context
        self.length = 0
        self.pending = 0
        self.aux = aux

    @property
    def end(self) -> int:
        """Where the next row goes."""
        return self.length + self.pending

    def append(self, rows: int, *, final: bool) -> None:
        """Note that an executor has computed ``rows`` at ``end``. Final ones follow no pending ones."""
        assert self.end + rows <= self.context and not (final and self.pending)
        if final:
            self.length += rows
        else:
            self.pending += rows

    def commit(self, rows: Sequence[int]) -> None:
        """Keep exactly these of the pending rows, as if they had been computed one by one.

        Rows count over all that are pending, in the order they were computed. Those of a chain are
        0, 1, ...; those of a tree a path from its root. Raises ValueError for others.
        """
        if list(rows) != list(range(len(rows))) or len(rows) > self.pending:
            raise ValueError(f"of {self.pending} pending rows {list(rows)} are no beginning")
        self.settle(self.length + len(rows))

    def reachable(self, length: int) -> int:
        """Return the most tokens, ``length`` at most, that ``rewind`` can go back to. Changes nothing."""
        return min(length, self.length)

    def rewind(self, length: int) -> None:
        """Forget all pending rows, and all tokens but the first ``length``.

        Raises ValueError where that is not ``reachable``.
        """
        if not 0 <= length <= self.length or self.reachable(length) != length:
            raise ValueError(f"cannot rewind a state of {self.length} tokens to {length}")
        self.settle(length)

    def settle(self, length: int) -> None:
        """Set how many tokens are committed; nothing is pending then. For executors, and for whoever
        reads rounds that a device has committed itself."""
        self.length, self.pending = length, 0

    def save_checkpoint(self) -> None:
        """Make the present length ``reachable`` later, where it would not be for ever."""

    def copy_prefix(self, other: SequenceState, length: int) -> int:
        """Copy what ``other``, of the same model, has of the first ``length`` tokens beyond those here,
        which are the same in both. Returns the new length; the old one where nothing can be copied."""
        return self.length


class KVCache(SequenceState):
    """Keys and values of one sequence, ``(blocks, kv_heads, KV_BLOCK, head_dim)`` in each slot.

    Layers that attend have a slot each, of their own size, or share one. Allocated once, in blocks of 256
    positions (the unit ``attend`` reads). What lies behind ``end`` is stale but finite, and masked.
    """

    def __init__(
        self,
        slots: Sequence[tuple[int, int]],
        *,
        context: int,
        dtype: torch.dtype,
        device: torch.device,
        aux: AuxHiddenStates | None = None,
    ) -> None:
        """``slots``: kv_heads and head_dim of each."""
        super().__init__(context, aux)
        blocks = -(-context // KV_BLOCK)
        shapes = [(blocks, kv_heads, KV_BLOCK, head_dim) for kv_heads, head_dim in slots]
        # Zeros, not empty: a masked NaN would still poison 0 * NaN in the weighted sum.
        self.keys = [zeros(shape, dtype, device) for shape in shapes]
        self.values = [zeros(shape, dtype, device) for shape in shapes]

    def write(self, slot: int, start: int, keys: Tensor, values: Tensor) -> None:
        """Store ``keys``, ``values`` (rows, kv_heads, head_dim) at ``start``; mutates the cache.

        ``length`` is left alone: the caller appends the rows once all slots are written.
        """
        rows = keys.shape[0]
        done = 0
        while done < rows:
            block, first = divmod(start + done, KV_BLOCK)
            take = min(rows - done, KV_BLOCK - first)
            part = slice(done, done + take)
            self.keys[slot][block, :, first : first + take] = keys[part].transpose(0, 1)
            self.values[slot][block, :, first : first + take] = values[part].transpose(0, 1)
            done += take

    def blocks(self, slot: int, end: int, first: int = 0) -> tuple[Tensor, Tensor]:
        """Return the blocks that cover positions 0..end-1, from block ``first`` on, as views."""
        stop = -(-end // KV_BLOCK)
        return self.keys[slot][first:stop], self.values[slot][first:stop]

    def check(self) -> None:
        """Raise AssertionError where an invariant is broken (for tests)."""
        assert 0 <= self.length <= self.end <= self.context
        assert all(bool(each.isfinite().all()) for each in (*self.keys, *self.values))
        assert self.aux is None or self.aux.rows.shape[1] == self.context
