"""Speculators are trained for what they will be asked: the same states, tokens and goals as drafting."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from engine import train
from engine.backends.linear_factory import LinearFactory
from engine.decoding.context import Context
from engine.decoding.sampling import Sampler
from engine.decoding.target import Target
from engine.drafting import heads, proposers
from engine.drafting.resources import Resources
from engine.events import Budget as Depth
from engine.models.base import HiddenStateModel
from engine.models.checkpoints.checkpoint import inspect
from engine.models.hidden_states import NORMED
from engine.train.data.batches import Batch
from engine.train.data.prompts import Prompts
from engine.train.heads import kinds, speculator
from engine.train.loop import Loop
from engine.train.recipe import Recipe, RepliesStage, load_recipe
from engine.train.run import distil
from engine.train.schema import Budget, OptimizerStage, RecipeError
from engine.train.trainer import TargetView
from engine.values.messages import Message
from engine.values.sampling import AcceptanceRule, Sampling
from tests.support.checkpoints import VOCABULARY
from tests.support.loading import load_model
from tests.support.places import ROOT

PIP = ROOT / "assets" / "pip" / "target"
RECIPES = Path(train.__file__).parent / "recipes"
STEPS = 3
SHAPES: list[tuple[str, dict[str, Any]]] = [
    ("mlp", {"n_predict": STEPS, "inner_dim": 32}),
    ("mlp", {"n_predict": STEPS, "inner_dim": 32, "scale_input": False}),
    ("lstm", {"n_predict": STEPS, "inner_dim": 32}),
]
NAMES = ["mlp", "mlp unscaled", "lstm"]
ASKED = tuple((Message("user", f"Tell me about door {number}."),) for number in range(8))
PROMPTS = Prompts(ASKED[2:], ASKED[:2])
RECIPE = Recipe(
    kind="mlp",
    name="Speculator",
    target="tiny",
    seed=3,
    budget=Budget(tokens=8_000),
    shape={},
    replies=RepliesStage(count=6, held_out=2, tokens=40, temperatures=(0.0, 0.7)),
    optimizer=OptimizerStage(method="adamw", learning_rate=0.01, weight_decay=0.0),
    window=64,
    batch_tokens=256,
)

parametrised = pytest.mark.parametrize(("kind", "shape"), SHAPES, ids=NAMES)


def trainer_of(kind: str, shape: dict[str, Any], model: HiddenStateModel) -> Any:
    """With weights that bf16 holds, so that nothing is rounded when they are exported."""
    torch.manual_seed(7)
    found = kinds.trainer(kind)
    made: Any = found(found.Shape(**shape), TargetView(model, torch.device("cpu"), 0.1))
    with torch.no_grad():
        for weight in made.module.parameters():
            weight.add_(0.1 * torch.randn(weight.shape))
            weight.copy_(weight.bfloat16())
    return made


@parametrised
def test_a_trained_head_drafts_what_its_training_predicts(
    kind: str,
    shape: dict[str, Any],
    target: Path,
    model: HiddenStateModel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In a batch that goes on as the head drafted, every step must predict, and be taught, the draft."""
    trainer = trainer_of(kind, shape, model)
    trainer.export(tmp_path)
    taught: list[tuple[Tensor, Tensor]] = []

    def watched(states: Tensor, head: Tensor, goal: Any) -> Tensor:
        log_p = torch.cat([goal._log_p(slice(at, at + 4)) for at in range(0, len(states), 4)])
        taught.append((states @ head.T, log_p))
        assert len(goal.labels) == len(states) == len(log_p)
        assert torch.equal(goal.labels, goal.labels[::STEPS].repeat_interleave(STEPS))
        return states.sum()

    monkeypatch.setattr(speculator, "head_loss", watched)
    plan = heads.inspect(tmp_path, inspect(target))
    head = heads.load(plan, LinearFactory("fp32", torch.device("cpu")))
    seen = set()
    for seed in range(12):
        generator = torch.Generator().manual_seed(seed)
        text = torch.randint(5, VOCABULARY, (9 + seed % 3,), generator=generator).tolist()
        reader = Target(model, head.aux_layers)
        reader.extend(text[:-1])
        context = Context(text)
        proposer = proposers.create(kind, {}, Resources(heads={kind: head}, backbone=reader))
        proposer.begin(context, Sampler(Sampling(), AcceptanceRule.GREEDY, 0, context, VOCABULARY))
        drafted = list(proposer.propose(context, Depth(STEPS, STEPS)).tree.tokens)
        seen.add(tuple(drafted))
        reader.extend([text[-1], *drafted, 9])
        tokens = torch.tensor([[*text, *drafted, 9]])
        there = torch.ones_like(tokens, dtype=torch.bool)
        states = reader.aux_hidden_states(NORMED, 0, tokens.shape[1])
        batch = Batch(tokens, there, there, {NORMED: states[None]})
        taught.clear()
        trainer.loss(batch)
        ((logits, log_p),) = taught
        for step in range(STEPS):
            # Rows are goals, from the first that all steps can draft; the draft's first follows the text.
            row = (len(text) - 1 + step - STEPS) * STEPS + step
            assert logits[row].argmax() == drafted[step]
            said = torch.log_softmax(model.logits(states[len(text) - 1 + step][None]), -1)
            assert torch.allclose(log_p[row], said[0], atol=1e-4)
    assert len(seen) > 3


@pytest.mark.parametrize(("kind", "shape"), SHAPES[::2], ids=NAMES[::2])
def test_a_speculator_learns_and_goes_on_where_it_stopped(
    kind: str,
    shape: dict[str, Any],
    target: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recipe = replace(RECIPE, kind=kind, shape=shape)
    whole = distil(recipe, target, PROMPTS, tmp_path / "whole")
    log = [json.loads(line) for line in (whole / "training.jsonl").read_text().splitlines()]
    losses = [entry["loss"] for entry in log if "loss" in entry]
    assert losses[-1] < losses[0] - 0.2  # nats: what is random cannot be learned far
    measured = log[-1]["acceptance"]
    assert measured["depth"] == STEPS and measured["acceptance_length"] > 1.1

    original, done = Loop.update, [0]

    def update(self: Any, stream: Any) -> Any:
        if done[0] == 13:
            self.save()
            raise KeyboardInterrupt
        done[0] += 1
        return original(self, stream)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Loop, "update", update)
        distil(recipe, target, PROMPTS, tmp_path / "parts")
    parts = distil(recipe, target, PROMPTS, tmp_path / "parts")
    ours, theirs = (load_file(folder / "model.safetensors") for folder in (whole, parts))
    assert ours.keys() == theirs.keys()
    assert all(torch.allclose(ours[name], theirs[name], atol=0.02) for name in ours)


@pytest.mark.parametrize("kind", ["mlp", "lstm"])
def test_the_head_for_pip_is_small(kind: str) -> None:
    shape = load_recipe(RECIPES / f"pip-{kind}.yaml").shape
    model = load_model(PIP)
    assert isinstance(model, HiddenStateModel)
    found = kinds.trainer(kind)
    trainer = found(found.Shape(**shape), TargetView(model, torch.device("cpu"), 0.1))
    assert sum(2 * weight.numel() for weight in trainer.module.parameters()) < 2_000_000


@pytest.mark.parametrize("kind", ["mlp", "lstm"])
@pytest.mark.parametrize("key", ["n_predict", "inner_dim"])
def test_a_size_of_nothing_is_refused_by_its_key(kind: str, key: str) -> None:
    with pytest.raises(RecipeError, match=rf"shape\.{key}: must be 1 or more"):
        kinds.trainer(kind).Shape(**{key: 0})
