"""MLP speculator (Wertheimer et al. 2024, arXiv 2404.19124): a recurrence whose step is

    state <- GELU(norm(P state + r E[token]))        logits = H state

Each step has its own P, E, norm and H, or all share them except for the first P, which is as wide as
the target. r is ``Speculator.token_weight``.

The published layout is IBM's, which vLLM and fms-extras read: config.json of ``model_type``
mlp_speculator with ``n_predict``, ``tie_weights`` and ``scale_input``; tensors ``emb``, ``proj``,
``head`` and ``ln`` ``.{step}.weight``, ``ln.{step}.bias``, all with the prefix ``speculator.`` or none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Self

from torch import Tensor

from engine.backends.linear_factory import LinearFactory
from engine.backends.operations import Arithmetic
from engine.drafting.heads.base import HeadPlan, TargetShape
from engine.drafting.heads.speculator import Norm, Speculator, State, prefix_of
from engine.drafting.heads.stateless import stateless_plan
from engine.drafting.heads.stored import MOST, Stored
from engine.kernels.torch.linear import Linear


@dataclass(frozen=True, slots=True)
class Stage:
    """The weights of one step: ``project`` (in -> width), ``table`` (vocabulary, width)."""

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
        """Return the names of one step's tensors."""
        own = 0 if self.tied else step
        project = min(step, 1) if self.tied else step
        return {
            "table": f"{self.prefix}emb.{own}.weight",
            "project": f"{self.prefix}proj.{project}.weight",
            "output": f"{self.prefix}head.{own}.weight",
            "norm": f"{self.prefix}ln.{own}",
        }


@dataclass(frozen=True, slots=True)
class MlpHead(Speculator):
    """A ``Speculator``; ``stages[k]`` has the weights of step k."""

    stages: Sequence[Stage]

    kind: ClassVar[str] = "mlp"

    @classmethod
    def plan(cls, stored: Stored, target: TargetShape) -> HeadPlan:
        shape = _Shape(
            stored.size("n_predict", most=MOST),
            stored.flag("tie_weights"),
            stored.flag("scale_input"),
            prefix_of(stored),
        )
        first = shape.names(0)
        width, hidden = stored.matrix(first["project"])
        vocabulary, _ = stored.matrix(first["output"])
        tensors: dict[str, tuple[int, ...]] = {}
        for step in range(shape.steps):
            names = shape.names(step)
            tensors[names["table"]] = tensors[names["output"]] = (vocabulary, width)
            tensors[names["project"]] = (width, width if step else hidden)
            tensors |= Norm.shapes(names["norm"], width)
        return stateless_plan(
            cls.kind, stored, target, tensors, hidden=hidden, vocabulary=vocabulary, shape=shape,
            steps=shape.steps,
        )  # fmt: skip

    @classmethod
    def load(cls, plan: HeadPlan, linears: LinearFactory) -> Self:
        stored, shape = plan.stored, plan.shape
        linear = cache(lambda name: linears.linear(stored(name)))  # steps may share a tensor
        table = cache(lambda name: stored(name).to(linears.device))
        norm = cache(lambda name: Norm.read(stored, linears, name))
        stages = []
        for names in map(shape.names, range(shape.steps)):
            project, output = linear(names["project"]), linear(names["output"])
            stages.append(Stage(project, table(names["table"]), norm(names["norm"]), output))
        return cls(shape.steps, shape.scaled, tuple(stages))

    def advance(self, ops: Arithmetic, state: State, embedded: Tensor, step: int) -> State:
        stage, weight = self.stages[step], self.token_weight(embedded.shape[1])
        mixed = ops.add(ops.linear(stage.project, state[0]), embedded, weight)
        return (ops.activate("gelu", stage.norm(ops, mixed)),)

    def table(self, step: int) -> Tensor:
        return self.stages[step].table

    def output(self, step: int) -> Linear:
        return self.stages[step].output
