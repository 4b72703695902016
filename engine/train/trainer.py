"""The protocol of what learns to draft for a target."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from engine.models.base import HiddenStateModel, ModelInfo
from engine.models.hidden_states import NORMED, AuxLayer
from engine.train.data.recording import Recording
from engine.train.data.windows import Pairs, Window
from engine.train.loop import Loss
from engine.train.losses import Teacher
from engine.values import MAX_ROWS

CPU = torch.device("cpu")


class Tables(Protocol):
    """Both ends of a target, in float32: what it computes with, quantised or not.

    Only rows that are asked for are made: 150,000 tokens 1,536 wide would take 0.9 GB each.
    """

    def embedded(self, tokens: Tensor) -> Tensor:
        """``tokens (...,)`` int64 -> (..., hidden)."""

    def head(self, tokens: Tensor | None = None) -> Tensor:
        """The output matrix's rows of ``tokens (count,)``, or all: (count, hidden)."""


@dataclass(frozen=True)
class Origin:
    """The target, as a trainer sees it.

    ``scale``: how large the numbers are that its output head takes, as root of their mean square.
    """

    info: ModelInfo
    tables: Tables
    hard_weight: float
    device: torch.device = CPU
    scale: float = 1.0

    @classmethod
    def of(cls, model: HiddenStateModel, device: torch.device, hard_weight: float) -> Origin:
        """Of a model that is loaded; ``device`` is where is trained."""
        tables = _ModelTables(model, device)
        return cls(model.info, tables, hard_weight, device, _scale_of(model))

    @property
    def hidden(self) -> int:
        return self.info.hidden

    @property
    def vocabulary(self) -> int:
        return self.info.vocabulary

    @cached_property
    def head(self) -> Tensor:
        """The whole output matrix (vocabulary, hidden), kept: for drafters that name every token."""
        return self.tables.head()

    def teacher(self, window: Window, pairs: Pairs) -> Teacher:
        """What the target says after each goal position of ``pairs``."""
        normed = window.states[NORMED].flatten(0, 1)[pairs.goals]
        return Teacher(normed, self.head, pairs.labels, self.hard_weight)


class Trainer(Protocol):
    """Learns from windows; built once for a run, with random or derived weights.

    ``Shape`` is a frozen dataclass of the recipe's key ``shape``. ``module`` owns what is trained.
    """

    Shape: ClassVar[type]
    module: nn.Module

    def __init__(self, shape: Any, origin: Origin) -> None: ...

    @property
    def aux_layers(self) -> tuple[AuxLayer, ...]:
        """The hidden states it learns from, ``NORMED`` aside, which every window has."""

    @property
    def depth(self) -> int:
        """How many tokens to draft when its acceptance is measured."""

    def loss(self, window: Window) -> Loss:
        """The sum in nats over what is learned, and how much that is."""

    def export(self, folder: Path) -> None:
        """Writes the drafter in its published layout. Raises OSError."""


@runtime_checkable
class Surveyor(Protocol):
    """A trainer that looks through all replies before it learns from the first."""

    def survey(self, recording: Recording) -> None:
        """Called once for a run, before a checkpoint is restored."""


@dataclass(frozen=True, slots=True)
class _ModelTables:
    """Asks the model for each row."""

    model: HiddenStateModel
    device: torch.device

    def embedded(self, tokens: Tensor) -> Tensor:
        found = self.model.embed(tokens.flatten().tolist())
        return found.to(self.device).view(*tokens.shape, -1)

    def head(self, tokens: Tensor | None = None) -> Tensor:
        """Column by column: the head's product with the unit vectors.

        A soft cap on logits bends what is far larger than a weight; a weight itself it leaves alone.
        """
        info = self.model.info
        named = slice(None) if tokens is None else tokens.to(info.device)
        count = info.vocabulary if tokens is None else len(tokens)
        units = torch.eye(info.hidden, device=info.device)
        nothing = self.model.logits(units.new_zeros(1, info.hidden))  # a bias, if there is one
        result = torch.empty(count, info.hidden, device=self.device)
        for number, part in enumerate(units.split(MAX_ROWS)):
            columns = (self.model.logits(part) - nothing)[:, named]
            result[:, number * MAX_ROWS : number * MAX_ROWS + len(part)] = columns.T
        return result


def _scale_of(model: HiddenStateModel) -> float:
    """Hardly depends on the text: the final norm makes all states about equally large."""
    tokens = range(min(MAX_ROWS, model.info.vocabulary))
    cache = model.new_state(len(tokens), (NORMED,))
    model.forward(tokens, cache, last=0)
    assert cache.aux is not None
    normed: Tensor = cache.aux.at(NORMED)[: len(tokens)].float()
    return float(normed.pow(2).mean().sqrt())
