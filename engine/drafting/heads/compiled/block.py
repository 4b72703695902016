"""Block drafters as a program: the text's keys and values, the pass over a block, and its tokens."""

from __future__ import annotations

import ctypes as c
from functools import partial

from torch import Tensor

from engine.drafting.heads.block import BlockHead
from engine.drafting.heads.compiled.layer import Block, norm
from engine.drafting.heads.compiled.memory import Memory
from engine.drafting.heads.compiled.unrolled import Steps, Unrolled
from engine.kernels.native.library import ROWS
from engine.kernels.native.tape import Heads, Number, Tape, Unfit, Where, matrix_of
from engine.models.hidden_states import Backbone, EmbeddingAndHead


class BlockDraft:
    """See ``BlockHead``: what is kept of one text, and what is drafted behind it.

    ``states`` (depth, hidden) are the normed rows of the last draft; ``rows`` (depth, vocabulary) their
    logits, to which what the Markov head adds is added as tokens are named.
    """

    def __init__(self, head: BlockHead, target: Backbone) -> None:
        """Raises Unfit."""
        if target.embedding_and_head is None:
            raise Unfit("the target's output head is not compiled")
        a, shape = head.shape.architecture, head.shape
        self.memory = Memory(a)
        self._head, self._tape = head, Tape(matrix_of(head.fc).library)
        self._rows, self._start, self._end, self._wanted = (Number() for _ in range(4))
        self._block = Number(shape.block)
        self._tokens = (c.c_int64 * shape.block)(*[shape.mask] * shape.block)
        self._record_reading(target)
        self._read_end = len(self._tape)
        self.states = self._record_pass(target.embedding_and_head)
        self.rows = self._record_logits(target.embedding_and_head)
        self._draft = self._record_draft()

    def read(self, start: int, end: int) -> None:
        """Keeps the text's tokens ``start`` .. ``end - 1``, which the target has read."""
        for part in range(start, end, ROWS):
            self._place(part, min(part + ROWS, end))
            self._draft.program.run(0, self._read_end)

    def begin(self, start: int, end: int, pending: int, depth: int) -> Unrolled:
        """Keeps them likewise; ``depth`` tokens behind ``pending``, which stands at ``end``."""
        before = max(start, end - ROWS)
        self.read(start, before)
        self._place(before, end)
        self._tokens[0], self._wanted.value = pending, depth
        self._draft.pend(pending, 0 if before < end else self._read_end)
        return self._draft

    def all_logits(self, depth: int) -> Tensor:
        """(depth, vocabulary) of a head whose rows do not depend on the tokens named."""
        self._draft.write(depth)
        return self.rows[:depth]

    def close(self) -> None:
        self.memory.clear()

    def _place(self, start: int, end: int) -> None:
        self._rows.value, self._start.value, self._end.value = end - start, start, end
        self.memory.reserve(end + self._head.shape.block)

    def _record_reading(self, target: Backbone) -> None:
        head, tape, rows = self._head, self._tape, self._rows
        a = head.shape.architecture
        where = Where(rows, self._start)
        joint = tape.room(ROWS, len(head.shape.read) * a.hidden)
        for tap, part in zip(head.shape.read, joint.split(a.hidden, dim=1), strict=True):
            tape.take(target.tapped(tap), part, where)
        x = tape.product(head.fc, joint, rows=rows)
        norm(tape, head.hidden_norm, x, x, rows)
        made = tape.product(head.context, x, rows=rows).split(a.kv_heads * a.head_dim, dim=1)
        pairs = zip(made[::2], made[1::2], head.key_norms, self.memory.stores, strict=True)
        for keys, values, weight, store in pairs:
            heads = Heads(store, a.heads, a.kv_heads, a.epsilon)
            tape.remember(keys, values, heads, weight, where)

    def _record_pass(self, embedding_and_head: EmbeddingAndHead) -> Tensor:
        head, tape, shape, rows = self._head, self._tape, self._head.shape, self._block
        x, normed = (tape.room(shape.block, shape.architecture.hidden) for _ in range(2))
        tape.embed(embedding_and_head.embedding, self._tokens, x, rows=rows)
        make = partial(Block, tape, shape.architecture, most=shape.block, causal=False)
        for layer, store in zip(head.layers, self.memory.stores, strict=True):
            norm(tape, layer.attention_norm, x, normed, rows)
            make(layer=layer, store=store).record(normed, x, x, Where(rows, self._end))
        norm(tape, head.norm, x, normed, rows)
        return normed[shape.first :]

    def _record_logits(self, embedding_and_head: EmbeddingAndHead) -> Tensor:
        rows = self._tape.product(embedding_and_head.head, self.states, rows=self._wanted)
        if embedding_and_head.cap is not None:
            self._tape.cap(rows, rows, embedding_and_head.cap, rows=self._wanted)
        return rows

    def _record_draft(self) -> Unrolled:
        tape, markov = self._tape, self._head.markov
        steps, added = Steps(tape, self._head.shape.depth), None
        before = None if markov is None else tape.room(1, markov.before.shape[1])
        for step, row in enumerate(self.rows.split(1)):
            if markov is not None and before is not None:
                tape.embed(markov.before, steps.chain, before, first=step)
                added = tape.product(markov.after, before, added)
                tape.add(row, added, row)
            steps.name(row)
        return steps.done()
