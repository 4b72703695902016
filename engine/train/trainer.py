"""The protocol of trainers, and their view of the target."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from engine.drafting.heads.stored import Stored
from engine.errors import ModelError
from engine.models.base import HiddenStateModel, ModelInfo
from engine.models.hidden_states import NORMED, AuxLayer
from engine.train.data.batches import Batch, Pairs
from engine.train.data.recording import Recording
from engine.train.loop import Loss
from engine.train.losses import Teacher
from engine.train.schema import RecipeError
from engine.values import MAX_ROWS


@dataclass(frozen=True)
class TargetView:
    """The target, as a trainer on ``device`` sees it; ``hard_weight``: see ``Teacher.hard``.

    Rows of its embedding and output head are dequantised to float32 on demand: 150,000 tokens 1,536 wide
    would take 0.9 GB each.
    """

    model: HiddenStateModel
    device: torch.device
    hard_weight: float

    @property
    def info(self) -> ModelInfo:
        return self.model.info

    @property
    def hidden(self) -> int:
        return self.info.hidden

    @property
    def vocabulary(self) -> int:
        return self.info.vocabulary

    @cached_property
    def head(self) -> Tensor:
        """The output matrix (vocabulary, hidden), cached: for drafters with the whole vocabulary."""
        return self.head_rows()

    @cached_property
    def scale(self) -> float:
        """The root mean square of the output head's inputs.

        A few tokens tell: after the final norm it hardly depends on the text.
        """
        tokens = range(min(MAX_ROWS, self.vocabulary))
        state = self.model.new_state(len(tokens), (NORMED,))
        self.model.forward(tokens, state, last=0)
        assert state.aux is not None
        normed: Tensor = state.aux.at(NORMED)[: len(tokens)].float()
        return float(normed.pow(2).mean().sqrt())

    def embedded(self, tokens: Tensor) -> Tensor:
        """Return the embeddings of ``tokens (...,)`` int64: (..., hidden)."""
        rows = self.model.embed(tokens.flatten().tolist())
        return rows.to(self.device).view(*tokens.shape, -1)

    def head_rows(self, tokens: Tensor | None = None) -> Tensor:
        """Return the output matrix's rows of ``tokens (count,)``, or all: (count, hidden).

        They are computed column by column, from unit vectors. A soft cap on logits does not change values
        as small as weights.
        """
        info = self.info
        rows = slice(None) if tokens is None else tokens.to(info.device)
        count = info.vocabulary if tokens is None else len(tokens)
        units = torch.eye(info.hidden, device=info.device)
        bias = self.model.logits(units.new_zeros(1, info.hidden))
        result = torch.empty(count, info.hidden, device=self.device)
        for number, part in enumerate(units.split(MAX_ROWS)):
            columns = (self.model.logits(part) - bias)[:, rows]
            result[:, number * MAX_ROWS : number * MAX_ROWS + len(part)] = columns.T
        return result

    def teacher(self, batch: Batch, pairs: Pairs) -> Teacher:
        """Return the target's distributions after each goal position of ``pairs``."""
        normed = batch.states[NORMED].flatten(0, 1)[pairs.goals]
        return Teacher(normed, self.head, pairs.labels, self.hard_weight)


class Trainer(Protocol):
    """Trains a drafter on batches; built once for a run, with random or derived weights.

    ``Shape`` is a frozen dataclass of the recipe's key ``shape``. ``module`` owns what is trained.
    """

    Shape: ClassVar[type]

    @property
    def module(self) -> nn.Module: ...

    def __init__(self, shape: Any, origin: TargetView) -> None: ...

    @property
    def aux_layers(self) -> tuple[AuxLayer, ...]:
        """The hidden states it learns from, ``NORMED`` aside, which every batch has."""

    @property
    def depth(self) -> int:
        """Tokens to draft a round when its acceptance is measured."""

    def loss(self, batch: Batch) -> Loss:
        """Return the summed loss in nats, and its number of positions."""

    def export(self, folder: Path) -> None:
        """Write the drafter in its published layout. Raises OSError."""


class Continuing(Trainer, Protocol):
    """A trainer that can continue from an exported head."""

    @classmethod
    def shape_of(cls, config: Mapping[str, Any]) -> Any:
        """Return the ``Shape`` of a head with this config.json."""

    def tensors(self) -> Mapping[str, Tensor]:
        """Return what ``export`` writes by its published names; parameters as they are, not copies."""

    def restore(self, head: Stored) -> None:
        """Take over the weights of ``head``, which has the tensors of ``tensors``."""


def continued(trainer_class: type[Trainer], head: Stored, target: TargetView) -> Continuing:
    """Return a trainer with the weights of ``head``.

    Raises ModelError for a kind or layout that cannot be continued, such as a relative with more tensors.
    """
    if not hasattr(trainer_class, "shape_of"):
        raise ModelError(f"Heads of the kind of {head.name} cannot learn from chats yet.")
    try:
        trainer: Any = trainer_class(trainer_class.shape_of(head.config), target)
    except (KeyError, TypeError, ValueError, RecipeError) as error:
        raise ModelError(
            f"{head.config_file} describes a head that cannot learn: {error}"
        ) from error
    own: Mapping[str, Tensor] = trainer.tensors()
    if {name: tuple(tensor.shape) for name, tensor in own.items()} != dict(head.shapes):
        raise ModelError(
            f"{head.folder} has another layout than Foretoken's own heads of its kind."
        )
    trainer.restore(head)
    made: Continuing = trainer
    return made


@torch.no_grad()
def copy_weights(own: Mapping[str, Tensor], head: Stored) -> None:
    for name, tensor in own.items():
        tensor.copy_(head(name))


@runtime_checkable
class Surveyor(Protocol):
    """A trainer that reads statistics of all replies before it learns."""

    def survey(self, recording: Recording) -> None:
        """Read the statistics; called once for a run, before a checkpoint is restored."""


def write_head(folder: Path, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Write config.json and model.safetensors, floats in bf16. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(config, indent=2, sort_keys=True) + "\n"
    (folder / "config.json").write_text(text, encoding="utf-8")
    stored = {
        name: value.detach().to("cpu", torch.bfloat16 if value.is_floating_point() else None)
        for name, value in tensors.items()
    }
    contiguous = {name: value.contiguous() for name, value in stored.items()}
    save_file(contiguous, str(folder / "model.safetensors"), metadata={"format": "pt"})
