"""Distillation of a drafter: batches of recorded replies in, acceptance in the engine out."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from engine.decoding.text.codec import TextCodec
from engine.drafting.resources import Resources
from engine.local.session import Session
from engine.machine.devices import Device
from engine.models.base import Model
from engine.reply import ReplyState
from engine.request import Control, Request, Speculation
from engine.stats import Statistics
from engine.train.data.batches import Batch, batches
from engine.train.data.prompts import Prompt
from engine.train.data.recording import Recording, with_normed
from engine.train.loop import Loss
from engine.train.progress import Clock, Tell
from engine.train.recipe import Recipe
from engine.train.schema import subseed
from engine.train.trainer import Trainer
from engine.values.sampling import AcceptanceRule, Sampling

_MEASURED_TOKENS = 64  # of each reply


class DistilTask:
    """See ``engine.train.loop.Task``."""

    def __init__(
        self,
        trainer: Trainer,
        recording: Recording,
        recipe: Recipe,
        device: torch.device,
        measure: Callable[[Tell], dict[str, object]],
    ) -> None:
        """``measure`` returns the drafter's current acceptance."""
        self._trainer, self._recording, self._recipe = trainer, recording, recipe
        self._device, self._measure = device, measure
        self._drawn = 0

    def batches(self, clock: Clock) -> Iterator[Batch]:
        """Yield the stream of the recipe's seed; a resumed run skips the batches that it had."""
        recipe = self._recipe
        rng = random.Random(subseed(recipe.seed, "windows"))
        stream = batches(
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

    def loss(self, batch: Batch) -> Loss:
        return self._trainer.loss(batch.to(self._device))

    def evaluate(self, tell: Tell) -> dict[str, object]:
        return {"acceptance": self._measure(tell)}

    def position(self) -> dict[str, Any]:
        return {"drawn": self._drawn}

    def restore(self, position: dict[str, Any]) -> None:
        self._drawn = position["drawn"]


def measure(
    model: Model,
    codec: TextCodec,
    resources: Resources,
    proposer: str,
    depth: int,
    prompts: Sequence[Prompt],
    place: Device | None = None,
    tell: Tell = lambda **details: None,
) -> dict[str, object]:
    """Return the acceptance at ``depth`` of greedy replies: mean length and rate per position.

    ``place`` as of ``Session``. ``tell`` hears of every reply.
    """
    session = Session(model, codec, resources, place)
    total, start = Statistics(), time.monotonic()
    for done, prompt in enumerate(prompts, 1):
        request = Request(
            messages=prompt,
            sampling=Sampling(temperature=0),
            speculation=Speculation(
                proposer=proposer,
                depth=depth,
                controller=Control.FIXED,
                acceptance=AcceptanceRule.AUTO,
            ),
            max_tokens=_MEASURED_TOKENS,
        )
        total += ReplyState.of(session.run(request, lambda: False)).statistics
        left = (time.monotonic() - start) / done * (len(prompts) - done)
        tell(done=done, of=len(prompts), seconds_left=round(left, 1))
    session.close()
    return {
        "depth": depth,
        "acceptance_length": round(total.mean_acceptance_length or 1.0, 3),
        "per_position": [round(share, 3) for share in total.per_position],
    }
