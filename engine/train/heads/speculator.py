"""The trainer that MLP and LSTM speculators share: steps unrolled along the target's replies.

Teacher forcing (arXiv 2404.19124): from every hidden state the recurrence reads the tokens that the
target chose next, which are what an accepted draft has. Each step learns from the states of the
step before, and all have equal weight.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from engine.backends.operations import Arithmetic
from engine.backends.torch.eager import EagerArithmetic
from engine.drafting.heads.mlp import Norm, State
from engine.models.hidden_states import NORMED, AuxLayer
from engine.train.data.batches import Batch
from engine.train.loop import Loss
from engine.train.losses import Teacher, head_loss
from engine.train.schema import need
from engine.train.trainer import TargetView, write_head


class Recurrence(Protocol):
    """A speculator up to its output matrix, computed with the weights in training."""

    def start(self, ops: Arithmetic, normed: Tensor) -> State: ...

    def table(self, step: int) -> Tensor: ...

    def advance(self, ops: Arithmetic, state: State, embedded: Tensor, step: int) -> State: ...


class Affine(nn.Module):
    """A norm's scale and shift, under their published names."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    @property
    def norm(self) -> Norm:
        return Norm(self.weight, self.bias)


@dataclass(frozen=True, slots=True)
class _Repeated(Teacher):
    """A teacher that repeats each row ``times`` times in sequence, once for each step."""

    times: int

    @classmethod
    def of(cls, teacher: Teacher, times: int) -> _Repeated:
        labels = teacher.labels.repeat_interleave(times)
        return cls(teacher.hidden, teacher.head, labels, teacher.hard, times)

    def _log_p(self, rows: slice) -> Tensor:
        stop = min(rows.stop, len(self.labels))
        first, behind = rows.start // self.times, -(-stop // self.times)
        log_p = Teacher._log_p(self, slice(first, behind)).repeat_interleave(self.times, dim=0)
        return log_p[rows.start - first * self.times :][: stop - rows.start]


class SpeculatorTrainer(ABC):
    """See ``Trainer``; a kind adds its module, the head that computes with it, and its layout."""

    module: nn.Module

    def __init__(self, target: TargetView, steps: int) -> None:
        self._target, self._steps = target, steps

    @property
    def aux_layers(self) -> tuple[AuxLayer, ...]:
        return (NORMED,)

    @property
    def depth(self) -> int:
        return self._steps

    @abstractmethod
    def recurrence(self) -> Recurrence:
        """The head that computes with the module's weights."""

    @abstractmethod
    def output(self) -> Tensor:
        """The output matrix (vocabulary, width) of all steps."""

    @abstractmethod
    def config(self) -> Mapping[str, Any]:
        """config.json as it is published."""

    @abstractmethod
    def tensors(self) -> Mapping[str, Tensor]:
        """The weights under their published names."""

    def loss(self, batch: Batch) -> Loss:
        pairs = batch.pairs(ahead=self._steps)  # goals that every step has a place to draft from
        recurrence, ops = self.recurrence(), EagerArithmetic()
        state = recurrence.start(ops, batch.states[NORMED].flatten(0, 1))
        states = []
        for step in range(self._steps):
            # No goal refers to the tokens that wrap around at the end of a row.
            token = batch.tokens.roll(-(step + 1), dims=1).flatten()
            state = recurrence.advance(ops, state, recurrence.table(step)[token], step)
            states.append(state[0][pairs.goals - (step + 1)])
        goal = _Repeated.of(self._target.teacher(batch, pairs), self._steps)
        total = head_loss(torch.stack(states, dim=1).flatten(0, 1), self.output(), goal)
        return Loss(total, len(goal.labels))

    def export(self, folder: Path) -> None:
        write_head(folder, self.config(), self.tensors())


def check_sizes(n_predict: int, inner_dim: int) -> None:
    """Raise RecipeError for sizes below 1."""
    need(n_predict > 0, "shape.n_predict", "must be 1 or more, the tokens drafted in a round")
    need(inner_dim > 0, "shape.inner_dim", "must be 1 or more, the width of the state")


def initialise(module: nn.Module, output: Tensor, target: Tensor) -> None:
    """Initialise embeddings and matrices as fms-extras does, and ``output`` from the target's head.

    ``output`` (vocabulary, width) is ``target`` (vocabulary, hidden) on its principal directions.
    """
    for part in module.modules():
        if isinstance(part, nn.Embedding | nn.Linear):
            nn.init.normal_(part.weight, 0, min(part.weight.shape) ** -0.5)
    count = min(output.shape[1], target.shape[1])
    directions = torch.linalg.eigh(target.T @ target).eigenvectors[:, -count:]  # weakest first
    with torch.no_grad():
        output[:, :count].copy_(target @ directions)
