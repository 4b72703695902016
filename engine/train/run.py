"""Run the recipe of a drafter: record the target's replies, learn from them, measure, export."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import torch

from engine.backends.linear_factory import LinearFactory
from engine.decoding.text.codec import TextCodec
from engine.drafting import heads
from engine.drafting.resources import Resources
from engine.errors import ModelError
from engine.loading.compile_first import compile_first, needs_step
from engine.loading.loader import load_planned
from engine.loading.planning.model_plan import plan_model
from engine.loading.planning.pairing import vocabularies
from engine.local.session import Session
from engine.machine import devices
from engine.machine.devices import Device
from engine.models.base import HiddenStateModel, Model
from engine.models.checkpoints.checkpoint import inspect
from engine.models.hidden_states import distinct, entering
from engine.request import Request, Speculation
from engine.train.data.generation import at_once, none_taken, record, takes
from engine.train.data.prompts import Prompt, Prompts
from engine.train.data.recording import Recording, with_normed
from engine.train.device import choose_device, torch_yields
from engine.train.distillation import DistilTask, measure
from engine.train.heads import kinds
from engine.train.loop import Loop
from engine.train.output.model_card import write_card
from engine.train.output.run_directory import RunDirectory
from engine.train.progress import ProgressFile, Tell, report
from engine.train.recipe import Recipe
from engine.train.schema import read
from engine.train.trainer import Surveyor, TargetView


def distil(
    recipe: Recipe,
    target: Path,
    prompts: Prompts,
    out: Path,
    *,
    resume: bool = True,
    draft: Path | None = None,
) -> Path:
    """Train the drafter of ``recipe`` for the model in ``target``; return its folder.

    ``target`` is a folder or a GGUF file. ``draft``: a model that drafts while it is recorded, if it
    cannot give several replies at once.
    A stopped run continues from its last shard of replies and its last checkpoint. Raises ModelError for
    a target without hidden states, PromptsError if it takes no prompt, RecordingError when the disk is
    full, RecipeError for the checkpoint of another recipe.
    """
    folder, kind = RunDirectory(out), recipe.kind
    training_device = choose_device(recipe.device, recipe.threads)
    if not resume:  # the replies stay, since the target would repeat them
        folder.checkpoint(kind).unlink(missing_ok=True)
        folder.journal(kind).path.unlink(missing_ok=True)
    device = devices.choose(recipe.device, native=recipe.native, threads=torch.get_num_threads())
    if needs_step(target):  # without it blocks are widened, and it takes longer
        compile_first(
            lambda: device, lambda: report("Compiling the kernels for this processor (once)")
        )
    model = _load(target, device)
    if not isinstance(model, HiddenStateModel):
        raise ModelError(
            f"{target} does not expose hidden states, which a {kind} drafter needs. Choose "
            "a model whose architecture this engine runs itself."
        )
    codec = TextCodec(target)
    view = TargetView(model, training_device, recipe.hard_weight)
    torch.manual_seed(recipe.seed)
    trainer_class = kinds.trainer(kind)
    trainer = trainer_class(read(trainer_class.Shape, recipe.shape, "shape"), view)
    # A recipe may have been written for a deeper target; these layers are for other kinds anyway.
    layers = [layer for layer in recipe.replies.layers if layer <= model.info.layers]
    aux_layers = distinct((*trainer.aux_layers, *entering(*layers)))
    recording = Recording(folder.recording, with_normed(aux_layers), model.info.name)
    progress = ProgressFile(folder.progress)
    held_out = _taken(model, codec, prompts.held_out, device)
    with torch_yields(model):
        record(
            model, codec, prompts.learned, recipe.replies, recording, recipe.seed, progress, device,
            drafting=_drafting(draft, target, device) if draft and not at_once(model) else None,
        )  # fmt: skip
    if isinstance(trainer, Surveyor):
        trainer.survey(recording)

    def evaluate(tell: Tell) -> dict[str, object]:
        """Export the drafter, load it as the app does, and measure its acceptance."""
        trainer.export(folder.trial(kind))
        resources = _resources(kind, folder.trial(kind), target, device)
        with torch_yields(model):
            return measure(model, codec, resources, kind, trainer.depth, held_out, device, tell)

    task = DistilTask(trainer, recording, recipe, training_device, evaluate)
    loop = Loop(kind, trainer.module, recipe, task, folder)
    if resume:
        loop.restore()
    loop.run()
    result = folder.result(kind)
    trainer.export(result)
    log = folder.journal(kind).read()
    write_card(result, recipe, log, len(recording.replies))
    last: Mapping[str, object] = next(
        (entry["acceptance"] for entry in reversed(log) if "acceptance" in entry), {}
    )
    report(f"{kind}: {json.dumps(last)}, in {result}")
    return result


def _taken(
    model: Model, codec: TextCodec, prompts: tuple[Prompt, ...], device: Device
) -> list[Prompt]:
    """Return the prompts that the model takes. Raises PromptsError if there are none."""
    session, plain = Session(model, codec, Resources(), device), Speculation(proposer="none")
    taken = [one for one in prompts if takes(session, Request(messages=one, speculation=plain))]
    session.close()
    if not taken:
        raise none_taken(model)
    return taken


def _load(folder: Path, device: Device) -> Model:
    return load_planned(plan_model(inspect(folder), device))


def _drafting(draft: Path, target: Path, device: Device) -> Resources:
    """Load the draft model that speeds up recording."""
    shared = vocabularies(inspect(target), inspect(draft))
    return Resources(draft=_load(draft, device), vocabularies=shared)


def _resources(kind: str, folder: Path, target: Path, device: Device) -> Resources:
    plan = heads.inspect(folder, inspect(target))
    head = heads.load(plan, LinearFactory.choose("fp32", device))
    return Resources(heads={kind: head})
