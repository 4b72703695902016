"""Arctic's LSTM speculator: an MLP speculator whose step is an LSTM cell (``sum_lstm``).

As in the MLP speculator the state begins as the target's normed hidden state, each step takes in one more
token, and r weighs tokens against states. The four gates of a step are rows of one product, each with the
token's embedding added, and a cell goes along from step to step, zero at first:

    f, i, o, c = P state + r E[token]
    cell  <- sigmoid(f) cell + sigmoid(i) GELU(norm_c(c))
    state <- sigmoid(o) GELU(norm_s(cell))           logits = H state

All steps share E, H and the norms; P is one matrix for the first step and one for the others.

The published layout is Snowflake's (ArcticTraining writes it, ArcticInference reads it): config.json
with ``method`` sum_lstm, ``n_predict`` and ``scale_input``; tensors ``forget_emb.0``, and the like for
the other gates unless ``tie_lstm_embs``; ``{gate}_proj.{0,1}``, or all four gates in ``projs.{0,1}``;
``cell_ln.0``, ``state_ln.0`` and ``head.0``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from engine.backends.linear_factory import LinearFactory
from engine.backends.operations import Arithmetic, Operations
from engine.drafting.heads.base import HeadPlan, TargetShape, check_fits
from engine.drafting.heads.mlp import (
    Norm,
    State,
    emphasis,
    first_state,
    norm_shapes,
    numbers,
    prefix_of,
    read_norm,
)
from engine.drafting.heads.stored import Stored
from engine.errors import ModelError
from engine.kernels.operands import Tokens
from engine.kernels.torch.linear import Linear
from engine.models.hidden_states import NORMED, AuxLayer

GATES = ("forget", "input", "output", "cell")
"""In the order in which ``projs`` has them."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """What config.json and the names of the tensors say; ``joined``: all gates are in ``projs``."""

    steps: int
    scaled: bool
    prefix: str
    joined: bool
    tables: tuple[str, ...]

    def projections(self, number: int) -> tuple[str, ...]:
        """The tensors of P: ``number`` 0 for the first step, 1 for the others."""
        parts = ("projs",) if self.joined else tuple(f"{gate}_proj" for gate in GATES)
        return tuple(f"{self.prefix}{part}.{number}.weight" for part in parts)

    def name(self, rest: str) -> str:
        return self.prefix + rest


@dataclass(frozen=True, slots=True)
class LstmHead:
    """``projects``: P of the first step (hidden -> 4 width), then that of the others (width -> 4 width).

    ``embedding (vocabulary, width)``, or (vocabulary, 4 width) where each gate has one of its own.
    """

    projects: Sequence[Linear]
    embedding: Tensor
    cell_norm: Norm
    state_norm: Norm
    output: Linear
    steps: int
    scaled: bool

    kind: ClassVar[str] = "lstm"

    @property
    def aux_layers(self) -> tuple[AuxLayer, ...]:
        return (NORMED,)

    @classmethod
    def plan(cls, stored: Stored, target: TargetShape) -> HeadPlan:
        """See ``Head``."""
        shape = _shape_of(stored)
        vocabulary, width = stored.matrix(shape.name("head.0.weight"))
        hidden = stored.matrix(shape.projections(0)[0])[1]
        rows = width * len(GATES) if shape.joined else width
        wanted: dict[str, tuple[int, ...]] = {shape.name("head.0.weight"): (vocabulary, width)}
        for number, inputs in enumerate((hidden, width)):
            wanted |= {name: (rows, inputs) for name in shape.projections(number)}
        wanted |= {name: (vocabulary, width) for name in shape.tables}
        wanted |= norm_shapes(shape.name("cell_ln.0"), width)
        wanted |= norm_shapes(shape.name("state_ln.0"), width)
        stored.expect(wanted)
        check_fits(stored, target, hidden=hidden, vocabulary=vocabulary)
        return HeadPlan(cls.kind, stored, (NORMED,), numbers(wanted), shape=shape)

    @classmethod
    def load(cls, plan: HeadPlan, linears: LinearFactory) -> Self:
        """See ``Head``."""
        stored, shape = plan.stored, plan.shape
        projects = [
            linears.linear(torch.cat([stored(name) for name in shape.projections(number)]))
            for number in range(2)
        ]
        return cls(
            projects=projects,
            embedding=torch.cat([stored(name) for name in shape.tables], dim=1).to(linears.device),
            cell_norm=read_norm(stored, linears, shape.name("cell_ln.0")),
            state_norm=read_norm(stored, linears, shape.name("state_ln.0")),
            output=linears.linear(stored(shape.name("head.0.weight"))),
            steps=shape.steps,
            scaled=shape.scaled,
        )

    def start(self, ops: Arithmetic, normed: Tensor) -> State:
        """The state before the first step, for the target's ``normed (rows, hidden)``; no cell yet."""
        return (first_state(ops, normed, self.scaled),)

    def advance(self, ops: Arithmetic, state: State, embedded: Tensor, step: int) -> State:
        """State and cell behind tokens whose rows of the table are ``embedded``."""
        before, *cells = state
        width = len(self.cell_norm.weight)
        weight = emphasis(self.steps, width)
        gates = ops.add(ops.linear(self.projects[min(step, 1)], before), embedded, weight)
        opened = ops.activate("sigmoid", gates[:, : 3 * width])
        forget, let_in, let_out = opened.split(width, dim=1)
        cell = ops.activate("gelu", self.cell_norm(ops, gates[:, 3 * width :]), times=let_in)
        for old in cells:  # at first there is none, as if it were zero
            cell = ops.add(ops.multiply(old, forget), cell)
        return ops.activate("gelu", self.state_norm(ops, cell), times=let_out), cell

    def table(self, step: int) -> Tensor:
        """(vocabulary, width or 4 width), the same for all steps."""
        return self.embedding

    def draft(self, ops: Operations, chain: Tokens, normed: Tensor) -> Iterator[Tensor]:
        """See ``StatelessHead``."""
        state = self.start(ops, normed)
        for step in range(self.steps):
            state = self.advance(ops, state, ops.embed(self.embedding, chain, step), step)
            yield ops.linear(self.output, state[0])


def _shape_of(stored: Stored) -> _Shape:
    if not stored.flag("tie_weights"):
        raise ModelError(
            f"{stored.folder / 'config.json'}: key 'tie_weights' is not true. The steps of an LSTM "
            "speculator share their weights; there is no layout for others. Use the config.json that was "
            "published with the head."
        )
    prefix = prefix_of(stored)
    gates = GATES[:1] if stored.flag("tie_lstm_embs") else GATES
    return _Shape(
        stored.size("n_predict"),
        stored.flag("scale_input"),
        prefix,
        f"{prefix}projs.0.weight" in stored.shapes,
        tuple(f"{prefix}{gate}_emb.0.weight" for gate in gates),
    )
