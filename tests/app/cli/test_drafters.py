"""Training a drafter from the command line, up to chatting with it."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from app.inventory import open_inventory
from app.storage.store import Store
from app.training.options import from_chats
from tests.app.cli.conftest import Foretoken
from tests.support.checkpoints import write_random
from tests.support.gguf_files import write_gguf

RECIPE = {
    "kind": "medusa",
    "name": "Heads",
    "target": "pip",
    "seed": 1,
    "budget": {"tokens": 2000},
    "shape": {"heads": 2},
    "replies": {"held_out": 2, "tokens": 24, "layers": [1, 99]},  # 99 as of a deeper target
    "window": 64,
    "batch_tokens": 512,
}


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    file = tmp_path / "heads.yaml"
    file.write_text(yaml.safe_dump(RECIPE))
    return file


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    file = tmp_path / "prompts.jsonl"
    lines = [{"prompt": f"Tell me about door {number}."} for number in range(8)]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def test_a_drafter_for_gguf_files_is_trained_entered_and_used(
    foretoken: Foretoken, recipe: Path, prompts: Path, tmp_path: Path
) -> None:
    """The draft, which helps to record, was once entered as a model that the catalog does not know."""
    for name, layers in (("tiny", 2), ("small", 1)):
        write_random(tmp_path / name, num_hidden_layers=layers)
        write_gguf(tmp_path / name, tmp_path / f"{name}.gguf")
    target, draft = tmp_path / "tiny.gguf", tmp_path / "small.gguf"
    words = ("train", recipe, "--target", f"{target}::{draft}", "--prompts", prompts)
    data = ("--data-dir", tmp_path / "data")
    result = foretoken(*words, "--out", tmp_path / "run", *data)
    assert result.status == 0, result.err
    assert "--pair tiny-heads" in result.out
    chat = ("chat", "Hello", "--pair", "tiny-heads", "--proposer", "medusa", "--max-tokens", "8")
    assert foretoken(*chat, *data).status == 0
    told = json.loads((tmp_path / "run" / "progress.json").read_text())
    assert (told["phase"], told["pair"]) == ("done", "tiny-heads")
    # One that is refused is another matter: it overwrote what is told of the one that is done.
    refused = foretoken("train", recipe, "--prompts", recipe, "--out", tmp_path / "run", *data)
    assert refused.status == 2
    assert json.loads((tmp_path / "run" / "progress.json").read_text()) == told
    again = foretoken(*words, "--out", tmp_path / "run", *data)
    assert again.status == 0, again.err
    assert "--pair tiny-heads\n" in again.out

    # Another run is another drafter: its id was once said to be in the catalog, and was the first one's.
    other = foretoken(*words, "--out", tmp_path / "other", *data)
    assert "--pair tiny-heads-2\n" in other.out, other.err
    pairs = {pair.id: pair for pair in open_inventory(tmp_path / "data").catalog.pairs}
    folders = [pairs[name].heads[0] for name in ("tiny-heads", "tiny-heads-2")]
    assert [folder.relative_to(tmp_path).parts[0] for folder in folders] == ["run", "other"]


def test_bad_prompts_are_told(foretoken: Foretoken, recipe: Path, tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text('{"prompt": "One"}\n{"question": "Two"}\n')
    result = foretoken("train", recipe, "--prompts", file, "--data-dir", tmp_path / "data")
    assert result.status == 2
    assert "line 2 is not a prompt" in result.err


def test_one_prompt_is_too_few(foretoken: Foretoken, recipe: Path, tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text('{"prompt": "One"}\n' * 3)
    result = foretoken("train", recipe, "--prompts", file, "--data-dir", tmp_path / "data")
    assert result.status == 2
    assert "Found 1 different prompt in" in result.err


def test_without_chats_it_is_said(foretoken: Foretoken, recipe: Path, tmp_path: Path) -> None:
    result = foretoken("train", recipe, "--prompts", "chats", "--data-dir", tmp_path / "data")
    assert result.status == 2
    assert "0 different prompts in your chats" in result.err


def test_every_question_of_a_chat_becomes_a_prompt(tmp_path: Path) -> None:
    with closing(Store(tmp_path)) as store:
        chat = store.new_chat("Doors")
        _, reply = store.begin_turn(chat, "Which door?", keep=None)
        store.save_reply(reply, text="The second.", marks="", status="done")
        _, empty = store.begin_turn(chat, "And?", keep=None)
        store.save_reply(empty, text=" ", marks="", status="cancelled")
        store.begin_turn(chat, "Why?", keep=None)  # not answered yet
    found = from_chats(tmp_path)
    said = [[message.content for message in prompt] for prompt in found]
    begin = ["Which door?", "The second."]
    # Two questions in a row, which no template knows, once broke a whole training.
    assert said == [["Which door?"], [*begin, "And?"], [*begin, "Why?"]]
