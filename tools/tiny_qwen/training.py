"""Trains the target, then the MTP layer on the target's states, over several steps of itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from engine.train.loop import Loop, Loss
from engine.train.losses import Labels, Teacher, head_loss
from engine.train.output.run_directory import RunDirectory
from engine.train.progress import Clock, Tell
from engine.train.schema import Budget, OptimizerStage
from tools.tiny_qwen.data import Material, Rows
from tools.tiny_qwen.network import Mtp

ROWS = 6  # in a step
STEPS = 3
"""How deep the MTP layer is trained to draft."""
_HARD = (
    0.1  # share of the text itself in the MTP layer's loss; the rest is the target's distribution
)
_HELD_OUT_BATCHES = 4


@dataclass(frozen=True, slots=True)
class Stage:
    """What the loop reads of a recipe."""

    budget: Budget
    optimizer: OptimizerStage = field(default_factory=OptimizerStage)
    micro_batches: int = 1
    checkpoint_minutes: float = 2.0
    evaluate_minutes: float = 5.0


class _Task:
    """Batches by number, and the mean held-out loss."""

    def __init__(self, material: Material, held_out: Material) -> None:
        self._material, self._next = material, 0
        self._held_out = [held_out.batch(at, ROWS, True) for at in range(_HELD_OUT_BATCHES)]

    def batches(self, clock: Clock) -> Iterator[Rows]:
        while True:
            self._next += 1
            yield self._material.batch(self._next, ROWS)

    def loss(self, batch: Rows) -> Loss:
        raise NotImplementedError

    def evaluate(self, tell: Tell) -> dict[str, object]:
        losses = [self.loss(batch) for batch in self._held_out]
        total = sum(float(loss.total) for loss in losses)
        return {"held_out": round(total / sum(loss.count for loss in losses), 4)}

    def position(self) -> dict[str, Any]:
        return {"batch": self._next}

    def restore(self, position: dict[str, Any]) -> None:
        self._next = position["batch"]


class TargetTask(_Task):
    """Cross-entropy of the next token."""

    def __init__(self, model: Any, material: Material, held_out: Material) -> None:
        super().__init__(material, held_out)
        self._model = model

    def loss(self, batch: Rows) -> Loss:
        with _mixed():
            hidden = states(self._model, batch.tokens)[:, :-1].flatten(0, 1).float()
        labels = batch.tokens[:, 1:].flatten()
        head = self._model.model.embed_tokens.weight
        return Loss(head_loss(hidden, head, Labels(labels)), len(labels))


class MtpTask(_Task):
    """The target's distributions, for each step of the MTP layer; what it reads are the text's tokens."""

    def __init__(self, model: Any, mtp: Mtp, material: Material, held_out: Material) -> None:
        super().__init__(material, held_out)
        self._model, self._mtp = model, mtp

    def loss(self, batch: Rows) -> Loss:
        with torch.no_grad(), _mixed():
            hidden = states(self._model, batch.tokens).float()
        length = batch.tokens.shape[1] - STEPS - 1

        def part(values: Tensor, start: int) -> Tensor:
            return values[:, start : start + length]

        def tokens(step: int, _: Tensor) -> Tensor:
            return part(batch.tokens, step + 1)

        with _mixed():
            made = self._mtp.steps(self._model, part(hidden, 0), STEPS, tokens)
        head = self._model.model.embed_tokens.weight
        total = torch.zeros(())
        for step, state in enumerate(made):
            told = part(hidden, step + 1).flatten(0, 1)
            labels = part(batch.tokens, step + 2).flatten()
            goal = Teacher(told, head, labels, _HARD)
            total = total + head_loss(state.flatten(0, 1).float(), head, goal)
        return Loss(total, STEPS * len(batch.tokens) * length)


def states(model: Any, tokens: Tensor) -> Tensor:
    """Return the target's states after its last norm."""
    hidden: Tensor = model.model(input_ids=tokens, use_cache=False).last_hidden_state
    return hidden


def _mixed() -> torch.autocast:
    """Products in bf16, which is a quarter faster here; sums and norms stay in fp32."""
    return torch.autocast("cpu", torch.bfloat16)


def train_target(
    model: Any, materials: Sequence[Material], minutes: float, folder: RunDirectory
) -> None:
    """Train for so many minutes, from the last checkpoint if there is one. Mutates `model`."""
    loop = Loop(
        "target", model, Stage(Budget(minutes=minutes)), TargetTask(model, *materials), folder
    )
    loop.restore()
    loop.run()


def train_mtp(
    model: Any, mtp: Mtp, materials: Sequence[Material], minutes: float, folder: RunDirectory
) -> None:
    """Train the MTP layer, likewise; the target stays as it is."""
    model.requires_grad_(False)
    mtp.begin_as(model)
    task = MtpTask(model, mtp, *materials)
    loop = Loop("mtp", mtp, Stage(Budget(minutes=minutes)), task, folder)
    loop.restore()
    loop.run()
