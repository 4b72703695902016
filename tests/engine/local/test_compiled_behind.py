"""A model that runs interpreted until the compiled step is built, and compiled from then on."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.backends.native import build
from engine.events import Finished
from engine.kernels.native.library import Library
from engine.loading.loader import load_planned
from engine.loading.planning.model_plan import ModelPlan
from engine.loading.progress import LoadWatch, Stage
from engine.local.engine import LocalEngine
from engine.machine import compilers
from engine.models.base import Model
from engine.request import Request, Speculation
from tests.support.checkpoints import write_random
from tests.support.families import write_family
from tests.support.gguf_files import all_in, write_gguf
from tests.support.loading import request_for
from tests.support.places import PIP


class Machine:
    """Where the step is not built yet; ``finish`` is the end of the build."""

    def __init__(self) -> None:
        self.library: Library | None = None
        self.waiting: list[Callable[[], None]] = []

    def finish(self, library: Library) -> None:
        self.library = library
        while self.waiting:
            self.waiting.pop()()


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    monkeypatch.setattr(build, "ready", lambda *_: made.library)
    monkeypatch.setattr(build, "built", lambda: made.library and made.library.path)
    monkeypatch.setattr(build, "build_in_background", made.waiting.append)
    return made


@pytest.fixture
def engine(machine: Machine) -> Iterator[LocalEngine]:
    with closing(LocalEngine()) as made:
        made.load(request_for(PIP / "target", PIP / "draft", quantization="fp32"))
        yield made


def answer(engine: LocalEngine, proposer: str = "draft") -> str:
    request = Request(
        prompt="Once upon a time", max_tokens=16, speculation=Speculation(proposer=proposer)
    )
    *_, last = engine.generate(request)
    assert isinstance(last, Finished)
    return last.text


def compiled(engine: LocalEngine) -> bool:
    assert engine.loaded is not None
    return engine.loaded.compiled


def model_of(engine: LocalEngine) -> weakref.ref[Model]:
    """Dead as soon as nobody holds on to the loaded target any more."""
    return engine.measure(weakref.ref)


def test_the_compiled_step_takes_over_when_it_is_built(
    engine: LocalEngine, machine: Machine, library: Library
) -> None:
    assert not compiled(engine)
    before = answer(engine)
    machine.finish(library)
    assert compiled(engine)
    assert answer(engine) == before


@pytest.mark.parametrize(("asked", "held"), [("auto", "stored"), ("q4", "q4")])
def test_weights_in_blocks_wait_for_the_build(
    asked: str,
    held: str,
    machine: Machine,
    library: Library,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """A GGUF file's became int8, and stayed so; q4 was refused: torch multiplies no blocks."""
    folder = tmp_path / "plain"
    write_random(folder, hidden_size=64, head_dim=16, intermediate_size=96)
    target = folder
    if held == "stored":
        target = write_gguf(folder, tmp_path / "blocks.gguf", all_in("Q8_0"))
    seen: list[Stage] = []

    def built() -> Path:
        machine.library = library
        return tmp_path

    monkeypatch.setattr(build, "build", built)
    watcher = SimpleNamespace(
        cancelled=False, on_loading=lambda progress: seen.append(progress.stage)
    )
    watcher.on_progress = watcher.on_loading
    with closing(LocalEngine()) as engine:
        loaded = engine.load(request_for(target, quantization=asked), watcher)
    assert (loaded.quantization, loaded.compiled) == (held, True)
    assert seen[0] is Stage.COMPILING and not machine.waiting


def test_blocks_of_a_gguf_file_are_loaded_where_nothing_can_be_built(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refused() -> Path:
        raise compilers.BuildError("No C++ compiler was found.")

    write_random(tmp_path / "plain", hidden_size=64, head_dim=16, intermediate_size=96)
    file = write_gguf(tmp_path / "plain", tmp_path / "blocks.gguf", all_in("Q8_0"))
    monkeypatch.setattr(build, "build", refused)
    with closing(LocalEngine()) as engine:
        loaded = engine.load(request_for(file))
    assert (loaded.quantization, loaded.compiled) == ("int8", False)


def test_what_auto_chose_before_the_build_stays_behind_it(
    engine: LocalEngine, machine: Machine, library: Library
) -> None:
    """A race that spanned the change once compared fp32 with bf16: ``auto`` was resolved again."""
    before = engine.load(request_for(PIP / "target"))
    machine.finish(library)
    assert compiled(engine)
    assert engine.loaded is not None and engine.loaded.quantization == before.quantization
    assert engine.loaded.request == before.request


def test_heads_come_along_and_the_words_stay(
    engine: LocalEngine, machine: Machine, library: Library
) -> None:
    engine.load(request_for(PIP / "target", heads=[PIP / "medusa"], quantization="fp32"))
    before = answer(engine, "medusa")
    machine.finish(library)
    assert compiled(engine)
    assert engine.loaded is not None and engine.loaded.heads == ("medusa",)
    assert answer(engine, "medusa") == before == answer(engine, "none")


def test_it_is_not_built_again_once_it_runs(
    engine: LocalEngine, machine: Machine, library: Library
) -> None:
    machine.finish(library)
    engine.load(request_for(PIP / "target", quantization="fp32"))
    assert compiled(engine)
    assert machine.waiting == []


def test_the_model_that_was_exchanged_is_gone_while_the_engine_idles(
    engine: LocalEngine, machine: Machine, library: Library
) -> None:
    """The thread that waited for work held on to the call that had exchanged it."""
    answer(engine)
    before = model_of(engine)
    machine.finish(library)
    assert compiled(engine) and before() is None


def test_a_model_is_gone_once_it_is_unloaded_though_the_build_goes_on(
    engine: LocalEngine, machine: Machine
) -> None:
    answer(engine)
    first = model_of(engine)
    engine.load(request_for(PIP / "draft", quantization="fp32"))
    second = model_of(engine)
    assert first() is None and second() is not None
    engine.unload()
    assert second() is None and len(machine.waiting) == 2


@pytest.mark.parametrize("taken", [0.6, -0.6], ids=["less is free", "more is free"])
def test_the_context_stays_or_the_model_does(
    machine: Machine, library: Library, monkeypatch: pytest.MonkeyPatch, taken: float
) -> None:
    """Planned anew, the context once shrank to what was free beside the first copy."""
    free = 10**12
    monkeypatch.setattr("engine.machine.memory.free_bytes", lambda: free)
    with closing(LocalEngine()) as made:
        request = request_for(PIP / "target", quantization="fp32")
        made.load(request)
        assert made._pair is not None
        room = made._pair.plan.memory_fit
        free = room.needed - room.kv // 3
        before = made.load(request)
        assert 512 < before.context < made._pair.plan.context_limit
        free -= int(taken * room.kv // 3)
        machine.finish(library)
        assert made.loaded is not None and made.loaded.compiled == (taken < 0)
        assert (made.loaded.context, made.loaded.notes) == (before.context, before.notes)


def test_a_model_that_the_step_cannot_run_waits_for_no_build(
    machine: Machine, tmp_path: Path
) -> None:
    write_family(tmp_path, "qwen2")  # heads of 8
    with closing(LocalEngine()) as made:
        made.load(request_for(tmp_path, quantization="fp32"))
    assert machine.waiting == []


def test_a_processor_without_the_format_keeps_what_is_loaded(
    engine: LocalEngine, machine: Machine
) -> None:
    before = engine.loaded
    machine.finish(SimpleNamespace(kinds={}))  # type: ignore[arg-type]
    assert engine.loaded is before


def test_another_pair_that_was_loaded_meanwhile_stays(
    engine: LocalEngine, machine: Machine, library: Library
) -> None:
    first = machine.waiting.pop()
    engine.load(request_for(PIP / "draft", quantization="fp32"))
    machine.library = library
    first()
    assert engine.loaded is not None and engine.loaded.name == "draft"


def test_an_engine_that_was_closed_meanwhile_is_left_alone(
    engine: LocalEngine, machine: Machine, library: Library
) -> None:
    engine.close()
    machine.finish(library)


def test_a_build_that_ends_while_a_pair_loads_is_used_soon_after(
    engine: LocalEngine, machine: Machine, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it runs as it was planned, and is exchanged as a whole."""

    def load(plan: ModelPlan, watch: LoadWatch) -> Model:
        machine.library = library
        return load_planned(plan, watch)

    machine.waiting.clear()
    monkeypatch.setattr("engine.local.pair.load_planned", load)
    engine.load(request_for(PIP / "target", PIP / "draft", quantization="fp32"))
    assert not compiled(engine) and len(machine.waiting) == 1
    machine.finish(library)
    assert compiled(engine)
