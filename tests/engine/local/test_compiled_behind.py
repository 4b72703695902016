"""A model that runs interpreted until the compiled step is built, and compiled from then on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from engine.events import Finished
from engine.kernels.native import library as native
from engine.kernels.native.library import Library
from engine.local.service import EngineService
from engine.request import Request, Speculation
from tests.support.heads import fit_medusa
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
    monkeypatch.setattr(native, "ready", lambda: made.library)
    monkeypatch.setattr(native, "build_behind", made.waiting.append)
    return made


@pytest.fixture
def service(machine: Machine) -> Iterator[EngineService]:
    with closing(EngineService()) as made:
        made.load(PIP / "target", PIP / "draft", name="Pip", dtype="fp32")
        yield made


def answer(service: EngineService, proposer: str = "draft") -> str:
    request = Request(
        prompt="Once upon a time", max_tokens=40, speculation=Speculation(proposer=proposer)
    )
    *_, last = service.submit(request)
    assert isinstance(last, Finished)
    return last.text


def compiled(service: EngineService) -> bool:
    assert service.loaded is not None
    return service.loaded.compiled


def test_the_compiled_step_takes_over_when_it_is_built(
    service: EngineService, machine: Machine, library: Library
) -> None:
    assert not compiled(service)
    before = answer(service)
    machine.finish(library)
    assert compiled(service)
    assert answer(service) == before


def test_what_auto_chose_before_the_build_stays_behind_it(
    service: EngineService, machine: Machine, library: Library
) -> None:
    """A race that spanned the change once compared fp32 with bf16: ``auto`` was resolved again."""
    before = service.load(PIP / "target", None, name="Pip", dtype="auto")
    machine.finish(library)
    assert compiled(service)
    assert service.loaded is not None and service.loaded.dtype == before.dtype


def test_heads_come_along_and_the_words_stay(
    service: EngineService, machine: Machine, library: Library, tmp_path: Path
) -> None:
    head = fit_medusa(tmp_path / "medusa", PIP / "target", tokens=200)
    service.load(PIP / "target", None, name="Pip", dtype="fp32", heads=[head])
    before = answer(service, "medusa")
    machine.finish(library)
    assert compiled(service)
    assert service.loaded is not None and service.loaded.heads == ("medusa",)
    assert answer(service, "medusa") == before == answer(service, "none")


def test_it_is_not_built_again_once_it_runs(
    service: EngineService, machine: Machine, library: Library
) -> None:
    machine.finish(library)
    service.load(PIP / "target", None, name="Alone", dtype="fp32")
    assert compiled(service)
    assert machine.waiting == []


def test_another_pair_that_was_loaded_meanwhile_stays(
    service: EngineService, machine: Machine, library: Library
) -> None:
    first = machine.waiting.pop()
    service.load(PIP / "draft", None, name="Small", dtype="fp32")
    machine.library = library
    first()
    assert service.loaded is not None and service.loaded.name == "Small"


def test_a_service_that_was_closed_meanwhile_is_left_alone(
    service: EngineService, machine: Machine, library: Library
) -> None:
    service.close()
    machine.finish(library)
