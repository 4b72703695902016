"""Training, on models of a few thousand weights."""

from __future__ import annotations

import dataclasses
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer

from engine.train import machine
from engine.train.data import (
    IGNORE,
    OPENING_TOKENS,
    BlockMaker,
    batch,
    batches,
    cut,
    opening,
)
from engine.train.export import export_model, write_card
from engine.train.loop import Paths
from engine.train.machine import Journal, pass_dtype
from engine.train.network import Labels, Network, Teacher, config_of, head_loss, new_model, place
from engine.train.optim import Muon, orthogonalise, schedule
from engine.train.pip.example import Example, Message, chat
from engine.train.recipe import Recipe, RecipeError, RowsStage, Shape, load_recipe
from engine.train.replies import Question, answer
from engine.train.replies import read as read_replies
from engine.train.run import main, run
from engine.train.tokenizer import Document, Encoder, render, save_tokenizer, train_tokenizer

PIP = Path(__file__).parents[3] / "engine" / "train" / "recipes" / "pip.yaml"
TEXTS = [f"Once there was a fox number {n}, who said: it's {n * 7} o'clock." for n in range(200)]
ROWS = RowsStage(lengths=(32, 64), micro_tokens=128, block_tokens=1024)
TINY = Shape(
    layers=2, hidden_size=32, intermediate_size=48, heads=4, kv_heads=2, head_dim=8, context=64
)


class FakeMaterial:
    """A handful of examples, endlessly."""

    def __init__(self, *_: object) -> None:
        self.texts = TEXTS[8:]
        self.held_out_texts = TEXTS[:2]
        self.weights = {"talk": 1.0}

    def examples(self, seed: int) -> Any:
        rng = random.Random(seed)
        while True:
            number = rng.randrange(3)
            yield Example("talk", chat(f"Say {number}", f"It is {number}."), None)

    def held_out(self, seed: int, each: int) -> dict[str, list[Example]]:
        return {
            "talk": [example for _, example in zip(range(each), self.examples(seed), strict=False)]
        }


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer([*TEXTS, "user says Hi\n", "Say 1 It is 2."], 320)


@pytest.fixture
def recipe_file(tmp_path: Path) -> Path:
    rows = {"lengths": [32, 64], "micro_tokens": 128, "block_tokens": 1024}
    shape = dataclasses.asdict(TINY)
    stage = {"model": shape, "rows": rows, "step_tokens": 256, "budget": {"tokens": 256 * 30}}
    rates = {"learning_rate": 0.02, "matrix_learning_rate": 0.03, "weight_decay": 0.0}
    recipe = {
        "name": "Tiny",
        "seed": 3,
        "device": "cpu",
        "compile": False,
        "tokenizer": {"vocabulary": 320, "sample_characters": 4000},
        "target": stage | {"optimizer": rates, "phases": [{"until": 1.0, "text_share": 0.0}]},
        "draft": stage
        | {"model": shape | {"layers": 1}, "optimizer": rates, "replies": 40, "held_out": 6}
        | {"reply_tokens": 24},
    }
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(recipe))
    return path


# Recipe


def test_the_recipe_of_pip_is_valid_and_small_enough() -> None:
    recipe = load_recipe(PIP)
    assert parameters(recipe, recipe.target.model) < 8_000_000
    assert parameters(recipe, recipe.draft.model) <= 1_500_000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seeed": 1}, "seeed: unknown; allowed: name, seed"),
        ({"seed": "one"}, "seed: 'one' is not allowed; it must be a whole number"),
        ({"seed": None}, "seed: None"),
        ({"device": "tpu"}, "device: 'tpu' is not allowed; it must be one of auto, cpu, cuda"),
        ({"tokenizer": {}}, "tokenizer.vocabulary: missing"),
        ({"tokenizer": 4096}, "tokenizer: 4096 is not allowed; it must be a mapping"),
        ({"tokenizer": {"vocabulary": -1}}, "zero or more"),
        ({"threads": True}, "threads: True"),
    ],
)
def test_a_wrong_recipe_names_the_key_and_what_is_allowed(
    recipe_file: Path, change: dict[str, object], message: str
) -> None:
    recipe_file.write_text(yaml.safe_dump(yaml.safe_load(recipe_file.read_text()) | change))
    with pytest.raises(RecipeError) as caught:
        load_recipe(recipe_file)
    assert message in str(caught.value)


def test_a_stage_that_is_passed_over_is_told(
    recipe_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command ended at once, without a word."""
    paths = Paths(tmp_path / "out")
    for folder, name in (
        (paths.tokenizer, "tokenizer.json"),
        (paths.target, "model.safetensors"),
        (paths.draft, "model.safetensors"),
    ):
        folder.mkdir(parents=True)
        (folder / name).touch()
    run(recipe_file, out=paths.out, data=tmp_path, stages=("target", "draft"))
    assert capsys.readouterr().out.splitlines() == [
        f"target: already trained, in {paths.target}; --stage target --fresh trains it again",
        f"draft: already trained, in {paths.draft}; --stage draft --fresh trains it again",
    ]


def test_a_budget_needs_tokens_or_minutes(recipe_file: Path) -> None:
    recipe = yaml.safe_load(recipe_file.read_text())
    recipe["target"]["budget"] = {}
    recipe_file.write_text(yaml.safe_dump(recipe))
    with pytest.raises(RecipeError, match=r"target\.budget: needs tokens, minutes or both"):
        load_recipe(recipe_file)


def test_a_missing_recipe_is_an_error_line_not_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path / "no.yaml"), "--data", str(tmp_path), "--out", str(tmp_path)]) == 1
    assert "cannot be read" in capsys.readouterr().err


# Tokenizer


@pytest.mark.parametrize(
    "text",
    ["a  b\n\n c\t", "12345 + 6,7", "Grüße, 世界 🦊\u200d", '{\n  "a": [1, 2]\n}\n', "\r\n x ", ""],
)
def test_any_text_round_trips(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text


def test_digits_stand_alone(tokenizer: Tokenizer) -> None:
    tokens = tokenizer.encode("it is 2026").tokens
    assert tokens[-4:] == ["2", "0", "2", "6"]


def test_transformers_reads_the_folder_and_encodes_chats_alike(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    save_tokenizer(tokenizer, tmp_path, context=64)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    messages = chat("  Hi there\n", "It's 12.", "\n\n  {\n 1}", "", system="Be kind. ")
    as_dicts = [{"role": said.role, "content": said.content} for said in messages]
    ours = Encoder(tokenizer)
    ids = theirs.apply_chat_template(as_dicts, return_dict=True)["input_ids"]
    assert ids == ours.chats([messages])[0].tokens
    opened = theirs.apply_chat_template(as_dicts[:-1], add_generation_prompt=True, return_dict=True)
    assert opened["input_ids"] == ours.prompt(messages[:-1])
    assert theirs.eos_token_id == ours.end
    assert theirs.bos_token_id == ours.bos
    assert theirs.decode(theirs.encode("a ,b !", add_special_tokens=False)) == "a ,b !"


def test_a_chat_up_to_a_reply_is_a_prefix_of_the_longer_chat(tokenizer: Tokenizer) -> None:
    """Prefix reuse between turns rests on this."""
    encoder = Encoder(tokenizer)
    messages = chat("1\n\n", "{\n", "  x", "\ty", "Hi", "...\n")
    whole = encoder.chats([messages])[0].tokens
    for turn in (1, 3, 5):
        prompt = encoder.prompt(messages[:turn])
        assert whole[: len(prompt)] == prompt


def test_only_replies_are_learned_in_a_chat(tokenizer: Tokenizer) -> None:
    encoder = Encoder(tokenizer)
    document = encoder.chats([chat("Hi", "It is 1.", "Say", "ok", system="Be")])[0]
    learned = [token for token, yes in zip(document.tokens, document.learned, strict=True) if yes]
    assert tokenizer.decode(learned, skip_special_tokens=False) == "It is 1.<|end|>ok<|end|>"


def test_the_fast_rendering_is_the_template() -> None:
    assert render((Message("user", " a "),), reply_next=True) == (
        "<|bos|><|user|>\na<|end|>\n<|assistant|>\n"
    )


# Rows


def document(length: int, first: int = 0) -> Document:
    tokens = [(first + at) % 300 for at in range(length)]
    return Document(tokens, [False] * (length // 2) + [True] * (length - length // 2))


def test_packing_keeps_every_document_whole_and_its_labels_right() -> None:
    rng = random.Random(1)
    lengths = [rng.randrange(4, 65 if number % 4 == 0 else 20) for number in range(80)]
    documents = [document(length, first=rng.randrange(300)) for length in lengths]
    made = batches(documents, ROWS, pad=0, rng=rng)
    found = [entry for part in made for entry in unpack(part)]
    expected = [(entry.tokens, entry.learned) for entry in documents]
    assert all(entry in expected for entry in found)
    assert len(found) >= 60  # a few short ones may be left over
    assert {part.tokens.shape for part in made} == {(4, 32), (2, 64)}


def test_long_plain_text_is_cut_with_a_beginning_each() -> None:
    whole = Document([7, *range(10, 30)], [False] + [True] * 20)
    parts = cut(whole, 9)
    assert all(part.tokens[0] == 7 and len(part.tokens) <= 9 for part in parts)
    assert [token for part in parts for token in part.tokens[1:]] == whole.tokens[1:]


def test_a_block_depends_on_seed_and_index_alone(tokenizer: Tokenizer) -> None:
    def tokens(seed: int, index: int) -> list[list[int]]:
        maker = BlockMaker(FakeMaterial(), Encoder(tokenizer), ROWS, seed)  # type: ignore[arg-type]
        return [part.tokens.tolist() for part in maker.block(index, 0.5)]

    assert tokens(1, 4) == tokens(1, 4)
    assert tokens(1, 4) != tokens(1, 5)
    assert tokens(1, 4) != tokens(2, 4)


# Network and optimiser


def test_the_training_pass_is_transformers_own(tokenizer: Tokenizer) -> None:
    """Each document of a packed row gets the loss that transformers gives it alone."""
    model = new_model(config_of(TINY, 320, 0, 1, 2), seed=0)
    documents = [document(20, first=30), document(40, first=90)]
    packed = batch([documents, [document(64, first=5)]], 64, pad=2)
    inputs = place(packed, torch.device("cpu"), torch.float32)
    ours = Network(model, torch.float32).loss(inputs)
    theirs = sum(reference_loss(model, entry) for entry in [*documents, document(64, first=5)])
    torch.testing.assert_close(ours, theirs)
    ours.backward()  # type: ignore[no-untyped-call]
    mine = [param.grad.clone() for param in model.parameters()]
    model.zero_grad()
    theirs.backward()
    for param, gradient in zip(model.parameters(), mine, strict=True):
        torch.testing.assert_close(gradient, param.grad, rtol=1e-3, atol=1e-4)


def test_the_sliced_head_loss_has_the_plain_gradient() -> None:
    torch.manual_seed(0)
    hidden = torch.randn(600, 8, requires_grad=True)
    head, labels = torch.randn(50, 8, requires_grad=True), torch.randint(0, 50, (600,))
    plain = torch.nn.functional.cross_entropy(hidden @ head.T, labels, reduction="sum")
    expected = torch.autograd.grad(plain, (hidden, head))
    found = torch.autograd.grad(head_loss(hidden, head, Labels(labels)) / 2, (hidden, head))
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours * 2, theirs, rtol=1e-4, atol=1e-4)


def test_the_distillation_has_the_gradient_of_kl_and_cross_entropy() -> None:
    torch.manual_seed(0)
    hidden, head = torch.randn(300, 8, requires_grad=True), torch.randn(50, 8, requires_grad=True)
    goal = Teacher(torch.randn(300, 6), torch.randn(50, 6), torch.randint(0, 50, (300,)), hard=0.3)
    log_p = torch.log_softmax(goal.hidden @ goal.head.T, -1)
    log_q = torch.log_softmax(hidden @ head.T, -1)
    divergence = torch.nn.functional.kl_div(log_q, log_p, reduction="sum", log_target=True)
    plain = 0.7 * divergence
    plain = plain + 0.3 * torch.nn.functional.nll_loss(log_q, goal.labels, reduction="sum")
    expected = torch.autograd.grad(plain, (hidden, head))
    loss = head_loss(hidden, head, goal)
    torch.testing.assert_close(loss, plain)
    for ours, theirs in zip(torch.autograd.grad(loss, (hidden, head)), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_muon_steps_are_nearly_orthogonal_for_tall_and_wide() -> None:
    torch.manual_seed(0)
    for size in ((3, 32, 64), (3, 64, 32), (3, 32, 32)):
        values = torch.linalg.svdvals(orthogonalise(torch.randn(size)).float())
        # Jordan's quintic leaves most values in [0.7, 1.2]; a square matrix has a few tiny ones.
        assert values.max() < 1.3
        assert values.median() > 0.6


def test_muon_fits_a_linear_map() -> None:
    torch.manual_seed(0)
    weight, goal = torch.zeros(16, 8, requires_grad=True), torch.randn(16, 8)
    optimizer = Muon([weight], lr=0.05, weight_decay=0.0)
    for step in range(200):
        for group in optimizer.param_groups:
            group["lr"] = 0.05 * (1 - step / 200)
        optimizer.zero_grad()
        loss = (weight - goal).pow(2).sum()
        loss.backward()
        optimizer.step()
    assert loss < 0.05 * goal.pow(2).sum()


def test_the_schedule_warms_up_holds_and_ends_at_zero() -> None:
    assert schedule(0.05, 0.1, 0.4) == pytest.approx(0.5)
    assert schedule(0.3, 0.1, 0.4) == 1.0
    assert schedule(0.8, 0.1, 0.4) == pytest.approx(0.5)
    assert schedule(1.0, 0.1, 0.4) == 0.0


# Whole runs


@pytest.fixture
def fake_feed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks made in this process, from the fake material."""
    monkeypatch.setattr("engine.train.data.Material", FakeMaterial)
    monkeypatch.setattr("engine.train.target.Material", FakeMaterial)
    monkeypatch.setattr("engine.train.run.Material", FakeMaterial)
    monkeypatch.setattr("engine.train.draft.Material", FakeMaterial)
    monkeypatch.setattr("engine.train.data.multiprocessing.get_context", lambda _: InThread)


class InThread:
    """The part of multiprocessing's context that Feed uses, on a thread."""

    from queue import Queue

    @staticmethod
    def Process(target: Any, args: tuple[Any, ...], daemon: bool) -> Any:  # noqa: N802
        import threading

        from engine.train.data import _serve

        thread: Any = threading.Thread(target=_serve, args=args, daemon=daemon)
        thread.terminate = lambda: args[1].put(None)
        return thread


@pytest.mark.usefixtures("fake_feed")
def test_a_tiny_run_overfits_and_exports_what_transformers_loads(
    recipe_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    run(recipe_file, out=out, data=tmp_path, stages=("tokenizer", "target"))
    log = Journal(out / "target.jsonl").read()
    assert log[-1]["held_out"]["talk"] < 0.5  # 5.7 before the first step
    model = AutoModelForCausalLM.from_pretrained(out / "target", dtype=torch.float32)
    assert model.config.tie_word_embeddings
    assert {path.name for path in (out / "target").iterdir()} == {
        *("config.json", "generation_config.json", "model.safetensors", "README.md"),
        "training.jsonl",
        *("tokenizer.json", "tokenizer_config.json"),
    }
    tokenizer = AutoTokenizer.from_pretrained(out / "target")
    said = [{"role": "user", "content": "Say 1"}]
    prompt = tokenizer.apply_chat_template(said, add_generation_prompt=True, return_tensors="pt")
    assert torch.isfinite(model(**prompt).logits).all()


@pytest.mark.usefixtures("fake_feed")
@pytest.mark.usefixtures("fake_feed")
def test_a_run_goes_on_from_a_finished_model(recipe_file: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    run(recipe_file, out=first, data=tmp_path, stages=("tokenizer", "target"))
    before = Journal(first / "target.jsonl").read()[-1]
    # The same budget is spent already, so the weights must come through as they are.
    run(recipe_file, out=second, data=tmp_path, stages=("target",), start=first)
    ours, theirs = (
        load_file(folder / "target" / "model.safetensors") for folder in (second, first)
    )
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    longer = yaml.safe_load(recipe_file.read_text())
    longer["target"]["budget"]["tokens"] *= 2
    recipe_file.write_text(yaml.safe_dump(longer))
    third = tmp_path / "third"
    run(recipe_file, out=third, data=tmp_path, stages=("target",), start=first)
    log = Journal(third / "target.jsonl").read()
    assert log[0] == Journal(first / "target" / "training.jsonl").read()[0]
    assert log[-1]["tokens"] >= 2 * before["tokens"]
    changed = load_file(third / "target" / "model.safetensors")
    assert any(not torch.equal(changed[name], theirs[name]) for name in theirs)


@pytest.mark.usefixtures("fake_feed")
def test_what_cannot_be_gone_on_from_is_told(
    recipe_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = ["--data", str(tmp_path), "--out", str(tmp_path / "out"), "--from"]
    assert main([str(recipe_file), *known, str(tmp_path)]) == 1
    assert "no tokenizer.json" in capsys.readouterr().err
    run(recipe_file, out=tmp_path / "first", data=tmp_path, stages=("tokenizer", "target"))
    wider = yaml.safe_load(recipe_file.read_text())
    wider["target"]["model"]["intermediate_size"] *= 2
    recipe_file.write_text(yaml.safe_dump(wider))
    assert main([str(recipe_file), *known, str(tmp_path / "first")]) == 1
    assert "another shape" in capsys.readouterr().err


@pytest.mark.parametrize("fastest", [torch.float32, torch.bfloat16])
def test_the_pass_is_in_what_the_processor_multiplies_fastest(
    fastest: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "_product_seconds", lambda dtype: float(dtype != fastest))
    pass_dtype.cache_clear()
    assert pass_dtype(torch.device("cpu")) == fastest
    pass_dtype.cache_clear()


def test_a_run_stopped_halfway_ends_at_the_same_loss(recipe_file: Path, tmp_path: Path) -> None:
    run(recipe_file, out=tmp_path / "whole", data=tmp_path, stages=("tokenizer", "target"))

    stopped = stop_after_steps(13)
    with pytest.raises(KeyboardInterrupt):
        run(recipe_file, out=tmp_path / "parts", data=tmp_path, stages=("tokenizer", "target"))
    stopped.undo()
    run(recipe_file, out=tmp_path / "parts", data=tmp_path, stages=("target",))

    whole = Journal(tmp_path / "whole" / "target.jsonl").read()[-1]
    parts = Journal(tmp_path / "parts" / "target.jsonl").read()[-1]
    assert parts["tokens"] == whole["tokens"]
    assert parts["held_out"] == whole["held_out"]


@pytest.mark.usefixtures("fake_feed")
def test_the_draft_learns_to_agree_with_its_target(recipe_file: Path, tmp_path: Path) -> None:
    run(recipe_file, out=tmp_path / "out", data=tmp_path)
    acceptance = Journal(tmp_path / "out" / "draft.jsonl").read()[-1]["acceptance"]
    assert acceptance["0"]["greedy"] > 0.8
    assert acceptance["0.8"]["overlap"] > 0.7
    config = json.loads((tmp_path / "out" / "draft" / "config.json").read_text())
    assert config["num_hidden_layers"] == 1
    replies = read_replies(tmp_path / "out" / "replies.jsonl")
    assert {reply.temperature for reply in replies} <= {0.0, 0.8}
    assert sum(reply.held_out for reply in replies) == 6


def test_answers_in_a_batch_are_those_of_transformers_alone(tokenizer: Tokenizer) -> None:
    encoder = Encoder(tokenizer)
    model = new_model(config_of(TINY, 320, encoder.bos, encoder.end, encoder.pad), seed=4).eval()
    texts = ("Hi", "Say 1 it is", "a fox who said: number 2")
    group = [Question(tuple(encoder.prompt(chat(text))), 0.0, False) for text in texts]
    for question, reply in zip(group, answer(model, encoder, group, 12), strict=True):
        prompt = torch.tensor([question.tokens])
        mask = torch.ones_like(prompt)
        alone = model.generate(prompt, attention_mask=mask, max_new_tokens=12, do_sample=False)
        assert reply.reply == tuple(alone[0, len(question.tokens) :].tolist())


def test_a_file_of_replies_cut_by_a_kill_is_read_up_to_its_last_whole_line(tmp_path: Path) -> None:
    file = tmp_path / "replies.jsonl"
    file.write_text("[[1, 2], [3], 0.0, true]\n[[1, 2], [")
    assert [reply.reply for reply in read_replies(file)] == [(3,)]
    assert file.read_text().endswith("true]\n")


def test_the_card_tells_data_curve_and_evaluation(tmp_path: Path) -> None:
    model = new_model(config_of(TINY, 320, 0, 1, 2), seed=0)
    (tmp_path / "tokenizer").mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "tokenizer" / name).write_text("{}")
    export_model(model, tmp_path / "tokenizer", tmp_path / "model")
    (tmp_path / "figures.json").write_text(json.dumps({"guide": 0.93}))
    log = [{"tokens": 100, "seconds": 60.0, "loss": 2.5}, {"held_out": {"talk": 1.25}}]
    write_card(tmp_path / "model", "Tiny", "A test.", log, tmp_path / "figures.json")
    card = (tmp_path / "model" / "README.md").read_text()
    for part in ("CC BY-SA 4.0", "| 100 | 1.0 | 2.500 |", "| talk | 1.250 |", "| guide | 0.93 |"):
        assert part in card


# Helpers


def parameters(recipe: Recipe, shape: Shape) -> int:
    with torch.device("meta"):
        model = new_model(config_of(shape, recipe.tokenizer.vocabulary, 0, 1, 2), seed=0)
    return sum(param.numel() for param in model.parameters())


def unpack(part: Any) -> list[tuple[list[int], list[bool]]]:
    """(tokens, learned) of every document in a batch, found by its numbers and labels."""
    found = []
    for tokens, labels, numbers in zip(part.tokens, part.labels, part.documents, strict=True):
        for number in range(numbers.max() + 1):
            at = np.flatnonzero(numbers == number)
            assert labels[at[-1]] == IGNORE
            assert all(labels[i] in (IGNORE, tokens[i + 1]) for i in at[:-1])
            learned = [False, *(bool(label != IGNORE) for label in labels[at[:-1]])]
            found.append((tokens[at].tolist(), learned))
    return found


def reference_loss(model: Any, entry: Document) -> torch.Tensor:
    labels = [
        token if yes else IGNORE for token, yes in zip(entry.tokens, entry.learned, strict=True)
    ]
    logits = model(torch.tensor([entry.tokens])).logits[0, :-1]
    return torch.nn.functional.cross_entropy(
        logits, torch.tensor(labels[1:]), ignore_index=IGNORE, reduction="sum"
    )


def stop_after_steps(steps: int) -> pytest.MonkeyPatch:
    """Ends the run with Ctrl-C, just after a checkpoint at that step. Undo what is returned."""
    from engine.train.loop import Loop

    inner = pytest.MonkeyPatch()
    original, done = Loop.update, [0]

    def update(self: Any, stream: Any) -> Any:
        if done[0] == steps:
            self.save()
            raise KeyboardInterrupt
        done[0] += 1
        return original(self, stream)

    inner.setattr(Loop, "update", update)
    return inner


def test_an_opening_ends_in_the_first_tokens_of_the_reply() -> None:
    whole = Document(list(range(100)), [False] * 10 + [True] * 90)
    short = opening(whole)
    assert short.tokens == list(range(10 + OPENING_TOKENS))
    assert sum(short.learned) == OPENING_TOKENS
