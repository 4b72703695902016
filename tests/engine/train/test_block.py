"""Block drafters learn what they will be asked: training's blocks are the blocks that are drafted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine.backends.linear_factory import LinearFactory
from engine.decoding.context import Context
from engine.decoding.sampling import Sampler
from engine.decoding.target import Target
from engine.decoding.text.codec import TextCodec
from engine.drafting import heads
from engine.drafting.heads.block import BlockHead
from engine.drafting.proposers.block import BlockProposer
from engine.drafting.resources import Resources
from engine.events import Budget
from engine.models.base import HiddenStateModel
from engine.models.checkpoints.checkpoint import inspect
from engine.models.hidden_states import NORMED, AuxLayer
from engine.train import recipe as stages
from engine.train.data.batches import Batch, batch_of
from engine.train.data.generation import record
from engine.train.data.prompts import Prompts
from engine.train.data.recording import Recording, with_normed
from engine.train.heads.block import BlockTrainer
from engine.train.heads.block_network import AnchoredBlocks, BlockShape
from engine.train.recipe import Recipe, RepliesStage
from engine.train.run import distil
from engine.train.schema import RecipeError
from engine.train.trainer import TargetView
from engine.values.messages import Message
from engine.values.sampling import AcceptanceRule, Sampling
from tests.support.checkpoints import LLAMA, write_random
from tests.support.heads import block_pass
from tests.support.loading import load_model

CPU = torch.device("cpu")
LAST = LLAMA["num_hidden_layers"] - 1
SHAPE = BlockShape(
    (0, LAST),
    mask_token_id=2,
    block_size=4,
    num_hidden_layers=2,
    head_dim=16,
    intermediate_size=48,
    anchors=64,
)
ASKED = tuple((Message("user", f"Tell me about door {number}."),) for number in range(8))
STAGE = RepliesStage(count=6, held_out=2, tokens=30, temperatures=(0.0,))
KINDS = pytest.mark.parametrize("rank", [0, 6], ids=["dflash", "dspark"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("target")
    write_random(target)
    return target


@pytest.fixture(scope="module")
def model(folder: Path) -> HiddenStateModel:
    found = load_model(folder)
    assert isinstance(found, HiddenStateModel)
    return found


def make(model: HiddenStateModel, shape: BlockShape = SHAPE, hard: float = 0.1) -> BlockTrainer:
    torch.manual_seed(0)
    return BlockTrainer(shape, TargetView(model, CPU, hard))


def load(trainer: BlockTrainer, out: Path, target: Path) -> BlockHead:
    trainer.export(out)
    head = heads.load(heads.inspect(out, inspect(target)), LinearFactory("fp32", CPU))
    assert isinstance(head, BlockHead)
    return head


def drafting(head: BlockHead, model: HiddenStateModel) -> tuple[BlockProposer, Target]:
    target = Target(model, head.aux_layers)
    resources = Resources(heads={"block": head}, backbone=target)
    return BlockProposer(BlockProposer.Options(), resources), target


def draft(head: BlockHead, model: HiddenStateModel, text: list[int]) -> list[int]:
    """What the proposer drafts behind ``text``."""
    proposer, target = drafting(head, model)
    target.extend(text[:-1])
    context = Context(tuple(text))
    sampler = Sampler(Sampling(), AcceptanceRule.GREEDY, 0, context, model.info.vocabulary)
    proposer.begin(context, sampler)
    return list(proposer.propose(context, Budget(8, 8)).tree.tokens)


def reading(model: HiddenStateModel, trainer: BlockTrainer, tokens: list[int]) -> Batch:
    """All of a text, as its target sees it."""
    aux_layers = with_normed(trainer.aux_layers)
    cache = model.new_state(512, aux_layers)
    model.forward(tokens, cache, last=0)
    assert cache.aux is not None
    features = {
        aux_layer: cache.aux.at(aux_layer)[None, : len(tokens)].float() for aux_layer in aux_layers
    }
    here = torch.ones(1, len(tokens), dtype=torch.bool)
    return Batch(torch.tensor([tokens]), here, here, features)


def likeliest(trainer: BlockTrainer, states: Tensor, pending: int) -> list[int]:
    """Behind ``states`` (depth, hidden) of a block, each token behind the one before."""
    drafted = [pending]
    for state in states:
        logits = trainer.logits(state[None], torch.tensor([drafted[-1]]))
        drafted.append(int(logits.argmax()))
    return drafted[1:]


@KINDS
def test_what_is_exported_drafts_what_was_trained(
    folder: Path, model: HiddenStateModel, tmp_path: Path, rank: int
) -> None:
    trainer = make(model, replace(SHAPE, markov_rank=rank))
    for name, parameter in trainer.module.named_parameters():
        base = 1.0 if "norm" in name else 0.0
        parameter.data.normal_(base, 0.2).copy_(parameter.bfloat16().float())
    assert trainer.aux_layers == (AuxLayer(1), NORMED)
    head = load(trainer, tmp_path, folder)
    assert head.aux_layers == trainer.aux_layers and head.shape.depth == trainer.depth == 4 - (
        not rank
    )
    tokens = torch.randint(3, LLAMA["vocab_size"], (12,)).tolist()
    batch = reading(model, trainer, tokens)
    anchors = [1, 5, 11]
    blocks = AnchoredBlocks(torch.tensor([anchors]), torch.ones(1, 3, dtype=torch.bool))
    with torch.no_grad():
        trained = trainer.states(batch, blocks)[0, :, trainer.first :]
    for states, anchor in zip(trained, anchors, strict=True):
        _, target = drafting(head, model)
        target.extend(tokens[:anchor])
        found = block_pass(head, target, tokens[anchor]).states
        assert torch.allclose(found, states, atol=1e-3)
        expected = likeliest(trainer, states, tokens[anchor])
        assert draft(head, model, tokens[: anchor + 1]) == expected


@KINDS
def test_a_drafter_learns_the_tokens_that_it_will_be_asked_for(
    folder: Path, model: HiddenStateModel, tmp_path: Path, rank: int
) -> None:
    """Trained on one reply until it knows it by heart, it must draft that reply, token for token."""
    trainer = make(model, replace(SHAPE, markov_rank=rank), hard=1.0)
    recording = Recording(tmp_path / "replies", with_normed(trainer.aux_layers))
    record(model, TextCodec(folder), ASKED[:1], STAGE, recording, seed=1)
    (kept,) = recording.replies
    batch = batch_of(recording, [kept], with_normed(trainer.aux_layers), 128, 0)
    optimizer = torch.optim.Adam(trainer.module.parameters(), lr=0.01)
    losses = []
    for _ in range(80):
        loss = trainer.loss(batch)
        losses.append(loss.total.item() / loss.count)
        loss.total.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert losses[-1] < 0.2 * losses[0]
    head = load(trainer, tmp_path / "head", folder)
    tokens = recording.tokens(kept).tolist()
    right = total = 0
    for end in range(kept.start, len(tokens) - 1):  # the first time, only the prompt is there
        drafted, said = draft(head, model, tokens[:end]), tokens[end : end + trainer.depth]
        right += sum(a == b for a, b in zip(drafted, said, strict=False))
        total += len(said)
    assert right >= 0.95 * total


def test_blocks_stand_where_the_target_spoke_next(model: HiddenStateModel) -> None:
    """The last token of the question is an anchor: what is drafted first comes behind it."""
    trainer = make(model)
    batch = reading(model, trainer, list(range(3, 15)))
    spoken, known = torch.zeros(1, 12, dtype=torch.bool), batch.state_mask.clone()
    spoken[:, 5:10], known[:, 9:] = True, False  # a reply of tokens 5 to 9; the last was never read
    batch = replace(batch, loss_mask=spoken, state_mask=known)
    blocks = trainer._blocks(batch)
    assert sorted(blocks.anchors[blocks.real].tolist()) == [4, 5, 6, 7, 8]
    # Token 5 + n is named by as many blocks as have it within reach.
    assert trainer.loss(batch).count == sum(min(n + 1, trainer.depth) for n in range(5))
    assert torch.equal(trainer.loss(batch).total, trainer.loss(batch).total)
    assert trainer.loss(replace(batch, loss_mask=torch.zeros_like(spoken))).count == 0


def test_a_block_sees_nothing_from_its_anchor_on(model: HiddenStateModel) -> None:
    trainer = make(model)
    batch = reading(model, trainer, list(range(3, 15)))
    blocks = AnchoredBlocks(torch.tensor([[6]]), torch.ones(1, 1, dtype=torch.bool))
    expected = trainer.states(batch, blocks)
    for aux_layer in trainer.aux_layers:
        batch.states[aux_layer][:, 6:] = 7.0
    changed = batch.tokens.clone()
    changed[:, 7:] = 3
    assert torch.equal(trainer.states(replace(batch, tokens=changed), blocks), expected)
    batch.states[trainer.aux_layers[0]][:, 5] = 7.0
    assert not torch.allclose(trainer.states(batch, blocks), expected)


def test_a_run_makes_a_drafter_and_has_nothing_more_to_do_when_repeated(
    folder: Path, tmp_path: Path
) -> None:
    recipe = Recipe(
        kind="block",
        name="Blocks",
        target="tiny",
        seed=3,
        budget=stages.Budget(tokens=6_000),
        shape={"target_layer_ids": [0, LAST], "mask_token_id": 2, "block_size": 4}
        | {"head_dim": 16, "intermediate_size": 48, "markov_rank": 8},
        replies=STAGE,
        optimizer=stages.OptimizerStage(method="adamw", learning_rate=0.01, weight_decay=0.0),
        window=64,
        batch_tokens=128,
    )
    prompts = Prompts(ASKED[2:], ASKED[:2])
    found = distil(recipe, folder, prompts, tmp_path)
    log = [json.loads(line) for line in (found / "training.jsonl").read_text().splitlines()]
    losses = [entry["loss"] for entry in log if "loss" in entry]
    assert losses[-1] < losses[0] - 0.3  # nats
    assert log[-1]["acceptance"]["depth"] == 4
    first = (found / "model.safetensors").read_bytes()
    again = distil(recipe, folder, prompts, tmp_path)
    assert (again / "model.safetensors").read_bytes() == first


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"target_layer_ids": (-2,)}, "target_layer_ids"),
        ({"target_layer_ids": (LAST + 1,)}, "target_layer_ids"),
        ({"mask_token_id": LLAMA["vocab_size"]}, "mask_token_id"),
        ({"block_size": 1}, "block_size"),
        ({"num_attention_heads": 3}, "num_attention_heads"),
        ({"anchors": 0}, "anchors"),
        ({"decay": 0.0}, "decay"),
    ],
)
def test_a_recipe_that_does_not_fit_the_target_is_refused_by_key(
    model: HiddenStateModel, change: dict[str, object], key: str
) -> None:
    with pytest.raises(RecipeError, match=f"shape.{key}"):
        make(model, replace(SHAPE, **change))
