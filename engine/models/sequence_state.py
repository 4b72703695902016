"""A model's state of one sequence: committed tokens, and pending rows after them.

An executor computes rows after the state. Rows of a prompt are final: they are committed as they are
computed. Rows of a verification or a draft are pending until ``commit`` keeps some of them. Subclasses
hold the state itself (keys and values, a recurrence).

The state after n tokens depends on these tokens alone, bit for bit: not on rejected rows, on what was
rewound, or on the sequences beside it. In the torch executor and the compiled step it does not depend on
how the prompt was split either; CUDA and transformers compute prompts by other kernels than decoding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import torch
from torch import Tensor

from engine.kernels.torch.attention import PAGE_SIZE
from engine.machine.device_memory import zeros
from engine.models.hidden_states import AuxHiddenStates
from engine.models.prompt_content import PromptContent


class SequenceState:
    """``length`` committed tokens, and ``pending`` rows computed after them."""

    def __init__(self, context: int, aux: AuxHiddenStates | None = None) -> None:
        """``context``: the most rows. ``aux``: hidden states of these rows, for heads that read them;
        they are committed and rewound with the rest."""
        self.context = context
        self.length = 0
        self.pending = 0
        self.aux = aux
        self.content: PromptContent | None = None
        """Images in the text whose rows come next; set before any of these is computed."""
        self._tree: Sequence[int] | None = None  # parents of the pending rows

    @property
    def end(self) -> int:
        """The position of the next row."""
        return self.length + self.pending

    @property
    def crops(self) -> bool:
        """Return whether every shorter length is ``reachable``."""
        return True

    def append(self, rows: int, *, final: bool) -> None:
        """Record that an executor has computed ``rows`` at ``end``. Final ones follow no pending ones."""
        assert self.end + rows <= self.context and not (final and self.pending)
        if final:
            self.length += rows
        else:
            self.pending += rows

    def append_tree(self, parents: Sequence[int]) -> None:
        """Record that an executor has computed a tree's rows, see ``TreeModel``; none were pending."""
        assert not self.pending
        self.append(len(parents), final=False)
        self._tree = parents

    def commit(self, rows: Sequence[int]) -> None:
        """Keep exactly these of the pending rows, as if they had been computed one by one.

        Rows are numbered over all pending ones, in the order they were computed. Of a chain they are
        0, 1, ...; of a tree a path from its root. Raises ValueError for others.
        """
        tree = self._tree
        if tree is not None and rows:
            if [tree[row] for row in rows] != [-1, *rows[:-1]]:
                raise ValueError(f"{list(rows)} is no path from the root of a tree of {len(tree)}")
            self._keep_path(rows)
        elif list(rows) != list(range(len(rows))) or len(rows) > self.pending:
            raise ValueError(f"of {self.pending} pending rows {list(rows)} are no beginning")
        self.settle(self.length + len(rows))

    def _keep_path(self, rows: Sequence[int]) -> None:
        """Move these rows of a tree to where those of a chain would be; for an executor of trees."""
        raise NotImplementedError

    def reachable(self, length: int) -> int:
        """Return the greatest length, at most ``length``, that ``rewind`` can go back to."""
        return min(length, self.length)

    def rewind(self, length: int) -> None:
        """Discard all pending rows, and all tokens but the first ``length``.

        Raises ValueError if that is not ``reachable``.
        """
        if not 0 <= length <= self.length or self.reachable(length) != length:
            raise ValueError(f"cannot rewind a state of {self.length} tokens to {length}")
        self.settle(length)

    def settle(self, length: int) -> None:
        """Set the number of committed tokens; nothing is pending then. For executors, and for readers of
        rounds that a device has committed itself."""
        self.length, self.pending, self._tree = length, 0, None

    def save_checkpoint(self) -> None:
        """Make the present length ``reachable`` later, if it would not be anyway."""

    def keys_values(self, slides: bool, end: int) -> tuple[Tensor, Tensor]:
        """Return the first ``end`` keys and values of the last layer that slides, or does not.

        Both (kv_heads, end, head_dim), as stored. Raises TypeError if the state does not show them.
        """
        raise TypeError(f"{type(self).__name__} shows no keys and values")

    def kv_buffers(self, slides: bool) -> tuple[Tensor, Tensor]:
        """Return the same layer's whole buffers as the compiled step stores them. Raises TypeError."""
        raise TypeError(f"{type(self).__name__} has no buffers of the compiled step")

    def copy_prefix(self, other: SequenceState, length: int) -> int:
        """Copy the first ``length`` tokens of ``other``, a state of the same model that begins with the
        same tokens. Returns the new length; the old one if nothing can be copied."""
        return self.length


T = TypeVar("T")


class Checkpoints(Generic[T]):
    """States of a sequence at some lengths, up to ``most`` bytes; the oldest is dropped first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._saved: dict[int, tuple[T, int]] = {}  # by length, with the bytes, the oldest first

    def save(self, length: int, state: T, size: int) -> None:
        """Keep ``state``, which takes ``size`` bytes, as that behind ``length`` tokens."""
        self._saved.pop(length, None)
        self._saved[length] = state, size
        while sum(size for _, size in self._saved.values()) > self._most:
            del self._saved[next(iter(self._saved))]

    def reachable(self, length: int) -> int:
        """Return the longest that is saved, ``length`` at most; 0 where there is none."""
        return max((at for at in self._saved if at <= length), default=0)

    def at(self, length: int) -> T:
        """Return the state behind ``length`` tokens. Raises KeyError where it is not saved."""
        return self._saved[length][0]

    def forget_after(self, length: int) -> None:
        """Drop the states of texts that end differently."""
        self._saved = {at: saved for at, saved in self._saved.items() if at <= length}


class KVCache(SequenceState):
    """Keys and values of one sequence, ``(pages, kv_heads, PAGE_SIZE, head_dim)`` in each slot.

    Attention layers have a slot each, of their own size, or share one. Allocated once, in pages of 256
    positions (the unit ``attend`` reads). Positions from ``end`` on are stale but finite, and masked.
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
        pages = -(-context // PAGE_SIZE)
        shapes = [(pages, kv_heads, PAGE_SIZE, head_dim) for kv_heads, head_dim in slots]
        # Zeros, not empty: a masked NaN would still poison 0 * NaN in the weighted sum.
        self.keys = [zeros(shape, dtype, device) for shape in shapes]
        self.values = [zeros(shape, dtype, device) for shape in shapes]

    def write(self, slot: int, start: int, keys: Tensor, values: Tensor) -> None:
        """Store ``keys``, ``values`` (rows, kv_heads, head_dim) at ``start``; mutates the cache.

        ``length`` does not change: the caller appends the rows once all slots are written.
        """
        rows = keys.shape[0]
        done = 0
        while done < rows:
            page, first = divmod(start + done, PAGE_SIZE)
            take = min(rows - done, PAGE_SIZE - first)
            part = slice(done, done + take)
            self.keys[slot][page, :, first : first + take] = keys[part].transpose(0, 1)
            self.values[slot][page, :, first : first + take] = values[part].transpose(0, 1)
            done += take

    def pages(self, slot: int, end: int, first: int = 0) -> tuple[Tensor, Tensor]:
        """Return the pages that cover positions 0..end-1, from page ``first`` on, as views."""
        stop = -(-end // PAGE_SIZE)
        return self.keys[slot][first:stop], self.values[slot][first:stop]

    def check(self) -> None:
        """Raise AssertionError if an invariant is broken (for tests)."""
        assert 0 <= self.length <= self.end <= self.context
        assert all(bool(each.isfinite().all()) for each in (*self.keys, *self.values))
        assert self.aux is None or self.aux.rows.shape[1] == self.context
