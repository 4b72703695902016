"""EAGLE-3's layer as a program: rows from the target's states, and from these a draft in the same run."""

from __future__ import annotations

import ctypes as c
from collections.abc import Sequence

from torch import Tensor

from engine.drafting.heads.compiled.layer import Block, norm
from engine.drafting.heads.compiled.memory import Memory
from engine.drafting.heads.compiled.unrolled import Steps, Unrolled
from engine.drafting.heads.eagle3 import Eagle3Head
from engine.kernels.native.library import ROWS, Matrix
from engine.kernels.native.tape import Number, Tape, Tokens, Unfit, Where, matrix_of
from engine.models.hidden_states import Backbone
from engine.request import MAX_DEPTH


class Eagle3Draft:
    """See ``Eagle3Head``: the rows of one sequence, and what is drafted behind them."""

    def __init__(self, head: Eagle3Head, target: Backbone) -> None:
        """Raises Unfit."""
        a = head.shape.architecture
        self.memory = Memory(a)
        self._head, self._tape = head, Tape(matrix_of(head.fc).library)
        self._rows, self._start, self._last, self._end = (Number() for _ in range(4))
        self._behind = (c.c_int64 * ROWS)()
        self._table = _embedding(head, target)
        self._both = self._tape.room(ROWS, 2 * a.hidden)
        self._layer = Block(self._tape, a, head.layer, self.memory.stores[0], causal=True)
        out = self._record_reading(target)
        self._read_end = len(self._tape)
        self._draft = self._record_draft(out)

    def read(self, behind: Sequence[int], start: int) -> None:
        """Makes rows from ``start`` on from the target's states; ``behind[i]`` is token start + i + 1."""
        for part in range(0, len(behind), ROWS):
            self._place(behind[part : part + ROWS], start + part)
            self._draft.program.run(0, self._read_end)

    def begin(self, behind: Sequence[int], start: int) -> Unrolled:
        """Reads likewise; a draft behind the last of these rows, which it makes first."""
        before = max(0, len(behind) - ROWS)
        self.read(behind[:before], start)
        self._place(behind[before:], start + before)
        return self._draft

    def close(self) -> None:
        self.memory.clear()

    def _place(self, behind: Sequence[int], start: int) -> None:
        count = len(behind)
        self._behind[:count] = list(behind)
        self._rows.value, self._start.value = count, start
        self._last.value, self._end.value = count - 1, start + count
        self.memory.reserve(start + count + MAX_DEPTH)

    def _record_reading(self, target: Backbone) -> Tensor:
        """What the rows put out (16, hidden)."""
        head, tape, hidden = self._head, self._tape, self._head.shape.architecture.hidden
        where = Where(self._rows, self._start)
        joint = tape.room(ROWS, len(head.shape.read) * hidden)
        for tap, part in zip(head.shape.read, joint.split(hidden, dim=1), strict=True):
            tape.take(target.tapped(tap), part, where)
        if head.fc_norm is not None:
            norm(tape, head.fc_norm, joint, joint, self._rows)
        x = tape.product(head.fc, joint, rows=self._rows)
        self._record_rows(self._behind, 0, x, where)
        return x

    def _record_draft(self, out: Tensor) -> Unrolled:
        head, tape = self._head, self._tape
        steps, state = Steps(tape, MAX_DEPTH), tape.room(1, out.shape[1])
        normed, logits = tape.room(*state.shape), None
        tape.take(out, state, Where(tape.one, self._last))
        for step in range(MAX_DEPTH):
            if step:
                self._record_rows(steps.chain, step, state, Where(tape.one, self._end, step - 1))
            if not head.shape.norm_output:
                norm(tape, head.norm, state, normed)
            shown = state if head.shape.norm_output else normed
            logits = tape.product(head.output, shown, logits)
            steps.name(logits, head.targets)
        return steps.done()

    def _record_rows(self, tokens: Tokens, first: int, x: Tensor, where: Where) -> None:
        """The layer on the states ``x``, and the tokens from ``first`` on; puts out to ``x``."""
        head, tape, rows = self._head, self._tape, where.rows
        embedded, states = self._both.chunk(2, dim=1)
        token_norm, state_norm = head.input_norms
        epsilon = head.shape.architecture.epsilon
        tape.embed(self._table, tokens, embedded, first=first, rows=rows)
        tape.norm(embedded, embedded, epsilon, weight=token_norm, rows=rows)
        tape.norm(x, states, epsilon, weight=state_norm, rows=rows)
        residual = states if head.shape.norm_before_residual else x
        self._layer.record(self._both, residual, x, where)
        if head.shape.norm_output:
            norm(tape, head.norm, x, x, rows)


def _embedding(head: Eagle3Head, target: Backbone) -> Matrix | Tensor:
    """Raises Unfit."""
    if head.embedding is not None:
        return head.embedding
    if target.embedding_and_head is None:
        raise Unfit("the target's embedding is not compiled")
    return target.embedding_and_head.embedding
