"""Trains the draft: a one-layer model, distilled from the target.

It learns the target's whole distribution, not only its choice: what counts is that draft and
target agree, position by position, on text that the target itself would write (Zhou et al. 2023,
DistillSpec).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from transformers import LlamaForCausalLM

from engine.train.device import compute_dtype
from engine.train.loop import Loop, Loss
from engine.train.losses import HEAD_ROWS, Teacher, head_loss
from engine.train.progress import Clock, Tell, report
from engine.train.schema import subseed
from tools.pip.data import (
    Batch,
    DataError,
    DataSpec,
    Feed,
    FeedState,
    Material,
    batches,
)
from tools.pip.folder import PairDirectory
from tools.pip.network import Network, place
from tools.pip.recipe import DraftStage, Recipe
from tools.pip.replies import TargetReply, collect
from tools.pip.start import load_weights
from tools.pip.target import load_tokenizer, pack_all, untrained
from tools.pip.tokenizer import Encoder

_TEXT_SHARE = 0.05  # of the mixture's blocks


def train_draft(
    recipe: Recipe,
    paths: PairDirectory,
    data: Path,
    device: torch.device,
    resume: bool,
    start: Path | None = None,
) -> Any:
    """A trained draft in fp32, from the target in `paths.target`.

    `start`: the folder of an earlier draft; it is gone on from if it is there.
    """
    stage = recipe.draft
    tokenizer = load_tokenizer(paths)
    encoder = Encoder(tokenizer)
    target = load_target(paths, device).to(device)
    if not resume:
        paths.replies.unlink(missing_ok=True)
    material = Material(data, recipe.weights)
    replies = collect(target, encoder, material, stage, recipe.seed, paths.replies)
    draft = untrained(stage.model, tokenizer, recipe.seed).to(device)
    if start is not None and start.is_dir():
        load_weights(start, draft)
    else:
        start_from(draft, target)
    teacher = Network(target, compiled=recipe.compile)
    network = Network(draft, compiled=recipe.compile)
    spec = DataSpec(
        data, paths.tokenizer, stage.rows, subseed(recipe.seed, "draft"), recipe.weights
    )
    with Feed(spec) as feed:
        task = DraftTask(network, teacher, feed, replies, stage, encoder.pad, recipe.seed)
        loop = Loop("draft", draft, stage, task, paths)
        if resume:
            loop.restore()
        loop.run()
    with torch.no_grad():
        report(f"draft: {task.evaluate(lambda **_: None)}")
    return draft


def load_target(paths: PairDirectory, device: torch.device) -> Any:
    """The exported target, its bf16 weights in what this processor is fastest in, and fixed."""
    if not (paths.target / "model.safetensors").exists():
        raise DataError(f"{paths.target}: no target there; train the stage target first.")
    model: Any = LlamaForCausalLM.from_pretrained(paths.target, dtype=compute_dtype(device))
    return model.eval().requires_grad_(False)


@torch.no_grad()
def start_from(draft: Any, target: Any) -> None:
    """Gives the draft the target's embedding, if it is of the same size. Mutates the draft."""
    ours, theirs = draft.model.embed_tokens.weight, target.model.embed_tokens.weight
    if ours.shape == theirs.shape:
        ours.copy_(theirs)
        draft.model.norm.weight.copy_(target.model.norm.weight)


class DraftTask:
    """Distillation on the target's replies, mixed with the target's own training data."""

    def __init__(
        self,
        draft: Network,
        target: Network,
        feed: Feed,
        replies: Sequence[TargetReply],
        stage: DraftStage,
        pad: int,
        seed: int,
    ) -> None:
        self._draft, self._target, self._feed = draft, target, feed
        self._stage, self._pad, self._seed = stage, pad, seed
        self._learned = [reply.document() for reply in replies if not reply.held_out]
        self._held_out = {
            f"{temperature:g}": self._packed(replies, temperature)
            for temperature in stage.temperatures
        }
        self._drawn = 0

    def batches(self, clock: Clock) -> Iterator[Batch]:
        """Replies or the mixture, by the share that the recipe gives."""
        mixture = self._feed.batches(lambda: _TEXT_SHARE)
        replies = self._reply_batches()
        for number in range(self._drawn):  # a resumed run takes up both streams where it left them
            if self._is_reply(number):
                next(replies)
        while True:
            number = self._drawn
            self._drawn += 1
            yield next(replies) if self._is_reply(number) else next(mixture)

    def loss(self, batch: Batch) -> Loss:
        inputs = place(batch, self._draft.device, self._draft.dtype)
        with torch.no_grad():
            hidden = self._target.hidden(inputs)
        goal = Teacher(hidden, self._target.head, inputs.labels, self._stage.hard_weight)
        total = head_loss(self._draft.hidden(inputs), self._draft.head, goal)
        return Loss(total, len(inputs.labels))

    def evaluate(self, tell: Tell) -> dict[str, object]:
        """On held-out prompts, per temperature: expected acceptance and equal first choices."""
        return {
            "acceptance": {
                temperature: self._agreement(made, float(temperature))
                for temperature, made in self._held_out.items()
            }
        }

    def position(self) -> dict[str, Any]:
        return asdict(self._feed.state) | {"drawn": self._drawn}

    def restore(self, position: dict[str, Any]) -> None:
        self._drawn = position["drawn"]
        feed = {key: value for key, value in position.items() if key != "drawn"}
        self._feed.start_at(FeedState(**feed))

    def _reply_batches(self) -> Iterator[Batch]:
        """All replies, over and over, packed anew each time."""
        rng = random.Random(subseed(self._seed, "replies"))
        while True:
            documents = list(self._learned)
            rng.shuffle(documents)
            yield from batches(documents, self._stage.rows, self._pad, rng)

    def _is_reply(self, number: int) -> bool:
        share = self._stage.reply_share
        return int((number + 1) * share) > int(number * share)

    def _packed(self, replies: Sequence[TargetReply], temperature: float) -> list[Batch]:
        chosen = [entry for entry in replies if entry.held_out and entry.temperature == temperature]
        return pack_all([entry.document() for entry in chosen], self._stage.rows, self._pad)

    def _agreement(self, made: Sequence[Batch], temperature: float) -> dict[str, float]:
        """overlap: mean of sum min(p, q), what rejection sampling accepts; greedy: equal argmax."""
        overlap, equal, count = 0.0, 0, 0
        for entry in made:
            inputs = place(entry, self._draft.device, self._draft.dtype)
            ours, theirs = self._draft.hidden(inputs), self._target.hidden(inputs)
            for start in range(0, len(ours), HEAD_ROWS):
                rows = slice(start, start + HEAD_ROWS)
                log_q = F.linear(ours[rows], self._draft.head).float()
                log_p = F.linear(theirs[rows], self._target.head).float()
                equal += int((log_q.argmax(-1) == log_p.argmax(-1)).sum())
                warm = temperature or 1.0
                least = torch.minimum((log_q / warm).softmax(-1), (log_p / warm).softmax(-1))
                overlap += float(least.sum())
            count += len(ours)
        count = max(1, count)
        return {"overlap": round(overlap / count, 4), "greedy": round(equal / count, 4)}
