"""Trains the target: a Llama decoder on chats and plain text, annealed to the end of its budget."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from engine.train.loop import Loop, Loss
from engine.train.progress import Clock, Tell
from tools.pip.data import Batch, DataSpec, Feed, FeedState, Material, batch, fill
from tools.pip.folder import PairDirectory
from tools.pip.hard import Tally, hard
from tools.pip.network import Network, config_of, new_model, place
from tools.pip.recipe import Phase, Recipe, RowsStage, Shape, TargetStage
from tools.pip.start import clock_of, load_weights
from tools.pip.tokenizer import Document, Encoder

_HELD_OUT_EACH = 24  # examples of every kind


def train_target(
    recipe: Recipe,
    paths: PairDirectory,
    data: Path,
    device: torch.device,
    resume: bool,
    start: Path | None = None,
) -> Any:
    """A trained LlamaForCausalLM in fp32. Writes checkpoints and the log under `paths`.

    `start`: the folder of an exported model to go on from, unless there is a checkpoint.
    """
    stage = recipe.target
    tokenizer = load_tokenizer(paths)
    model = untrained(stage.model, tokenizer, recipe.seed).to(device)
    if start is not None:
        load_weights(start, model)
    network = Network(model, compiled=recipe.compile)
    material = Material(data, recipe.weights)
    held_out = held_out_batches(material, Encoder(tokenizer), stage.rows, recipe.seed)
    spec = DataSpec(data, paths.tokenizer, stage.rows, recipe.seed, recipe.weights)
    with Feed(spec) as feed:
        task = TargetTask(network, feed, stage, held_out)
        loop = Loop("target", model, stage, task, paths)
        if start is not None:
            clock = clock_of(paths.journal("target"), stage.budget)
            loop.begin_at(clock)
            # Other examples than those it has learned from.
            block = clock.tokens // stage.rows.block_tokens
            feed.start_at(FeedState(block, 0, phase_at(stage.phases, clock.progress).text_share))
        if resume:
            loop.restore()
        loop.run()
    return model


class TargetTask:
    """Cross-entropy on what the feed makes."""

    def __init__(
        self,
        network: Network,
        feed: Feed,
        stage: TargetStage,
        held_out: Mapping[str, Sequence[Batch]],
    ) -> None:
        self._network, self._feed = network, feed
        self._stage, self._held_out = stage, held_out
        self._tally = Tally()

    def batches(self, clock: Clock) -> Iterator[Batch]:
        def phase() -> Phase:
            return phase_at(self._stage.phases, clock.progress)

        stream = self._feed.batches(lambda: phase().text_share)
        pad = self._network.model.config.pad_token_id
        return hard(
            stream, self._network, self._stage.rows, pad, lambda: phase().known_share, self._tally
        )

    def loss(self, batch: Batch) -> Loss:
        inputs = place(batch, self._network.device, self._network.dtype)
        return Loss(self._network.loss(inputs), len(inputs.labels))

    def evaluate(self, tell: Tell) -> dict[str, object]:
        """Mean held-out loss in nats per learned token, by kind; how many documents were passed over."""
        means = {kind: self._mean(made) for kind, made in self._held_out.items()}
        return {"held_out": means, "looked_at": self._tally.looked, "taken": self._tally.learned}

    def position(self) -> dict[str, Any]:
        return asdict(self._feed.state)

    def restore(self, position: dict[str, Any]) -> None:
        self._feed.start_at(FeedState(**position))

    def _mean(self, made: Sequence[Batch]) -> float:
        losses = [self.loss(entry) for entry in made]
        total, count = sum(float(loss.total) for loss in losses), sum(loss.count for loss in losses)
        return round(total / max(1, count), 4)


def load_tokenizer(paths: PairDirectory) -> Tokenizer:
    """The tokenizer that the run's first stage made."""
    return Tokenizer.from_file(str(paths.tokenizer / "tokenizer.json"))


def untrained(shape: Shape, tokenizer: Tokenizer, seed: int) -> Any:
    """A new model of this shape for this tokenizer."""
    encoder = Encoder(tokenizer)
    size = tokenizer.get_vocab_size()
    return new_model(config_of(shape, size, encoder.bos, encoder.end, encoder.pad), seed)


def phase_at(phases: Sequence[Phase], progress: float) -> Phase:
    """The phase that holds at `progress`."""
    return next((phase for phase in phases if progress < phase.until), phases[-1])


def held_out_batches(
    material: Material, encoder: Encoder, rows: RowsStage, seed: int
) -> dict[str, list[Batch]]:
    """Unseen examples of every kind, in batches of the shapes that training uses."""
    documents = {
        kind: encoder.chats([example.messages for example in examples])
        for kind, examples in material.held_out(seed, _HELD_OUT_EACH).items()
    }
    documents["text"] = encoder.texts(material.held_out_texts[:_HELD_OUT_EACH])
    return {kind: pack_all(found, rows, encoder.pad) for kind, found in documents.items()}


def pack_all(documents: Sequence[Document], rows: RowsStage, pad: int) -> list[Batch]:
    """Every document that fits a row, packed; nothing else is left out, so rows may be empty."""
    fitting = [entry for entry in documents if len(entry.tokens) <= rows.lengths[-1]]
    waiting = sorted(fitting, key=lambda entry: len(entry.tokens))
    made: list[Batch] = []
    while waiting:
        length = next(size for size in rows.lengths if size >= len(waiting[-1].tokens))
        made.append(batch(fill(waiting, rows.micro_tokens // length, length), length, pad))
    return made
