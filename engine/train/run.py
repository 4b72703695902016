"""Runs the recipe of a drafter: record the target's replies, learn from them, measure, export."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from engine.decoding.text import TextCodec
from engine.drafting import heads
from engine.drafting.heads.products import Products
from engine.drafting.resources import Resources
from engine.errors import ModelError
from engine.loading.loader import load_model
from engine.machine import devices
from engine.models.base import Model, TappableModel
from engine.models.checkpoints.checkpoint import inspect
from engine.models.hidden_states import entering, joined
from engine.train import kinds
from engine.train.answers import record
from engine.train.card import write_card
from engine.train.loop import Loop, Paths
from engine.train.machine import choose_device
from engine.train.measure import Exam, measure
from engine.train.progress import ProgressFile, report
from engine.train.prompts import Prompts
from engine.train.recipe import Recipe
from engine.train.recording import Recording, with_normed
from engine.train.schema import read
from engine.train.task import DistilTask
from engine.train.trainer import Origin, Surveyor, Trainer


@dataclass(frozen=True, slots=True)
class Places:
    """Where a run keeps its things, all inside one folder."""

    out: Path
    kind: str

    @property
    def recording(self) -> Path:
        """Several kinds may learn from one; each has folders of its own for the rest."""
        return self.out / "recording"

    @property
    def result(self) -> Path:
        return self.out / self.kind

    @property
    def trial(self) -> Path:
        """The drafter as it is while it learns, for measuring."""
        return self.out / "state" / f"{self.kind}-trial"


def distil(
    recipe: Recipe, target: Path, prompts: Prompts, out: Path, *, resume: bool = True
) -> Path:
    """Trains the drafter of ``recipe`` for the model in ``target``; returns the folder it is in.

    A run that stopped goes on from its last shard of replies and its last checkpoint. Raises ModelError
    for a target that shows no hidden states, RecordingError when the disk is full.
    """
    places, paths = Places(out, recipe.kind), Paths(out)
    device = choose_device(recipe)
    if not resume:
        _forget(places, paths, recipe.kind)
    model = load_model(target)
    if not isinstance(model, TappableModel):
        raise ModelError(
            f"{target} shows no hidden states, so no {recipe.kind} drafter can learn from it. Use a "
            "model of an architecture that this engine knows."
        )
    codec = TextCodec(target)
    origin = Origin.of(model, device, recipe.hard_weight)
    torch.manual_seed(recipe.seed)
    kind = kinds.trainer(recipe.kind)
    trainer = kind(read(kind.Shape, recipe.shape, "shape"), origin)
    # A recipe may have been written for a deeper target; these layers are for other kinds anyway.
    layers = [layer for layer in recipe.replies.layers if layer <= model.info.layers]
    taps = joined((*trainer.taps, *entering(*layers)))
    recording = Recording(places.recording, with_normed(taps))
    told = ProgressFile(paths.progress)
    record(model, codec, prompts.learned, recipe.replies, recording, recipe.seed, told)
    if isinstance(trainer, Surveyor):
        trainer.survey(recording)

    def examined() -> dict[str, object]:
        return _examine(trainer, recipe.kind, target, model, codec, prompts, places.trial)

    task = DistilTask(trainer, recording, recipe, device, examined)
    loop = Loop(recipe.kind, trainer.module, recipe, task, paths)
    if resume:
        loop.restore()
    loop.run()
    trainer.export(places.result)
    log = paths.journal(recipe.kind).read()
    write_card(places.result, recipe, log, len(recording.replies))
    last: Mapping[str, object] = next(
        (entry["acceptance"] for entry in reversed(log) if "acceptance" in entry), {}
    )
    report(f"{recipe.kind}: {json.dumps(last)}, in {places.result}")
    return places.result


def _examine(
    trainer: Trainer,
    kind: str,
    target: Path,
    model: Model,
    codec: TextCodec,
    prompts: Prompts,
    folder: Path,
) -> dict[str, object]:
    """Exports the drafter, loads it as the app would, and lets it draft."""
    trainer.export(folder)
    resources = _resources(kind, folder, target, model)
    return measure(model, codec, resources, kind, trainer.depth, Exam(prompts.held_out))


def _resources(kind: str, folder: Path, target: Path, model: Model) -> Resources:
    if kind not in heads.kinds():
        return Resources(draft=load_model(folder))
    plan = heads.inspect(folder, inspect(target))
    head = heads.load(plan, Products.choose("fp32", devices.choose()))
    return Resources(heads={kind: head})


def _forget(places: Places, paths: Paths, kind: str) -> None:
    """Starts over; the replies are kept, since the target would say the same again."""
    paths.checkpoint(kind).unlink(missing_ok=True)
    paths.journal(kind).path.unlink(missing_ok=True)
