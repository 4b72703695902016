"""A drafter from start to end: a tiny target answers, is listened to, and is drafted for."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from engine.backends.linear_factory import LinearFactory
from engine.backends.native import build
from engine.decoding.text.codec import TextCodec
from engine.drafting import heads
from engine.drafting.heads.medusa import MedusaHead
from engine.machine import devices
from engine.models.base import HiddenStateModel
from engine.models.checkpoints.checkpoint import inspect
from engine.train.data import generation
from engine.train.data.batches import batch_of
from engine.train.data.generation import record
from engine.train.data.prompts import Prompts, PromptsError
from engine.train.data.recording import Recording, RecordingError, with_normed
from engine.train.heads.medusa import MedusaHeads, MedusaShape, MedusaTrainer
from engine.train.recipe import Recipe, RepliesStage
from engine.train.run import distil
from engine.train.schema import Budget, OptimizerStage, RecipeError
from engine.train.trainer import TargetView
from engine.values.messages import Message
from tests.support.checkpoints import LLAMA, write_random
from tests.support.loading import load_model

ASKED = tuple((Message("user", f"Tell me about door {number}."),) for number in range(10))
PROMPTS = Prompts(ASKED[2:], ASKED[:2])
RECIPE = Recipe(
    kind="medusa",
    name="Heads",
    target="tiny",
    seed=3,
    budget=Budget(tokens=12_000),
    shape={"heads": 2},
    replies=RepliesStage(count=8, held_out=2, tokens=40, temperatures=(0.0, 0.7)),
    optimizer=OptimizerStage(method="adamw", learning_rate=0.003, weight_decay=0.0),
    window=64,
    batch_tokens=256,
)


def test_what_is_recorded_is_what_the_target_computes(target: Path, tmp_path: Path) -> None:
    model, codec = load_model(target), TextCodec(target)
    assert isinstance(model, HiddenStateModel)
    aux_layers = with_normed(())
    recording = Recording(tmp_path, aux_layers)
    record(model, codec, ASKED, RECIPE.replies, recording, seed=1)
    assert [kept.temperature for kept in recording.replies] == [0.0, 0.7] * 5
    for kept in recording.replies:
        tokens = recording.tokens(kept).tolist()
        assert 1 <= kept.start < len(tokens) <= kept.start + 40
        cache = model.new_state(512, aux_layers)
        logits = model.forward(tokens[:-1], cache, last=len(tokens) - 1)
        found = recording.states(aux_layers[0], kept)[:-1].float()
        assert torch.allclose(model.logits(found), logits, atol=0.05)
        if kept.temperature == 0:
            assert logits.argmax(-1)[kept.start - 1 :].tolist() == tokens[kept.start :]


def test_a_stopped_recording_goes_on_as_if_it_had_not_stopped(target: Path, tmp_path: Path) -> None:
    model, codec = load_model(target), TextCodec(target)
    whole, parts = (Recording(tmp_path / name, with_normed(())) for name in ("whole", "parts"))
    record(model, codec, ASKED, RECIPE.replies, whole, seed=1)
    record(model, codec, ASKED[:4], RECIPE.replies, parts, seed=1)
    record(model, codec, ASKED, RECIPE.replies, parts, seed=1)
    assert [whole.tokens(kept).tolist() for kept in whole.replies] == [
        parts.tokens(kept).tolist() for kept in parts.replies
    ]


@pytest.mark.usefixtures("library")
def test_replies_side_by_side_are_those_given_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_random(tmp_path, hidden_size=64, head_dim=16, intermediate_size=80)
    model, codec, aux_layers = load_model(tmp_path), TextCodec(tmp_path), with_normed(())
    assert generation.at_once(model)
    found = []
    for count in (16, 3, 1):
        monkeypatch.setattr(generation, "AT_ONCE", count)
        recording = Recording(tmp_path / str(count), aux_layers)
        record(model, codec, ASKED, RECIPE.replies, recording, seed=1)
        found.append(recording)
    for other in found[1:]:
        assert other.replies == found[0].replies
        for kept in other.replies:
            assert torch.equal(other.tokens(kept), found[0].tokens(kept))
            assert torch.equal(
                other.states(aux_layers[0], kept),
                found[0].states(aux_layers[0], kept),
            )


def test_recording_stops_at_its_size_and_after_its_minutes(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generation, "SHARD", 3)
    monkeypatch.setattr(generation, "SHARD_MINUTES", 1e6)
    monkeypatch.setattr(generation, "AT_ONCE", 1)
    model, codec = load_model(target), TextCodec(target)
    small, short = (Recording(tmp_path / name, with_normed(())) for name in ("small", "short"))
    record(model, codec, ASKED, replace(RECIPE.replies, gigabytes=1e-9), small, seed=1)
    assert len(small.replies) == 3
    for _ in range(2):  # what a run before it took counts
        record(model, codec, ASKED, replace(RECIPE.replies, minutes=1e-9), short, seed=1)
        assert len(short.replies) == 1


def test_prompts_that_the_target_does_not_take_are_left_out(target: Path, tmp_path: Path) -> None:
    """One that was held out ended the training; where it took none, batches of nothing had no end."""
    long, modest = (Message("user", "door " * 5000),), replace(RECIPE, budget=Budget(tokens=500))
    for prompts in (Prompts((long,), ASKED[:2]), Prompts(ASKED[2:], (long,))):
        with pytest.raises(PromptsError, match="takes none of the prompts"):
            distil(modest, target, prompts, tmp_path / "none")
    some = Prompts((long, *ASKED[2:]), (*ASKED[:2], long))
    assert (distil(modest, target, some, tmp_path / "some") / "model.safetensors").is_file()


def test_replies_of_another_model_are_not_learned_from(target: Path, tmp_path: Path) -> None:
    recording = Recording(tmp_path, with_normed(()), "one")
    record(load_model(target), TextCodec(target), ASKED[:1], RECIPE.replies, recording, seed=1)
    assert len(Recording(tmp_path, with_normed(()), "one").replies) == 1
    with pytest.raises(RecordingError, match="has replies of one, not of two"):
        Recording(tmp_path, with_normed(()), "two")


def test_the_targets_tables_are_what_its_file_says(target: Path) -> None:
    model = load_model(target)
    assert isinstance(model, HiddenStateModel)
    origin = TargetView(model, torch.device("cpu"), 0.1)
    assert (origin.vocabulary, origin.hidden) == (LLAMA["vocab_size"], LLAMA["hidden_size"])
    tokens = torch.tensor([[5, 7], [9, 5]])
    named = origin.head_rows(tokens.flatten()).unflatten(0, (2, 2))
    assert torch.equal(origin.head[tokens], named)
    assert torch.allclose(origin.embedded(tokens), named, atol=1e-5)  # tied


def test_a_drafter_learns_and_drafts(target: Path, tmp_path: Path) -> None:
    folder = distil(RECIPE, target, PROMPTS, tmp_path)
    log = [json.loads(line) for line in (folder / "training.jsonl").read_text().splitlines()]
    losses = [entry["loss"] for entry in log if "loss" in entry]
    assert losses[-1] < losses[0] - 0.3  # nats: what is random cannot be learned far
    told = json.loads((tmp_path / "progress.json").read_text())
    learned = (told["phase"], told["share"])
    assert learned == ("measuring", 1.0), "it has learned, and measures at the end"
    measured = log[-1]["acceptance"]
    assert measured["depth"] == 2 and measured["acceptance_length"] > 1.05
    card = (folder / "README.md").read_text()
    assert str(measured["acceptance_length"]) in card and "8 replies" in card
    plan = heads.inspect(folder, inspect(target))
    assert plan.kind == "medusa"


def test_a_run_keeps_to_the_device_and_the_step_that_its_recipe_allows(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``foretoken ui --device cpu --no-native`` once trained with what it found."""
    monkeypatch.setattr(build, "ready", lambda *_: pytest.fail("the compiled step was asked for"))
    monkeypatch.setattr(devices, "look", lambda: pytest.fail("a GPU was looked for"))
    modest = replace(RECIPE, budget=Budget(tokens=500), device="cpu", native=False)
    assert (distil(modest, target, PROMPTS, tmp_path) / "model.safetensors").is_file()


def test_a_finished_run_has_nothing_more_to_do(target: Path, tmp_path: Path) -> None:
    short = replace(RECIPE, budget=Budget(tokens=1_000))
    first = (distil(short, target, PROMPTS, tmp_path) / "model.safetensors").read_bytes()
    again = (distil(short, target, PROMPTS, tmp_path) / "model.safetensors").read_bytes()
    assert first == again
    with pytest.raises(RecipeError, match="another shape or optimizer"):
        distil(replace(short, shape={"heads": 3}), target, PROMPTS, tmp_path)
    other = distil(replace(short, seed=4), target, PROMPTS, tmp_path, resume=False)
    assert (other / "model.safetensors").read_bytes() != first


def logits_of(head: MedusaHead, normed: torch.Tensor) -> torch.Tensor:
    """(heads, vocabulary): the paper's formula, written out once more."""
    rows = []
    for *layers, output in head.heads:
        x = normed
        for layer in layers:
            x = x + torch.nn.functional.silu(layer(x))
        rows.append(output(x))
    return torch.cat(rows)


def test_what_is_exported_computes_what_was_trained(target: Path, tmp_path: Path) -> None:
    model = load_model(target)
    assert isinstance(model, HiddenStateModel)
    torch.manual_seed(0)
    trainer = MedusaTrainer(
        MedusaShape(heads=2, layers=2), TargetView(model, torch.device("cpu"), 0.1)
    )
    module = trainer.module
    assert isinstance(module, MedusaHeads)
    for parameter in module.parameters():
        parameter.data.normal_(std=0.3).copy_(parameter.bfloat16().float())
    trainer.export(tmp_path)
    head = heads.load(
        heads.inspect(tmp_path, inspect(target)), LinearFactory("fp32", torch.device("cpu"))
    )
    assert isinstance(head, MedusaHead)
    normed = torch.randn(1, LLAMA["hidden_size"])
    ours = [module.states(at, normed) @ module.output(at).T for at in range(2)]
    assert torch.allclose(logits_of(head, normed), torch.cat(ours), atol=1e-4)


def test_a_head_learns_the_token_that_it_will_be_asked_for(target: Path, tmp_path: Path) -> None:
    """Trained on one reply until it knows it by heart, every head must name the right token there."""
    model, codec = load_model(target), TextCodec(target)
    assert isinstance(model, HiddenStateModel)
    recording = Recording(tmp_path, with_normed(()))
    record(model, codec, ASKED[:1], RECIPE.replies, recording, seed=1)
    trainer = MedusaTrainer(MedusaShape(heads=2), TargetView(model, torch.device("cpu"), 1.0))
    optimizer = torch.optim.Adam(trainer.module.parameters(), lr=0.02)
    batch = batch_of(recording, recording.replies, recording.aux_layers, 64, 0)
    for _ in range(60):
        trainer.loss(batch).total.backward()
        optimizer.step()
        optimizer.zero_grad()
    trainer.export(tmp_path / "head")
    head = heads.load(
        heads.inspect(tmp_path / "head", inspect(target)),
        LinearFactory("fp32", torch.device("cpu")),
    )
    assert isinstance(head, MedusaHead)
    (kept,) = recording.replies
    tokens = recording.tokens(kept).tolist()
    cache = model.new_state(512, with_normed(()))
    model.forward(tokens, cache, last=0)
    assert cache.aux is not None
    right = [
        logits_of(head, cache.aux.at(recording.aux_layers[0])[at : at + 1].float())
        .argmax(-1)
        .tolist()
        == tokens[at + 2 : at + 4]
        for at in range(kept.start - 1, len(tokens) - 3)
    ]
    assert sum(right) >= 0.9 * len(right)
