"""Trains the target: a Llama decoder on chats and plain text, annealed to the end of its budget."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from engine.train.data import Batch, DataSpec, Feed, FeedState, Material, batch, fill
from engine.train.machine import Clock, Journal, Timer, load_checkpoint, save_checkpoint
from engine.train.network import Network, config_of, new_model, place
from engine.train.optim import Optimizers
from engine.train.progress import Progress
from engine.train.recipe import Phase, Recipe, TargetStage
from engine.train.tokenizer import Encoder

_LOG_EVERY = 20  # steps
_HELD_OUT_EACH = 24  # examples of every kind


@dataclass(frozen=True, slots=True)
class Paths:
    """Where a run keeps its things, all inside one folder."""

    out: Path

    @property
    def tokenizer(self) -> Path:
        return self.out / "tokenizer"

    @property
    def target(self) -> Path:
        return self.out / "target"

    @property
    def draft(self) -> Path:
        return self.out / "draft"

    def checkpoint(self, stage: str) -> Path:
        return self.out / "state" / f"{stage}.pt"

    def journal(self, stage: str) -> Journal:
        return Journal(self.out / f"{stage}.jsonl")


def train_target(recipe: Recipe, paths: Paths, data: Path, device: torch.device, resume: bool) -> Any:
    """A trained LlamaForCausalLM in fp32. Writes checkpoints and the log under `paths`."""
    stage = recipe.target
    tokenizer = Tokenizer.from_file(str(paths.tokenizer / "tokenizer.json"))
    encoder = Encoder(tokenizer)
    model = target_model(stage, tokenizer, recipe.seed).to(device)
    trainer = TargetTrainer(model, recipe, paths, device)
    if resume:
        trainer.restore()
    held_out = held_out_batches(Material(data, _weights(recipe)), encoder, stage, recipe.seed)
    spec = DataSpec(data, paths.tokenizer, stage.rows, recipe.seed, _weights(recipe))
    with Feed(spec, trainer.feed_state) as feed:
        trainer.run(feed, held_out)
    return model


def target_model(stage: TargetStage, tokenizer: Tokenizer, seed: int) -> Any:
    """The untrained target for this tokenizer."""
    encoder = Encoder(tokenizer)
    config = config_of(
        stage.model, tokenizer.get_vocab_size(), encoder.bos, encoder.end, encoder.pad
    )
    return new_model(config, seed)


class TargetTrainer:
    """The loop: steps, log, held-out losses, checkpoints."""

    def __init__(self, model: Any, recipe: Recipe, paths: Paths, device: torch.device) -> None:
        self._model, self._stage, self._device = model, recipe.target, device
        self._network = Network(model, compiled=recipe.compile)
        self._optimizers = Optimizers(model, self._stage.optimizer)
        self._checkpoint = paths.checkpoint("target")
        self._journal = paths.journal("target")
        self._clock = Clock(self._stage.budget)
        self._step = 0
        self.feed_state: FeedState | None = None

    def restore(self) -> None:
        """Goes on from the latest checkpoint, if there is one."""
        state = load_checkpoint(self._checkpoint)
        if state is None:
            return
        self._model.load_state_dict(state["model"])
        self._optimizers.load_state_dict(state["optimizers"])
        self._clock = Clock(self._stage.budget, state["tokens"], state["seconds"])
        self._step = state["step"]
        self.feed_state = FeedState(**state["feed"])

    def run(self, feed: Feed, held_out: Mapping[str, Sequence[Batch]]) -> None:
        """Trains until the budget is spent."""
        stream = feed.batches(self._text_share)
        checkpoint = Timer(self._stage.checkpoint_minutes)
        evaluate = Timer(self._stage.evaluate_minutes)
        self._feed = feed
        with Progress("target") as shown:
            while self._clock.progress < 1.0:
                loss, norm = self._one_step(stream)
                shown.update(self._clock, loss)
                if self._step % _LOG_EVERY == 0:
                    self._log(loss=round(loss, 4), gradient=round(norm, 3))
                if checkpoint.due():
                    self._save()
                if evaluate.due():
                    self._log(held_out=self.held_out_losses(held_out))
        self._log(held_out=self.held_out_losses(held_out))
        self._save()

    def held_out_losses(self, held_out: Mapping[str, Sequence[Batch]]) -> dict[str, float]:
        """Mean loss in nats per learned token, by kind."""
        return {kind: round(self._mean_loss(made), 4) for kind, made in held_out.items()}

    @torch.no_grad()
    def _mean_loss(self, made: Sequence[Batch]) -> float:
        total, count = 0.0, 0
        for entry in made:
            inputs = place(entry, self._device, self._network.dtype)
            total += float(self._network.loss(inputs))
            count += len(inputs.labels)
        return total / max(1, count)

    def _one_step(self, stream: Iterator[Batch]) -> tuple[float, float]:
        """One update; returns the mean loss per learned token and the gradient's norm."""
        made = [next(stream) for _ in range(self._stage.step_tokens // self._stage.rows.micro_tokens)]
        inputs = [place(entry, self._device, self._network.dtype) for entry in made]
        count = max(1, sum(len(entry.labels) for entry in inputs))
        total = torch.zeros((), device=self._device)
        for entry in inputs:
            loss = self._network.loss(entry)
            (loss / count).backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        self._clock.tokens += sum(entry.tokens.numel() for entry in inputs)
        norm = self._optimizers.step(self._clock.progress)
        self._step += 1
        return float(total) / count, norm

    def _text_share(self) -> float:
        return text_share(self._stage.phases, self._clock.progress)

    def _log(self, **values: object) -> None:
        self._journal.write(
            step=self._step,
            tokens=self._clock.tokens,
            seconds=round(self._clock.seconds, 1),
            progress=round(self._clock.progress, 4),
            **values,
        )

    def _save(self) -> None:
        state = {
            "model": self._model.state_dict(),
            "optimizers": self._optimizers.state_dict(),
            "tokens": self._clock.tokens,
            "seconds": self._clock.seconds,
            "step": self._step,
            "feed": asdict(self._feed.state),
        }
        save_checkpoint(self._checkpoint, state)


def text_share(phases: Sequence[Phase], progress: float) -> float:
    """The share of plain text that holds at `progress`."""
    return next((phase.text_share for phase in phases if progress < phase.until), phases[-1].text_share)


def held_out_batches(
    material: Material, encoder: Encoder, stage: TargetStage, seed: int
) -> dict[str, list[Batch]]:
    """Unseen examples of every kind, a document a row, in batches of one length."""
    longest = stage.rows.lengths[-1]
    documents = {
        kind: encoder.chats([example.messages for example in examples])
        for kind, examples in material.held_out(seed, _HELD_OUT_EACH).items()
    }
    documents["text"] = encoder.texts(material.held_out_texts[:_HELD_OUT_EACH])
    made: dict[str, list[Batch]] = {}
    for kind, found in documents.items():
        fitting = [entry for entry in found if len(entry.tokens) <= longest]
        # Same shapes as in training, so that nothing is compiled anew.
        made[kind] = pack_alone(fitting, encoder.pad, stage)
    return made


def pack_alone(documents: Sequence[Any], pad: int, stage: TargetStage) -> list[Batch]:
    """Batches of the shapes that training uses; rows are filled in order of length."""
    waiting = sorted(documents, key=lambda entry: len(entry.tokens))
    made: list[Batch] = []
    while waiting:
        length = next(size for size in stage.rows.lengths if size >= len(waiting[-1].tokens))
        made.append(batch(fill(waiting, stage.rows.micro_tokens // length, length), length, pad))
    return made


def _weights(recipe: Recipe) -> dict[str, float] | None:
    return dict(recipe.weights) if recipe.weights else None
