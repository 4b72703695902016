"""Arctic's LSTM speculator (``sum_lstm``): a recurrence whose step is an LSTM cell.

One linear layer computes the four gates of a step, each with the token's embedding added. A cell is
carried from step to step, zero at first:

    f, i, o, c = P state + r E[token]
    cell  <- sigmoid(f) cell + sigmoid(i) GELU(norm_c(c))
    state <- sigmoid(o) GELU(norm_s(cell))           logits = H state

All steps share E, H and the norms; P is one matrix for the first step and one for the others. r is
``Speculator.token_weight``.

The published layout is Snowflake's (ArcticTraining writes it, ArcticInference reads it): config.json
with ``method`` sum_lstm, ``n_predict`` and ``scale_input``; tensors ``forget_emb.0``, and the like for
the other gates unless ``tie_lstm_embs``; ``{gate}_proj.{0,1}``, or all four gates in ``projs.{0,1}``;
``cell_ln.0``, ``state_ln.0`` and ``head.0``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from engine.backends.linear_factory import LinearFactory
from engine.backends.operations import Arithmetic
from engine.drafting.heads.base import HeadPlan, TargetShape
from engine.drafting.heads.speculator import Norm, Speculator, State, prefix_of
from engine.drafting.heads.stateless import stateless_plan
from engine.drafting.heads.stored import MOST, Stored
from engine.errors import ModelError
from engine.kernels.torch.linear import Linear

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
        """Return the names of P's tensors: ``number`` 0 for the first step, 1 for the others."""
        parts = ("projs",) if self.joined else tuple(f"{gate}_proj" for gate in GATES)
        return tuple(f"{self.prefix}{part}.{number}.weight" for part in parts)


@dataclass(frozen=True, slots=True)
class LstmHead(Speculator):
    """A ``Speculator``.

    ``projects``: P of the first step (hidden -> 4 width), then of the others (width -> 4 width).
    ``embedding (vocabulary, width)``, or (vocabulary, 4 width) where each gate has its own.
    """

    projects: Sequence[Linear]
    embedding: Tensor
    cell_norm: Norm
    state_norm: Norm
    head: Linear

    kind: ClassVar[str] = "lstm"

    @classmethod
    def plan(cls, stored: Stored, target: TargetShape) -> HeadPlan:
        shape = _shape_of(stored)
        head = f"{shape.prefix}head.0.weight"
        vocabulary, width = stored.matrix(head)
        hidden = stored.matrix(shape.projections(0)[0])[1]
        rows = width * len(GATES) if shape.joined else width
        tensors: dict[str, tuple[int, ...]] = {head: (vocabulary, width)}
        for number, inputs in enumerate((hidden, width)):
            tensors |= {name: (rows, inputs) for name in shape.projections(number)}
        tensors |= {name: (vocabulary, width) for name in shape.tables}
        for norm in ("cell_ln.0", "state_ln.0"):
            tensors |= Norm.shapes(shape.prefix + norm, width)
        return stateless_plan(
            cls.kind, stored, target, tensors, hidden=hidden, vocabulary=vocabulary, shape=shape,
            steps=shape.steps,
        )  # fmt: skip

    @classmethod
    def load(cls, plan: HeadPlan, linears: LinearFactory) -> Self:
        stored, shape = plan.stored, plan.shape
        projects = [
            linears.linear(torch.cat([stored(name) for name in shape.projections(number)]))
            for number in range(2)
        ]
        return cls(
            steps=shape.steps,
            scaled=shape.scaled,
            projects=projects,
            embedding=torch.cat([stored(name) for name in shape.tables], dim=1).to(linears.device),
            cell_norm=Norm.read(stored, linears, f"{shape.prefix}cell_ln.0"),
            state_norm=Norm.read(stored, linears, f"{shape.prefix}state_ln.0"),
            head=linears.linear(stored(f"{shape.prefix}head.0.weight")),
        )

    def advance(self, ops: Arithmetic, state: State, embedded: Tensor, step: int) -> State:
        """See ``Speculator``. The state's second tensor is the cell; the first state has none."""
        before, *cells = state
        width = len(self.cell_norm.weight)
        weight = self.token_weight(width)
        gates = ops.add(ops.linear(self.projects[min(step, 1)], before), embedded, weight)
        opened = ops.activate("sigmoid", gates[:, : 3 * width])
        forget, let_in, let_out = opened.split(width, dim=1)
        cell = ops.activate("gelu", self.cell_norm(ops, gates[:, 3 * width :]), times=let_in)
        for old in cells:
            cell = ops.add(ops.multiply(old, forget), cell)
        return ops.activate("gelu", self.state_norm(ops, cell), times=let_out), cell

    def table(self, step: int) -> Tensor:
        """See ``Speculator``; the same for all steps."""
        return self.embedding

    def output(self, step: int) -> Linear:
        """See ``Speculator``; the same for all steps."""
        return self.head


def _shape_of(stored: Stored) -> _Shape:
    """Read config.json. Raises ModelError."""
    if not stored.flag("tie_weights"):
        raise ModelError(
            f"{stored.config_file}: tie_weights is not true; only LSTM speculators with "
            "shared weights are supported. Use the config.json that was published with the "
            "head."
        )
    prefix = prefix_of(stored)
    gates = GATES[:1] if stored.flag("tie_lstm_embs") else GATES
    return _Shape(
        stored.size("n_predict", most=MOST),
        stored.flag("scale_input"),
        prefix,
        f"{prefix}projs.0.weight" in stored.shapes,
        tuple(f"{prefix}{gate}_emb.0.weight" for gate in gates),
    )
