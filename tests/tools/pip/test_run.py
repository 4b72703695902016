"""Whole runs of models of a few thousand weights: trained, stopped, gone on from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from engine.train.output.run_directory import Journal
from tests.tools.pip.conftest import FakeMaterial
from tools.pip.folder import PairDirectory
from tools.pip.replies import read as read_replies
from tools.pip.run import run
from tools.pip.start import StartError


@pytest.fixture
def fake_feed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks made in this process, from the fake material."""
    monkeypatch.setattr("tools.pip.data.Material", FakeMaterial)
    monkeypatch.setattr("tools.pip.target.Material", FakeMaterial)
    monkeypatch.setattr("tools.pip.run.Material", FakeMaterial)
    monkeypatch.setattr("tools.pip.draft.Material", FakeMaterial)
    monkeypatch.setattr("tools.pip.data.multiprocessing.get_context", lambda _: InThread)


class InThread:
    """The part of multiprocessing's context that Feed uses, on a thread."""

    from queue import Queue

    @staticmethod
    def Process(target: Any, args: tuple[Any, ...], daemon: bool) -> Any:  # noqa: N802
        import threading

        from tools.pip.data import _serve

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


@pytest.mark.exhaustive
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
def test_what_cannot_be_gone_on_from_is_told(recipe_file: Path, tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"no tokenizer\.json"):
        run(recipe_file, out=tmp_path / "out", data=tmp_path, start=tmp_path)
    run(recipe_file, out=tmp_path / "first", data=tmp_path, stages=("tokenizer", "target"))
    wider = yaml.safe_load(recipe_file.read_text())
    wider["target"]["model"]["intermediate_size"] *= 2
    recipe_file.write_text(yaml.safe_dump(wider))
    with pytest.raises(StartError, match="another shape"):
        run(recipe_file, out=tmp_path / "out", data=tmp_path, start=tmp_path / "first")


@pytest.mark.exhaustive
@pytest.mark.usefixtures("fake_feed")
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


def test_a_stage_that_is_passed_over_is_told(
    recipe_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command ended at once, without a word."""
    paths = PairDirectory(tmp_path / "out")
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
