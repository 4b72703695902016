"""The protocol of what learns to draft for a target."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from engine.models.base import ModelInfo, TappableModel
from engine.models.hidden_states import NORMED, Tap
from engine.request import MAX_ROWS
from engine.train.loop import Loss
from engine.train.losses import Teacher
from engine.train.recording import Recording
from engine.train.windows import Pairs, Window


@dataclass(frozen=True, slots=True)
class Origin:
    """The target, as a trainer sees it: fixed weights in float32 on the training device.

    ``embedding`` and ``head`` (vocabulary, hidden): what the model computes with, quantised or not.
    ``scale``: how large the numbers are that ``head`` takes, as root of their mean square.
    """

    info: ModelInfo
    embedding: Tensor
    head: Tensor
    hard_weight: float
    scale: float = 1.0

    @classmethod
    def of(cls, model: TappableModel, device: torch.device, hard_weight: float) -> Origin:
        """Asks the model for both tables."""
        embedding = model.embed(range(model.info.vocabulary))
        head = _head_of(model).to(device)
        return cls(model.info, embedding.to(device), head, hard_weight, _scale_of(model))

    @property
    def hidden(self) -> int:
        return self.embedding.shape[1]

    @property
    def vocabulary(self) -> int:
        return self.embedding.shape[0]

    def teacher(self, window: Window, pairs: Pairs) -> Teacher:
        """What the target says after each goal position of ``pairs``."""
        normed = window.features[NORMED].flatten(0, 1)[pairs.goals]
        return Teacher(normed, self.head, pairs.labels, self.hard_weight)


class Trainer(Protocol):
    """Learns from windows; built once for a run, with random or derived weights.

    ``Shape`` is a frozen dataclass of the recipe's key ``shape``. ``module`` owns what is trained.
    """

    Shape: ClassVar[type]
    module: nn.Module

    def __init__(self, shape: Any, origin: Origin) -> None: ...

    @property
    def taps(self) -> tuple[Tap, ...]:
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


def _head_of(model: TappableModel) -> Tensor:
    """The output matrix (vocabulary, hidden), column by column: its product with the unit vectors.

    A soft cap on logits bends what is far larger than a weight; a weight itself it leaves alone.
    """
    units = torch.eye(model.info.hidden, device=model.info.device)
    nothing = model.logits(units.new_zeros(1, model.info.hidden))  # a bias, if there is one
    columns = [model.logits(part) - nothing for part in units.split(MAX_ROWS)]
    return torch.cat(columns).T.contiguous()


def _scale_of(model: TappableModel) -> float:
    """Hardly depends on the text: the final norm makes all states about equally large."""
    tokens = range(min(MAX_ROWS, model.info.vocabulary))
    cache = model.new_cache(len(tokens), (NORMED,))
    model.forward(tokens, cache, last=0)
    assert cache.features is not None
    normed: Tensor = cache.features.at(NORMED)[: len(tokens)].float()
    return float(normed.pow(2).mean().sqrt())
