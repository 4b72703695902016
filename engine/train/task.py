"""What a drafter's training adds to the loop: recorded replies in, acceptance in the engine out."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import torch

from engine.train.clock import Clock
from engine.train.data.recording import Recording, with_normed
from engine.train.data.windows import Window, windows
from engine.train.loop import Loss
from engine.train.recipe import Recipe
from engine.train.seeds import subseed
from engine.train.trainer import Trainer


class DistilTask:
    """See ``engine.train.loop.Task``."""

    def __init__(
        self,
        trainer: Trainer,
        recording: Recording,
        recipe: Recipe,
        device: torch.device,
        measure: Callable[[], dict[str, object]],
    ) -> None:
        """``measure``: the drafter's acceptance as it is now."""
        self._trainer, self._recording, self._recipe = trainer, recording, recipe
        self._device, self._measure = device, measure
        self._drawn = 0

    def batches(self, clock: Clock) -> Iterator[Window]:
        """The same stream for the same recipe; a resumed run passes over what it had."""
        recipe = self._recipe
        rng = random.Random(subseed(recipe.seed, "windows"))
        stream = windows(
            self._recording,
            self._recording.replies,
            with_normed(self._trainer.aux_layers),
            recipe.window,
            recipe.batch_tokens,
            rng,
            prompts=recipe.learn_prompts,
        )
        for number, make in enumerate(stream):
            if number >= self._drawn:
                self._drawn += 1
                yield make()

    def loss(self, batch: Window) -> Loss:
        return self._trainer.loss(batch.to(self._device))

    def evaluate(self) -> dict[str, object]:
        return {"acceptance": self._measure()}

    def position(self) -> dict[str, Any]:
        return {"drawn": self._drawn}

    def restore(self, position: dict[str, Any]) -> None:
        self._drawn = position["drawn"]
