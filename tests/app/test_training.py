"""Training beside the app: real runs of a tiny model, each in a process of its own."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import torch
import yaml

from app.inventory import open_inventory
from app.training import options as training_options
from app.training import process as training_process
from app.training import runs as training
from app.training.options import TrainingOptions
from app.training.runs import State, Status, Trainings
from engine.errors import ForetokenError, InvalidRequest
from engine.models.base import HiddenStateModel
from engine.train.heads import kinds
from engine.train.output.run_directory import RunDirectory
from engine.train.progress import Phase, ProgressFile
from engine.train.recipe import load_recipe
from engine.train.schema import read
from engine.train.trainer import TargetView
from tests.app.ui.runs import no_orphans
from tests.support.checkpoints import write_random
from tests.support.loading import load_model


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


@pytest.fixture
def trainings(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Trainings]:
    monkeypatch.setattr(training_process, "NICE", 1)  # tests are waited for, also on a busy machine
    with no_orphans():
        yield Trainings(data_dir)


@pytest.fixture
def options(tmp_path: Path) -> TrainingOptions:
    """Seconds of work: a model of two layers and eight questions."""
    write_random(tmp_path / "tiny")
    file = tmp_path / "prompts.jsonl"
    lines = [{"prompt": f"Tell me about door {number}."} for number in range(8)]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return TrainingOptions(str(tmp_path / "tiny"), "medusa", str(file), 0.05)


def awaited(trainings: Trainings, fact: Callable[[Status], bool]) -> Status:
    deadline = time.monotonic() + 240
    while True:
        status = trainings.status()
        assert status is not None
        if fact(status):
            return status
        log = (status.folder / training.LOG).read_text() if status.folder.exists() else ""
        assert time.monotonic() < deadline, f"{status}\n{log}"
        time.sleep(0.05)


def ended(status: Status) -> bool:
    return status.state not in (State.RUNNING, State.STOPPING)


def test_every_kind_has_a_shipped_recipe() -> None:
    """The Train page offers those that have one."""
    assert training_options.trainable_kinds() == kinds.names()


@pytest.mark.parametrize("kind", kinds.names())
def test_a_derived_recipe_is_the_kinds_own_but_for_what_was_asked(
    kind: str, tmp_path: Path
) -> None:
    shipped = training_options.shipped_recipe(kind, "smollm2-135m")
    assert shipped is not None
    own = load_recipe(shipped)
    file = tmp_path / "recipe.yaml"
    content = training_options.recipe_for(TrainingOptions("smollm2-135m", kind, "chats", 3), "mine")
    file.write_text(yaml.safe_dump(content))
    made = load_recipe(file)
    assert (made.name, made.target, made.replies.prompts) == ("mine", "smollm2-135m", "chats")
    assert (made.budget.minutes, made.budget.tokens) == (3, None)
    assert made.replies.held_out == min(own.replies.held_out, 12), "measured longer than trained"
    assert (made.optimizer, made.replies.count) == (own.optimizer, own.replies.count)
    assert made.shape.items() <= own.shape.items()
    assert (made.device, made.native, made.threads) == ("auto", True, own.threads)
    options = TrainingOptions("smollm2-135m", kind, "chats", 3, "cpu", native=False, threads=1)
    file.write_text(yaml.safe_dump(training_options.recipe_for(options, "mine")))
    elsewhere = load_recipe(file)
    assert (elsewhere.device, elsewhere.native, elsewhere.threads) == ("cpu", False, 1)
    same = training_options.recipe_for(TrainingOptions(own.target, kind, "chats", 3), "mine")
    assert same["shape"] == own.shape


@pytest.mark.parametrize("kind", kinds.names())
def test_a_derived_recipe_suits_a_target_of_another_depth_and_vocabulary(
    kind: str, tmp_path: Path
) -> None:
    """The block drafter's recipe named layers and a token of Pip."""
    write_random(tmp_path / "tiny")
    model = load_model(tmp_path / "tiny")
    assert isinstance(model, HiddenStateModel)
    content = training_options.recipe_for(
        TrainingOptions(str(tmp_path / "tiny"), kind, "chats", 3), "mine"
    )
    made = kinds.trainer(kind)
    trainer = made(
        read(made.Shape, content["shape"]),
        TargetView(model, torch.device("cpu"), hard_weight=0.1),
    )
    assert all(each.layer is None or each.layer <= model.info.layers for each in trainer.aux_layers)


def test_a_run_is_stopped_found_by_the_next_app_gone_on_with_and_loadable(
    trainings: Trainings, options: TrainingOptions, data_dir: Path
) -> None:
    long = TrainingOptions(options.target, options.kind, options.prompts, 30)
    trainings.start(long)
    with pytest.raises(InvalidRequest, match="running"):
        trainings.start(long)
    learning = awaited(trainings, lambda s: ended(s) or (s.phase is Phase.LEARNING and s.share > 0))
    assert learning.state is State.RUNNING, learning.error
    pid = json.loads((data_dir / "training" / "current.json").read_text())["process"][0]
    assert psutil.Process(pid).nice() != psutil.Process().nice()
    later = Trainings(data_dir)  # an app that came after a crash
    assert (status := later.status()) is not None
    assert status.state is State.RUNNING
    later.stop()
    stopped = awaited(later, ended)
    assert stopped.state is State.STOPPED
    assert RunDirectory(stopped.folder).checkpoint("medusa").is_file()

    # What is left of the half hour is not waited for.
    recipe = yaml.safe_load((stopped.folder / "recipe.yaml").read_text())
    assert recipe["budget"] == {"minutes": 30}
    recipe["budget"] = {"minutes": 0.01}
    (stopped.folder / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    later.resume()
    done = awaited(later, ended)
    assert done.state is State.DONE, done.error
    assert done.share == 1
    assert done.measured and done.measured[-1].length >= 1
    pair = open_inventory(data_dir).catalog.pair(done.pair)
    assert pair.id == "tiny-medusa-1"
    assert pair.heads == (done.drafter,)
    with pytest.raises(InvalidRequest, match="earlier training"):
        later.start(options)
    for act in (later.resume, later.discard):
        with pytest.raises(InvalidRequest, match="is done"):
            act()
    later.put_away()
    assert later.status() is None
    assert (done.drafter / "model.safetensors").is_file()
    assert not (done.folder / "recording").exists()


def test_a_test_that_fails_leaves_no_process_behind(
    data_dir: Path, options: TrainingOptions
) -> None:
    """Even of an app that came after another: it went on for its half hour."""
    with pytest.raises(AssertionError, match="mistake"), no_orphans():
        Trainings(data_dir).start(replace(options, minutes=30))
        (training_pid, _) = json.loads((data_dir / "training" / "current.json").read_text())[
            "process"
        ]
        assert psutil.pid_exists(training_pid)
        raise AssertionError("a mistake")
    assert not psutil.pid_exists(training_pid)


def test_a_stop_while_models_are_loaded_is_a_stop(
    trainings: Trainings, options: TrainingOptions
) -> None:
    trainings.start(options)
    trainings.stop()
    assert trainings.status().state in (State.STOPPING, State.STOPPED)
    stopped = awaited(trainings, ended)
    assert (stopped.state, stopped.error) == (State.STOPPED, "")
    trainings.discard()
    assert trainings.status() is None
    assert not stopped.folder.exists()


def test_a_training_ends_with_the_app_and_can_be_gone_on_with(
    trainings: Trainings, options: TrainingOptions, data_dir: Path
) -> None:
    trainings.start(options)
    trainings.close()
    assert awaited(Trainings(data_dir), ended).state is State.STOPPED


def test_a_failure_is_told_in_words_and_can_be_tried_again(
    trainings: Trainings, options: TrainingOptions, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if torch.cuda.is_available():
        pytest.skip("the mistake is to ask for a GPU that is not there")
    content = training_options.recipe_for(options, "medusa 1")
    monkeypatch.setattr(training, "recipe_for", lambda *_: {**content, "device": "cuda"})
    trainings.start(options)
    failed = awaited(trainings, ended)
    assert failed.state is State.FAILED
    assert "device is cuda" in failed.error
    assert "Traceback" not in failed.error
    again = Trainings(data_dir).status()
    assert (again.state, again.error) == (State.FAILED, failed.error)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"minutes": 0}, "training time"),
        ({"minutes": float("nan")}, "training time"),
        ({"kind": "crystal-ball"}, "choose one of medusa"),
        ({"target": "nothing-like-it"}, "nothing-like-it"),
        ({"target": "llama-3.2-1b"}, "not on this machine"),
        ({"prompts": "chats"}, "0 different prompts"),
        ({"prompts": "no-such-file.jsonl"}, "cannot be read"),
    ],
)
def test_mistakes_are_told_before_anything_is_started(
    trainings: Trainings,
    options: TrainingOptions,
    change: dict[str, object],
    told: str,
    tmp_path: Path,
) -> None:
    values = {name: getattr(options, name) for name in ("target", "kind", "prompts", "minutes")}
    with pytest.raises(ForetokenError, match=told):
        trainings.start(TrainingOptions(**{**values, **change}))
    assert trainings.status() is None
    folder = tmp_path / "data" / "training"
    assert not folder.exists() or not list(folder.iterdir())


def test_a_process_that_was_killed_is_a_failure_with_its_likely_reason(
    trainings: Trainings, options: TrainingOptions, data_dir: Path
) -> None:
    trainings.start(options)
    pid = json.loads((data_dir / "training" / "current.json").read_text())["process"][0]
    psutil.Process(pid).kill()
    failed = awaited(trainings, ended)
    assert failed.state is State.FAILED
    assert "memory" in failed.error
    # The next app cannot know why; it offers to go on.
    assert Trainings(data_dir).status().state is State.STOPPED


def test_a_broken_record_of_the_run_is_no_run(trainings: Trainings, data_dir: Path) -> None:
    (data_dir / "training").mkdir()
    for text in ("", "[]", '{"name": "x"}', '{"order": 1}'):
        (data_dir / "training" / "current.json").write_text(text)
        assert trainings.status() is None


def test_a_progress_file_on_a_full_disk_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    told = ProgressFile(tmp_path / "file" / "progress.json")
    told.write(Phase.LEARNING, share=0.5)
    assert told.read() == {}
