"""EAGLE-3's training: unrolled as it will draft, on the tokens that the target says most."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from engine.backends.linear_factory import LinearFactory
from engine.decoding.context import Context
from engine.decoding.sampling import Sampler
from engine.decoding.target import Target
from engine.decoding.text.codec import TextCodec
from engine.drafting import heads
from engine.drafting.heads.eagle3 import Eagle3Head
from engine.drafting.proposers.eagle3 import Eagle3Proposer
from engine.drafting.resources import Resources
from engine.events import Budget as Depth
from engine.models.base import HiddenStateModel
from engine.models.checkpoints.checkpoint import inspect
from engine.models.hidden_states import entering
from engine.train.data.batches import Batch, batch_of
from engine.train.data.generation import record
from engine.train.data.prompts import Prompts
from engine.train.data.recording import RecordedReply, Recording, with_normed
from engine.train.heads.eagle3 import Eagle3, Eagle3Shape, Eagle3Trainer, sized
from engine.train.heads.eagle3_layer import Starts
from engine.train.recipe import Recipe, RepliesStage, load_recipe
from engine.train.run import distil
from engine.train.schema import Budget, OptimizerStage, RecipeError
from engine.train.trainer import TargetView
from engine.values.messages import Message
from engine.values.sampling import AcceptanceRule, Sampling
from tests.support.checkpoints import LLAMA
from tests.support.places import ROOT

CPU = torch.device("cpu")
TAPS = entering(2, 1, 0)
SHAPE = Eagle3Shape(steps=3, draft_vocabulary=200, head_dim=16, intermediate_size=32)
ASKED = tuple((Message("user", f"Tell me about door {number}."),) for number in range(10))
RECIPE = Recipe(
    kind="eagle3",
    name="Head",
    target="tiny",
    seed=3,
    budget=Budget(tokens=14_000),
    shape={"steps": 3, "draft_vocabulary": 200, "head_dim": 16, "intermediate_size": 32},
    replies=RepliesStage(count=8, held_out=2, tokens=40, temperatures=(0.0, 0.7)),
    optimizer=OptimizerStage(learning_rate=0.003, weight_decay=0.0),
    window=64,
    batch_tokens=256,
)


@pytest.fixture(scope="module")
def recording(
    target: Path, model: HiddenStateModel, tmp_path_factory: pytest.TempPathFactory
) -> Recording:
    made = Recording(tmp_path_factory.mktemp("recording"), with_normed(TAPS))
    record(model, TextCodec(target), ASKED, RECIPE.replies, made, seed=1)
    return made


def trained(model: HiddenStateModel, shape: Eagle3Shape = SHAPE) -> tuple[Eagle3Trainer, Eagle3]:
    """Random weights that bf16 holds exactly, so that nothing is lost in the file."""
    torch.manual_seed(0)
    trainer = Eagle3Trainer(shape, TargetView(model, CPU, 0.1))
    trainer.dtype = torch.float32
    module = trainer.module
    assert isinstance(module, Eagle3)
    for parameter in module.parameters():
        spread = 0.3 if parameter.ndim == 1 else 2 * parameter.shape[1] ** -0.5
        noise = torch.randn_like(parameter) * spread + (parameter.ndim == 1)
        parameter.data.copy_(noise.bfloat16().float())
    return trainer, module


def only(place: int, like: torch.Tensor) -> Starts:
    """One start in every row."""
    marked = torch.zeros_like(like)
    marked[:, place] = True
    return Starts.where(marked)


def loaded(folder: Path, target: Path) -> Eagle3Head:
    head = heads.load(heads.inspect(folder, inspect(target)), LinearFactory("fp32", CPU))
    assert isinstance(head, Eagle3Head)
    return head


def drafted(head: Eagle3Head, target: Target, text: list[int], depth: int) -> list[int]:
    """What the proposer drafts behind ``text``, the last token of which the target has not read."""
    target.reuse(text[:-1])
    target.extend(text[target.length : -1])
    proposer = Eagle3Proposer(
        Eagle3Proposer.Options(), Resources(heads={"eagle3": head}, backbone=target)
    )
    context = Context(text)
    sampler = Sampler(Sampling(), AcceptanceRule.GREEDY, 0, context, LLAMA["vocab_size"])
    proposer.begin(context, sampler)
    return list(proposer.propose(context, Depth(depth, depth)).tree.tokens)


def test_the_exported_head_drafts_what_the_trained_one_predicts(
    target: Path, model: HiddenStateModel, recording: Recording, tmp_path: Path
) -> None:
    """From several places of a text, each step's input being what the step before predicted."""
    trainer, module = trained(model)
    trainer.survey(recording)
    module.lm_head.weight.data.copy_(module.lm_head.weight.bfloat16().float())
    trainer.export(tmp_path)
    head, live = loaded(tmp_path, target), Target(model, with_normed(TAPS))
    kept = max(recording.replies, key=lambda one: one.length - one.start)
    tokens = recording.tokens(kept).tolist()
    live.extend(tokens[:-1])
    features = {
        aux_layer: live.aux_hidden_states(aux_layer, 0, live.length)[None] for aux_layer in TAPS
    }
    chains = []
    for place in range(kept.start - 2, len(tokens) - 1, 5):
        said = [*tokens[: place + 2], *([0] * SHAPE.steps)]
        known = torch.arange(len(said))[None] <= place
        seen = {
            aux_layer: torch.nn.functional.pad(rows[:, : place + 1], (0, 0, 0, SHAPE.steps + 1))
            for aux_layer, rows in features.items()
        }
        for step in range(SHAPE.steps):
            batch = Batch(torch.tensor([said]), known, known, seen)
            states = list(trainer.unroll(batch, only(place, known)))
            best = int((states[step][0] @ module.lm_head.weight.T).argmax())
            said[place + 2 + step] = int(module.targets[best])
        chains.append(said[place + 2 :])
        assert drafted(head, live, tokens[: place + 2], SHAPE.steps) == chains[-1]
        live.extend(tokens[live.length : -1])
    assert len(set(map(tuple, chains))) > 2  # it has something to say


def test_a_place_sees_nothing_behind_it(model: HiddenStateModel, recording: Recording) -> None:
    """What the target saw and said later changes nothing, at no step but through the input."""
    trainer, _ = trained(model)
    batch = batch_of(recording, recording.replies[:3], recording.aux_layers, 64, 0)
    places = only(12, batch.state_mask)
    later = torch.arange(batch.tokens.shape[1]) > 12
    changed = replace(
        batch,
        states={
            aux_layer: torch.where(later[None, :, None], torch.randn_like(rows), rows)
            for aux_layer, rows in batch.states.items()
        },
    )
    for one, other in zip(
        trainer.unroll(batch, places), trainer.unroll(changed, places), strict=True
    ):
        assert torch.equal(one, other)
    earlier = replace(
        batch,
        states={aux_layer: rows.roll(1, 1) for aux_layer, rows in batch.states.items()},
    )
    assert not torch.allclose(
        next(trainer.unroll(batch, places)), next(trainer.unroll(earlier, places))
    )


def test_starts_of_a_row_stand_side_by_side() -> None:
    marked = torch.tensor([[0, 1, 1, 0], [0, 0, 0, 1], [1, 1, 0, 1]]).bool()
    starts = Starts.where(marked)
    assert starts.place.tolist() == [1, 2, 3, 0, 1, 3]
    x = torch.arange(6.0)[:, None, None]
    wide = starts.spread(x)
    assert wide[:, 0, :, 0].tolist() == [[0, 1, 0], [2, 0, 0], [3, 4, 5]]
    assert torch.equal(starts.gather(wide[:, 0]), x[:, 0])
    past = starts.past(4, x)
    assert (past[2] == 0).tolist() == [[True] + 3 * [False], [True] * 2 + [False] * 2, [True] * 4]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"heads": 4, "kv_heads": 3}, "shape.heads"),
        ({"head_dim": 15}, "shape.heads"),
        ({"layers": (1, 3)}, r"shape.layers: must be layers of the target, 0 to 2"),
    ],
)
def test_a_shape_that_does_not_fit_is_refused_before_anything_is_recorded(
    model: HiddenStateModel, changes: dict[str, Any], named: str
) -> None:
    with pytest.raises(RecipeError, match=named):
        trained(model, replace(SHAPE, **changes))


def test_one_head_has_one_kv_head() -> None:
    assert sized(Eagle3Shape(heads=1), 32).kv_heads == 1


def test_a_window_without_starts_teaches_nothing(
    model: HiddenStateModel, recording: Recording
) -> None:
    trainer, module = trained(model)
    batch = batch_of(recording, recording.replies[:2], recording.aux_layers, 64, 0)
    loss = trainer.loss(replace(batch, loss_mask=torch.zeros_like(batch.loss_mask)))
    loss.total.backward()
    assert loss.total.item() == 0 and loss.count == 0
    assert all(one.grad is not None and not one.grad.any() for one in module.parameters())


def test_the_head_names_what_was_said_most(
    target: Path, model: HiddenStateModel, tmp_path: Path
) -> None:
    recording = Recording(tmp_path / "said", with_normed(TAPS))
    states = torch.zeros(4, 8, LLAMA["hidden_size"])
    asked, said = (300, 301, 302), (7, 250, 7, 250, 9, 7)
    recording.add([(RecordedReply((*asked, *said), 3, 0.0), states)])
    trainer, module = trained(model, replace(SHAPE, draft_vocabulary=3))
    trainer.survey(recording)
    assert module.targets.tolist() == [7, 9, 250]  # what was asked does not count
    assert torch.equal(module.lm_head.weight, trainer._target.head[[7, 9, 250]])
    trainer.export(tmp_path / "head")
    head = loaded(tmp_path / "head", target)
    assert head.targets is not None and head.targets.tolist() == [7, 9, 250]


def test_a_loss_counts_only_what_can_be_named(
    model: HiddenStateModel, recording: Recording
) -> None:
    trainer, _ = trained(model, replace(SHAPE, draft_vocabulary=20))
    trainer.survey(recording)
    batch = batch_of(recording, recording.replies, recording.aux_layers, 64, 0)
    some = trainer.loss(batch)
    whole, _ = trained(model, replace(SHAPE, draft_vocabulary=LLAMA["vocab_size"]))
    whole.survey(recording)
    first = len(batch.pairs(ahead=1).labels)
    assert 0 < some.count < whole.loss(batch).count <= SHAPE.steps * first
    assert torch.isfinite(some.total)


def test_a_head_learns_drafts_and_goes_on_where_it_stopped(target: Path, tmp_path: Path) -> None:
    prompts = Prompts(ASKED[2:], ASKED[:2])
    folder = distil(RECIPE, target, prompts, tmp_path)
    log = [json.loads(line) for line in (folder / "training.jsonl").read_text().splitlines()]
    losses = [entry["loss"] for entry in log if "loss" in entry]
    assert losses[-1] < losses[0] - 0.3
    measured = log[-1]["acceptance"]
    assert measured["depth"] == 3 and measured["acceptance_length"] > 1.05
    first = (folder / "model.safetensors").read_bytes()
    assert (distil(RECIPE, target, prompts, tmp_path) / "model.safetensors").read_bytes() == first
    longer = replace(RECIPE, budget=Budget(tokens=14_500))
    more = (distil(longer, target, prompts, tmp_path) / "model.safetensors").read_bytes()
    assert more != first
    lines = (tmp_path / "eagle3.jsonl").read_text().splitlines()
    steps = [json.loads(line)["step"] for line in lines]
    assert steps == sorted(steps) and steps[-1] > len(losses)


def test_a_head_of_few_replies_begins_fitted_and_keeps_the_targets_rows(
    target: Path, model: HiddenStateModel, recording: Recording, tmp_path: Path
) -> None:
    """What it says before it has learned is nearer to what the target says than without the fit."""
    shape = replace(SHAPE, draft_vocabulary=LLAMA["vocab_size"], learn_head=False)
    losses = {}
    for fitted in (False, True):
        trainer = Eagle3Trainer(replace(shape, fitted=fitted), TargetView(model, CPU, 0.0))
        trainer.survey(recording)
        batch = batch_of(recording, recording.replies, recording.aux_layers, 64, 0, prompts=True)
        with torch.no_grad():
            losses[fitted] = float(trainer.loss(batch).total)
    assert losses[True] < 0.9 * losses[False]
    shaped = {**RECIPE.shape, "learn_head": False, "hidden_weight": 1.0, "fitted": True}
    recipe = replace(RECIPE, shape=shaped, learn_prompts=True, budget=Budget(tokens=2000))
    folder = distil(recipe, target, Prompts(ASKED[2:], ASKED[:2]), tmp_path, draft=target)
    named = load_file(folder / "model.safetensors")
    tokens = named["d2t"] + torch.arange(len(named["d2t"]))
    kept = TargetView(model, CPU, 0.0).head_rows(tokens)
    assert torch.allclose(named["lm_head.weight"].float(), kept, rtol=0.01, atol=0.001)
    assert bool(named["midlayer.mlp.down_proj.weight"].any())  # it was nothing at first


def test_pips_recipe_is_within_its_size(tmp_path: Path) -> None:
    recipe = load_recipe(ROOT / "engine/train/recipes/pip-eagle3.yaml")
    assert recipe.kind == "eagle3"
    shape = Eagle3Shape(**recipe.shape)
    width = 256
    qkv = (shape.heads + 2 * shape.kv_heads) * shape.head_dim * 2 * width
    layer = qkv + shape.heads * shape.head_dim * width + 3 * width * shape.intermediate_size
    parameters = 3 * width * width + layer + shape.draft_vocabulary * width
    assert 2 * parameters + 9 * shape.draft_vocabulary < 2.9e6
