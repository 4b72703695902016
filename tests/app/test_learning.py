"""The shipped EAGLE-3 head learns from chats with Pip: same words, longer drafts, and nothing is left."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from app import learning as module
from app.learning import learned_heads
from app.runtime import Runtime, create_runtime
from app.settings.preferences import PreferencesFile
from engine.api import Generation, LoadRequest
from engine.drafting import heads
from engine.drafting.learned import LONGEST, LearnedHead, LearnedState, Lesson
from engine.events import Finished, FinishReason, Started
from engine.kernels.native.library import Library
from engine.local.pair import LoadedPair
from engine.machine import threads
from engine.reply import ReplyState
from engine.request import Control, Request, Speculation
from engine.train import learning
from engine.train.data.recording import Recording, with_normed
from engine.train.heads import kinds
from engine.train.trainer import TargetView, continued
from engine.values.messages import Image, Message
from engine.values.sampling import Sampling
from tests.app.cli.conftest import Foretoken, foretoken
from tests.support.loading import load_model
from tests.support.places import PIP

__all__ = ["foretoken"]  # a fixture
QUESTIONS = [
    f"Please reserve a table for {number} people at {place} in {town}."
    for number, place, town in zip(
        range(2, 22), ["Sino", "Bazille", "Bird Dog", "71 Saint Peter"] * 5,
        ["San Jose", "Palo Alto", "Fairfield", "Oakland", "Milpitas"] * 4, strict=True,
    )
]  # fmt: skip


def waited(fact: Callable[[], object], seconds: float = 600) -> None:
    end = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


@contextlib.contextmanager
def pip(folder: Path) -> Iterator[Runtime]:
    with contextlib.closing(create_runtime(folder, LoadRequest(target="pip"))) as runtime:
        runtime.engine.load(LoadRequest(target="pip", draft=""))
        yield runtime


def ask(runtime: Runtime, text: str, proposer: str = "eagle3", **more: Any) -> ReplyState:
    request = Request(
        messages=(Message("user", text),),
        sampling=Sampling(temperature=0),
        speculation=Speculation(proposer=proposer, depth=6, controller=Control.FIXED),
        max_tokens=48,
        **more,
    )
    generation = runtime.engine.generate(request)
    runtime.learning.follow(generation, runtime.engine.loaded)
    return ReplyState.of(iter(generation))


def in_pair(runtime: Runtime, work: Callable[[LoadedPair], object]) -> object:
    return runtime.learning._local().when_idle(work)


def weights_in_use(runtime: Runtime) -> torch.Tensor:
    """What a matrix of the head that drafts now makes of ones."""
    found: list[torch.Tensor] = []

    def look(pair: LoadedPair) -> None:
        head = pair.session.resources.heads["eagle3"]
        found.append(head.fc(torch.ones(1, 3 * 256)))  # type: ignore[attr-defined]

    in_pair(runtime, look)
    return found[0]


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    """Pip after it has learned from twenty chats; a request came while it learned."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "IDLE_S", 0.05)
        patch.setattr(module, "FRESH", 200)
        patch.setattr(module, "_lower_priority", lambda: threads.use(1))  # tests run beside others
        patch.setattr(learning, "_EPOCHS", 2)
        patch.setattr(learning, "_OTHERS", 8)
        patch.setattr(learning, "_KEEPS", 0.9)  # two replies tell little
        with pip(tmp_path_factory.mktemp("data")) as runtime:
            ask(runtime, "Hello")
            assert not learned_heads(runtime.data_dir)  # off unless the user says so
            runtime.learning.on = True
            patch.setattr(module, "IDLE_S", 1e9)
            for question in QUESTIONS:
                ask(runtime, question)
            patch.setattr(module, "IDLE_S", 0.05)
            waited(lambda: runtime.learning.doing)
            during = ask(runtime, "Hello")
            assert during.text
            waited(lambda: learned_heads(runtime.data_dir)[0].replies > len(QUESTIONS))
            assert runtime.learning.doing  # it is stored while the drafter learns
            waited(lambda: states(runtime)[0].trials and not runtime.learning.doing)
            runtime.learning.on = False
            yield runtime


def states(runtime: Runtime) -> list[LearnedState]:
    return [head.state() for head in learned_heads(runtime.data_dir)]


def test_it_is_taken_for_longer_drafts_and_changes_no_word(taught: Runtime) -> None:
    (state,) = states(taught)
    (trial,) = state.trials
    assert trial.taken and trial.after > trial.before and state.used
    (days,) = state.days.values()
    assert days[0] == len(QUESTIONS) + 1 and days[1] and days[2]
    assert 0 < state.fresh < 200, "the reply that came while it learned is for the next trial"
    for question in (*QUESTIONS[:4], "Tell me a tale of a sheep."):
        plain = ask(taught, question, "none")
        assert ask(taught, question).token_ids == plain.token_ids


def test_it_is_there_at_the_next_start_and_the_published_one_is_a_click_away(
    taught: Runtime,
) -> None:
    learned = weights_in_use(taught)
    with pip(taught.data_dir) as again:
        assert torch.equal(weights_in_use(again), learned)
        (head,) = learned_heads(taught.data_dir)
        again.learning.use(head, learned=False)
        waited(lambda: not torch.equal(weights_in_use(again), learned))
        again.learning.use(head, learned=True)
        waited(lambda: torch.equal(weights_in_use(again), learned))


def test_another_process_switches_off_and_forgets_at_once(
    foretoken: Foretoken, tmp_path: Path
) -> None:
    """The command is not the app's: they know of each other by the files alone."""

    def command(*options: str) -> str:
        result = foretoken("learn", *options, "--data-dir", tmp_path)
        assert result.status == 0, result.err
        return result.out

    def stored() -> int:
        return sum(head.replies for head in learned_heads(tmp_path))

    with pip(tmp_path) as runtime:
        command("--on")
        for number in (1, 2):
            ask(runtime, QUESTIONS[number])
            waited(lambda number=number: stored() == number)  # type: ignore[misc]
        assert "Deleted 2 replies." in command("--forget")
        ask(runtime, QUESTIONS[3])
        waited(lambda: stored() == 1 and states(runtime))
        assert [days[0] for days in states(runtime)[0].days.values()] == [1]
        told = json.loads(command("--off", "--json").splitlines()[-1])
        assert not told["on"] and told["heads"][0]["days"][0]["replies"] == 1
        ask(runtime, QUESTIONS[4])
        runtime.learning._do(lambda: None)
        waited(runtime.learning._todo.empty)
        assert stored() == 1


def test_lessons_that_cannot_be_deleted_are_told(foretoken: Foretoken, tmp_path: Path) -> None:
    """The command ended with a traceback."""
    (tmp_path / "learned").write_text("no folder")
    result = foretoken("learn", "--forget", "--data-dir", tmp_path)
    assert result.status == 2
    assert "learned could be deleted: Not a directory" in result.err


def test_a_later_reply_is_a_lesson_after_learning_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of a kind that nobody expected ended the thread, and with it all learning."""

    def fail(*_: object) -> None:
        failed.append(True)
        raise RuntimeError("Expected a 'cuda' device type for generator")

    failed: list[bool] = []
    monkeypatch.setattr(learning, "_others", lambda slices, subject: slices(fail))
    for name, value in {"IDLE_S": 0.05, "FRESH": 1, "FEWEST": 1}.items():
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(module, "_lower_priority", lambda: threads.use(1))
    with pip(tmp_path) as runtime:
        runtime.learning.on = True
        ask(runtime, QUESTIONS[0])
        waited(lambda: failed and states(runtime)[0].fresh == 0, 60)
        runtime.learning._do(fail)
        ask(runtime, QUESTIONS[1])
        waited(lambda: learned_heads(tmp_path)[0].replies == 2, 60)


def test_a_lesson_is_all_that_the_target_wrote_and_nothing_else(tmp_path: Path) -> None:
    """A continued reply was stored without its beginning, and a drafted end with a token behind it. An
    image is not among the tokens, so what was written about one is no lesson."""
    with pip(tmp_path) as runtime:
        loaded = runtime.engine.loaded
        whole = ask(runtime, QUESTIONS[1])
        runtime.learning.on = True
        seen = Request(messages=(Message("user", "What is it?", images=(Image(b""),)),))
        generation = Generation(seen, lambda generation: None)
        runtime.learning.follow(generation, loaded)
        generation.publish(Started("pip", "eagle3", "greedy", (5, 6)))
        generation.publish(Finished(FinishReason.STOP, "", "A dog.", (7, 8)))
        assert whole.token_ids and whole.reason is FinishReason.STOP
        for begun in (0, 5):
            ask(runtime, QUESTIONS[1], reply_prefix=whole.token_ids[:begun])
        waited(lambda: learned_heads(tmp_path) and learned_heads(tmp_path)[0].replies == 2, 60)
        lessons = learned_heads(tmp_path)[0].lessons(1024)
    assert lessons == [Lesson((*whole.prompt, *whole.token_ids), len(whole.prompt))] * 2


@pytest.mark.parametrize("error", [PermissionError, FileNotFoundError])
def test_only_who_forgets_deletes_lessons(
    error: type[OSError], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system that did not answer for a moment once cost everything that heads had learned."""

    def learn(*_: object) -> None:
        monkeypatch.setattr(Path, "stat", stat)
        raise OSError("The disk does not answer.")

    def stat(path: Path, **options: Any) -> os.stat_result:
        if path.name == module._GENERATION:
            raise error
        return os.stat(path, **options)

    unused: Any = None
    idle = module.IdleLearning(unused, tmp_path, PreferencesFile(tmp_path), lambda: False)
    place = LearnedHead(idle.root / "target" / "head")
    place.add([1, 2, 3], 1)
    idle._generation = module.new_generation(idle.root)
    subject: Any = SimpleNamespace(place=place, info=SimpleNamespace(context=64))
    idle._subject = unused, subject
    monkeypatch.setattr(learning, "learn", learn)
    idle._learn()
    assert place.replies == (0 if error is FileNotFoundError else 1)


def test_forgetting_deletes_all_of_it(taught: Runtime) -> None:
    learned = weights_in_use(taught)
    taught.learning.forget()
    assert not taught.learning.root.exists()
    waited(lambda: not torch.equal(weights_in_use(taught), learned))


def test_lessons_are_bounded_and_the_oldest_go_first(tmp_path: Path) -> None:
    place = LearnedHead(tmp_path)
    for number in range(200):
        place.add([number] * 700, 600, most=20_000)
    files = sum(file.stat().st_size for file in tmp_path.glob("*.jsonl"))
    assert 10_000 < files < 24_000
    lessons = place.lessons(1024)
    assert [lesson.tokens[0] for lesson in lessons] == list(range(200 - len(lessons), 200))
    assert all((len(lesson.tokens), lesson.start) == (612, 512) for lesson in lessons)
    place = LearnedHead(tmp_path / "long")
    place.add(range(9000), 40)
    assert [lesson.tokens for lesson in place.lessons(9000)] == [tuple(range(LONGEST))]


def test_the_newest_replies_are_learned_from_and_no_more_are_written_than_have_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A second reply was written to each of thousands of prompts, which left the user's no room."""
    written, recorded = list[int](), list[Any]()

    def again(_slices: Any, _subject: Any, lesson: Lesson, seed: int) -> Lesson:
        written.append(seed)
        return replace(lesson, start=1)

    monkeypatch.setattr(learning, "_again", again)
    monkeypatch.setattr(learning, "_states", lambda *_: torch.zeros(1, 4, 4))
    monkeypatch.setattr(learning, "_STATE_BYTES", 7 * 32)
    users, general = ([Lesson((at + each,), 0) for each in range(100)] for at in (0, 1000))
    nothing: Any = None
    recording: Any = SimpleNamespace(add=recorded.extend)
    learning._compute(nothing, recording, learning._studied(nothing, nothing, users, general))
    found = [(reply.tokens[0], reply.start) for reply, _ in recorded]
    assert found == [(1000, 0), (99, 0), (99, 1), (1001, 0), (98, 0), (98, 1), (1002, 0)]
    assert written == [99, 98]


def test_a_lesson_longer_than_the_context_is_cut(tmp_path: Path, library: Library) -> None:
    """A pair that is loaded with a shorter context keeps its lessons: the step read past its tables of
    positions, and heads learned from garbage."""
    place = LearnedHead(tmp_path)
    place.add(range(10, 174), 40)
    (lesson,) = place.lessons(64)
    assert lesson == Lesson(tuple(range(18, 82)), 32)
    found = []
    for context in (64, 1024):
        model = load_model(PIP / "target", quantization="fp32", context=context)
        pair: Any = SimpleNamespace(session=SimpleNamespace(target=SimpleNamespace(model=model)))
        slices: Any = partial(lambda pair, work: work(pair), pair)
        recording = Recording(tmp_path / str(context), with_normed(()))
        found.append(learning._states(slices, recording, lesson.tokens))
        assert len(learning._written(slices, [9] * (context - 4), model.info, 1)) <= 4
        with pytest.raises(ValueError, match=f"{context + 1} rows"):
            model.new_state(context + 1)
    assert torch.equal(*found)


@pytest.mark.parametrize("kind", ["eagle3", "medusa", "lstm", "mlp"])
def test_a_shipped_head_is_continued_as_it_was_published(kind: str, tmp_path: Path) -> None:
    from engine.models.checkpoints.checkpoint import inspect

    model = load_model(PIP / "target")
    plan = heads.inspect(PIP / kind, inspect(PIP / "target"))
    view = TargetView(model, torch.device("cpu"), 0.1)  # type: ignore[arg-type]
    continued(kinds.trainer(kind), plan.stored, view).export(tmp_path / kind)
    again = heads.inspect(tmp_path / kind, inspect(PIP / "target"))
    assert dict(again.stored.shapes) == dict(plan.stored.shapes)
    for name in plan.stored.shapes:
        assert torch.equal(again.stored(name), plan.stored(name)), name
