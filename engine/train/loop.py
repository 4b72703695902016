"""The training loop of every stage: updates, log, evaluation, checkpoints, until the budget is spent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor

from engine.errors import MALFORMED
from engine.train.optim import Optimizers
from engine.train.output.checkpoint import load_checkpoint, save_checkpoint, uninterrupted
from engine.train.output.run_directory import RunDirectory
from engine.train.progress import Clock, Phase, Progress, ProgressFile, Tell, Timer
from engine.train.schema import Budget, OptimizerStage, RecipeError

_LOG_EVERY = 20  # steps


@dataclass(frozen=True, slots=True)
class Loss:
    """total: sum in nats over the learned positions, with its graph; count: how many they are."""

    total: Tensor
    count: int


class Stage(Protocol):
    """The part of a recipe that the loop reads."""

    @property
    def budget(self) -> Budget: ...

    @property
    def optimizer(self) -> OptimizerStage: ...

    @property
    def micro_batches(self) -> int: ...

    @property
    def checkpoint_minutes(self) -> float: ...

    @property
    def evaluate_minutes(self) -> float: ...


class Sized(Protocol):
    """A batch with ``positions``, of which ``learned`` count in the loss."""

    @property
    def positions(self) -> int: ...

    @property
    def learned(self) -> int: ...


B = TypeVar("B", bound=Sized)


class Task(Protocol[B]):
    """Batches, loss and evaluation of a stage."""

    def batches(self, clock: Clock) -> Iterator[B]:
        """Yield batches without end."""

    def loss(self, batch: B) -> Loss: ...

    def evaluate(self, tell: Tell) -> dict[str, object]:
        """Return figures for the log, and tell how far it is; called under no_grad."""

    def position(self) -> dict[str, Any]:
        """Return the state of the batches, as plain values for the checkpoint."""

    def restore(self, position: dict[str, Any]) -> None:
        """Continue from ``position``; called before ``batches``."""


class Loop(Generic[B]):
    """Train a model on a task. Mutates the model; owns optimisers, clock, log and checkpoint."""

    def __init__(
        self, name: str, model: Any, stage: Stage, task: Task[B], folder: RunDirectory
    ) -> None:
        self._name, self._model, self._stage, self._task = name, model, stage, task
        self._optimizers = Optimizers(model, stage.optimizer)
        self._checkpoint, self._journal = folder.checkpoint(name), folder.journal(name)
        self._progress = ProgressFile(folder.progress)
        self._clock = Clock(stage.budget)
        self._step = 0

    def begin_at(self, clock: Clock) -> None:
        """Continue an earlier run's token and time count, since its weights are continued."""
        self._clock = clock

    def restore(self) -> None:
        """Continue from the latest checkpoint, if any. Raises RecipeError for another recipe's."""
        state = load_checkpoint(self._checkpoint)
        if state is None:
            return
        try:
            self._model.load_state_dict(state["model"])
            self._optimizers.load_state_dict(state["optimizers"])
        except (RuntimeError, *MALFORMED) as error:
            raise RecipeError(
                f"{self._checkpoint} is of a recipe with another shape or optimizer. Start over "
                "(--fresh), or choose another --out."
            ) from error
        self._clock = Clock(self._stage.budget, state["tokens"], state["seconds"])
        self._step = state["step"]
        self._task.restore(state["feed"])

    def run(self) -> None:
        """Train until the budget is spent. On Ctrl-C, save a checkpoint and raise it again."""
        try:
            self._train()
            self._evaluate()
        except KeyboardInterrupt:
            self.save()
            raise
        self.save()

    def _train(self) -> None:
        stream = self._task.batches(self._clock)
        checkpoint = Timer(self._stage.checkpoint_minutes)
        evaluate = Timer(self._stage.evaluate_minutes)
        with Progress(self._name, self._progress) as shown:
            while self._clock.progress < 1.0:
                with uninterrupted():
                    loss, norm = self.update(stream)
                shown.update(self._clock, loss)
                if self._step == 1 or self._step % _LOG_EVERY == 0:  # a short run has a curve, too
                    self._log(loss=round(loss, 4), gradient=round(norm, 3))
                if checkpoint.due():
                    self.save()
                if evaluate.due():
                    self._evaluate()

    def update(self, stream: Iterator[B]) -> tuple[float, float]:
        """Do one step. Return the mean loss per learned token and the gradient's norm."""
        batches = [next(stream) for _ in range(self._stage.micro_batches)]
        learned = max(1, sum(batch.learned for batch in batches))
        total = 0.0
        for batch in batches:
            loss = self._task.loss(batch)
            (loss.total / learned).backward()
            total += float(loss.total.detach())
        self._clock.tokens += sum(batch.positions for batch in batches)
        norm = self._optimizers.step(self._clock.progress)
        self._step += 1
        return total / learned, norm

    def save(self) -> None:
        """Replace the checkpoint."""
        state = {
            "model": self._model.state_dict(),
            "optimizers": self._optimizers.state_dict(),
            "tokens": self._clock.tokens,
            "seconds": self._clock.seconds,
            "step": self._step,
            "feed": self._task.position(),
        }
        save_checkpoint(self._checkpoint, state)

    def _evaluate(self) -> None:
        share = round(self._clock.progress, 4)
        tell = partial(self._progress.write, Phase.MEASURING, share=share)
        tell()
        with torch.no_grad():
            self._log(**self._task.evaluate(tell))

    def _log(self, **values: object) -> None:
        self._journal.write(
            step=self._step,
            tokens=self._clock.tokens,
            seconds=round(self._clock.seconds, 1),
            progress=round(self._clock.progress, 4),
            **values,
        )
