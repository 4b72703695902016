"""Heads that read one hidden state of the target and keep nothing: medusa, mlp, lstm."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from engine.drafting.heads.compiled.unrolled import Steps, Unrolled
from engine.drafting.heads.lstm import GATES, LstmHead
from engine.drafting.heads.medusa import MedusaHead
from engine.drafting.heads.mlp import EPSILON, MlpHead, emphasis
from engine.kernels.cpu.linear import Linear
from engine.kernels.native.tape import Number, Tape, Where, matrix_of
from engine.models.hidden_states import NORMED, Backbone


@dataclass(frozen=True, slots=True)
class Stateless:
    """``rows`` (heads, vocabulary): the logits of a head whose steps do not depend on one another."""

    draft: Unrolled
    position: Number
    rows: Tensor | None = None

    def begin(self, read: int, pending: int) -> Unrolled:
        """A draft behind ``pending``, where the target has read ``read`` tokens."""
        self.position.value = read - 1
        self.draft.pend(pending)
        return self.draft

    def all_logits(self, depth: int) -> Tensor:
        """(depth, vocabulary), to be read before the next draft."""
        assert self.rows is not None
        self.draft.write(depth)
        return self.rows[:depth]


def record_medusa(head: MedusaHead, target: Backbone) -> Stateless:
    """Raises Unfit."""
    output = matrix_of(head.heads[0][-1])
    tape, state, position = _start(output, target)
    steps = Steps(tape, len(head.heads))
    logits = tape.room(len(head.heads), output.outputs)
    moved = tape.room(*state.shape)
    for row, (*blocks, last) in zip(logits.split(1), head.heads, strict=True):
        x = state
        for block in blocks:
            mixed = tape.product(block, x)
            tape.activate("silu", mixed, mixed)
            tape.add(x, mixed, moved)
            x = moved
        tape.product(last, x, row)
        steps.name(row)
    return Stateless(steps.done(), position, logits)


def record_mlp(head: MlpHead, target: Backbone) -> Stateless:
    """Raises Unfit."""
    tape, first, position = _start(head.stages[0].project, target)
    if head.scaled:
        _scale(tape, first)
    steps, x, logits = Steps(tape, head.steps), first, None
    for step, stage in enumerate(head.stages):
        moved = tape.product(stage.project, x)
        told = tape.room(*moved.shape)
        tape.embed(stage.table, steps.chain, told, first=step)
        tape.add(moved, told, moved, scale=emphasis(head.steps, moved.shape[1]))
        tape.norm(moved, moved, EPSILON, weight=stage.norm.weight, bias=stage.norm.bias)
        tape.activate("gelu", moved, moved)
        logits = tape.product(stage.output, moved, logits)
        steps.name(logits)
        x = moved
    return Stateless(steps.done(), position)


def record_lstm(head: LstmHead, target: Backbone) -> Stateless:
    """Raises Unfit."""
    tape, first, position = _start(head.projects[0], target)
    if head.scaled:
        _scale(tape, first)
    steps, width, x, logits = Steps(tape, head.steps), len(head.cell_norm.weight), first, None
    told = tape.room(1, head.table.shape[1])
    gates = tape.room(1, len(GATES) * width)
    forget, let_in, let_out, candidate = gates.split(width, dim=1)
    state, cell = (tape.room(1, width) for _ in range(2))
    for step in range(head.steps):
        tape.product(head.projects[min(step, 1)], x, gates)
        tape.embed(head.table, steps.chain, told, first=step)
        parts = [told] if told.shape == gates.shape else [told] * len(GATES)
        for gate, part in zip(gates.chunk(len(parts), dim=1), parts, strict=True):
            tape.add(gate, part, gate, scale=emphasis(head.steps, width))
        tape.activate("sigmoid", gates[:, : 3 * width], gates[:, : 3 * width])
        norm = head.cell_norm
        tape.norm(candidate, candidate, EPSILON, weight=norm.weight, bias=norm.bias)
        if step:
            tape.activate("identity", cell, cell, times=forget)
            tape.activate("gelu", candidate, candidate, times=let_in)
            tape.add(cell, candidate, cell)
        else:  # the cell begins at zero
            tape.activate("gelu", candidate, cell, times=let_in)
        norm = head.state_norm
        tape.norm(cell, state, EPSILON, weight=norm.weight, bias=norm.bias)
        tape.activate("gelu", state, state, times=let_out)
        logits = tape.product(head.output, state, logits)
        steps.name(logits)
        x = state
    return Stateless(steps.done(), position)


def _start(first: Linear, target: Backbone) -> tuple[Tape, Tensor, Number]:
    """A tape that begins with the target's state (1, hidden) of the token at a position."""
    tape, position, rows = Tape(matrix_of(first).library), Number(), target.tapped(NORMED)
    state = tape.room(1, rows.shape[1])
    tape.take(rows, state, Where(tape.one, position))
    return tape, state, position


def _scale(tape: Tape, state: Tensor) -> None:
    """As ``first_state`` does."""
    tape.norm(state, state, EPSILON, scale=2**-0.5)
