"""MLP speculator (Wertheimer et al. 2024, arXiv 2404.19124): a small recurrence behind the target.

Its state begins as the target's last hidden state, behind the final norm. Each step takes in one more
token, the pending one first, and names the token that follows it:

    state <- GELU(norm(P state + r E[token]))        logits = H state

P, E, the norm and H are those of the step, or shared by all steps but the first, whose P is as wide as
the target. r weighs the token against the state, so that after the last step half of the state is still
the target's (``emphasis``).

The published layout is IBM's, which vLLM and fms-extras read: config.json of ``model_type``
mlp_speculator with ``n_predict``, ``tie_weights`` and ``scale_input``; tensors ``emb``, ``proj``,
``head`` and ``ln`` ``.{step}.weight``, ``ln.{step}.bias``, each name behind ``speculator.`` or not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Self

from torch import Tensor

from engine.backends.linear_factory import LinearFactory
from engine.backends.operations import Arithmetic, Operations
from engine.drafting.heads.base import HeadPlan, TargetShape, check_fits
from engine.drafting.heads.stored import Stored
from engine.kernels.operands import Tokens
from engine.kernels.torch.linear import Linear
from engine.models.hidden_states import NORMED, AuxLayer

EPSILON = 1e-6

State = tuple[Tensor, ...]
"""What a step hands to the next. The first tensor (rows, width) is what the output matrix reads."""


@dataclass(frozen=True, slots=True)
class Norm:
    """RMS norm with a scale and a shift, both (width,)."""

    weight: Tensor
    bias: Tensor

    def __call__(self, ops: Arithmetic, x: Tensor) -> Tensor:
        return ops.norm(x, EPSILON, weight=self.weight, bias=self.bias)


def emphasis(steps: int, width: int) -> float:
    """How much a token's embedding counts against a state of ``width``: w_e / w_s of section 3.1.

    w_s^(2 steps) = 1/2, and w_e^2 = (1 - w_s^2) width / 2.
    """
    kept = math.pow(0.5, 0.5 / steps)
    return math.sqrt((1 - kept**2) * width / 2) / kept


def first_state(ops: Arithmetic, normed: Tensor, scaled: bool) -> Tensor:
    """The target's hidden state as a speculator takes it: with ``scale_input`` at a length of its own."""
    return ops.norm(normed, EPSILON, scale=2**-0.5) if scaled else normed


@dataclass(frozen=True, slots=True)
class Stage:
    """What one step computes with: ``project`` (in -> width), ``table`` (vocabulary, width)."""

    project: Linear
    table: Tensor
    norm: Norm
    output: Linear


@dataclass(frozen=True, slots=True)
class _Shape:
    """What config.json and the names of the tensors say."""

    steps: int
    tied: bool
    scaled: bool
    prefix: str

    def names(self, step: int) -> Mapping[str, str]:
        """The tensors of one step."""
        own = 0 if self.tied else step
        project = min(step, 1) if self.tied else step
        return {
            "table": f"{self.prefix}emb.{own}.weight",
            "project": f"{self.prefix}proj.{project}.weight",
            "output": f"{self.prefix}head.{own}.weight",
            "norm": f"{self.prefix}ln.{own}",
        }


@dataclass(frozen=True, slots=True)
class MlpHead:
    """``stages[k]`` drafts the token k + 1 behind the pending one."""

    stages: Sequence[Stage]
    scaled: bool

    kind: ClassVar[str] = "mlp"

    @property
    def aux_layers(self) -> tuple[AuxLayer, ...]:
        return (NORMED,)

    @property
    def steps(self) -> int:
        """Most tokens it drafts."""
        return len(self.stages)

    @classmethod
    def plan(cls, stored: Stored, target: TargetShape) -> HeadPlan:
        """See ``Head``."""
        shape = _Shape(
            stored.size("n_predict"),
            stored.flag("tie_weights"),
            stored.flag("scale_input"),
            prefix_of(stored),
        )
        first = shape.names(0)
        width, hidden = stored.matrix(first["project"])
        vocabulary, _ = stored.matrix(first["output"])
        wanted: dict[str, tuple[int, ...]] = {}
        for step in range(shape.steps):
            names = shape.names(step)
            wanted[names["table"]] = wanted[names["output"]] = (vocabulary, width)
            wanted[names["project"]] = (width, width if step else hidden)
            wanted |= norm_shapes(names["norm"], width)
        stored.expect(wanted)
        check_fits(stored, target, hidden=hidden, vocabulary=vocabulary)
        return HeadPlan(cls.kind, stored, (NORMED,), numbers(wanted), shape=shape)

    @classmethod
    def load(cls, plan: HeadPlan, linears: LinearFactory) -> Self:
        """See ``Head``."""
        stored, shape = plan.stored, plan.shape
        linear = cache(lambda name: linears.linear(stored(name)))  # steps may share a tensor
        table = cache(lambda name: stored(name).to(linears.device))
        norm = cache(lambda name: read_norm(stored, linears, name))
        stages = []
        for names in map(shape.names, range(shape.steps)):
            project, output = linear(names["project"]), linear(names["output"])
            stages.append(Stage(project, table(names["table"]), norm(names["norm"]), output))
        return cls(tuple(stages), shape.scaled)

    def start(self, ops: Arithmetic, normed: Tensor) -> State:
        """The state before the first step, for the target's ``normed (rows, hidden)``."""
        return (first_state(ops, normed, self.scaled),)

    def advance(self, ops: Arithmetic, state: State, embedded: Tensor, step: int) -> State:
        """The state behind tokens whose rows of the step's table are ``embedded (rows, width)``."""
        stage = self.stages[step]
        weight = emphasis(self.steps, embedded.shape[1])
        mixed = ops.add(ops.linear(stage.project, state[0]), embedded, weight)
        return (ops.activate("gelu", stage.norm(ops, mixed)),)

    def table(self, step: int) -> Tensor:
        """(vocabulary, width)."""
        return self.stages[step].table

    def draft(self, ops: Operations, chain: Tokens, normed: Tensor) -> Iterator[Tensor]:
        """See ``StatelessHead``."""
        state = self.start(ops, normed)
        for step, stage in enumerate(self.stages):
            state = self.advance(ops, state, ops.embed(stage.table, chain, step), step)
            yield ops.linear(stage.output, state[0])


def prefix_of(stored: Stored) -> str:
    """What stands before the names of all tensors."""
    prefix = "speculator."
    return prefix if any(name.startswith(prefix) for name in stored.shapes) else ""


def norm_shapes(name: str, width: int) -> dict[str, tuple[int, ...]]:
    """The tensors of a norm."""
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}


def read_norm(stored: Stored, linears: LinearFactory, name: str) -> Norm:
    """The norm of that name."""
    weight, bias = (linears.vector(stored(f"{name}.{part}")) for part in ("weight", "bias"))
    return Norm(weight, bias)


def numbers(shapes: Mapping[str, tuple[int, ...]]) -> int:
    """How many there are in tensors of these shapes."""
    return sum(math.prod(shape) for shape in shapes.values())
