"""The engines behind the door, each with what a test needs to hold it still and to make it fail.

This machine's, the fake that stands in for it, the fake as an engine elsewhere that tells text alone, and
the engine elsewhere against a Foretoken that serves the fake.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.api import Capabilities, Engine, Generation
from engine.events import Emitted, Event, Failed, Finished, Queued
from engine.local.engine import LocalEngine
from engine.request import PLAIN, OptionValue, Request, Speculation
from tests.support.fake_engine import CAPABILITIES, FakeEngine, Script
from tests.support.loading import request_for
from tests.support.remote import Far, ServedEngine, far_away

PATIENCE = 60.0
LENGTH = 12


def long(request: Request) -> Script:
    return Script([f" word{number}" for number in range(request.max_tokens or LENGTH)])


ENGINES: dict[str, Callable[..., Any]] = {
    "fake": lambda: FakeEngine(long),
    "text": lambda: FakeEngine(
        long, capabilities=replace(CAPABILITIES, rounds=False, probabilities=False, tokens=False)
    ),
    "local": LocalEngine,
    "served": ServedEngine,
}


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Far]:
    with far_away(tmp_path_factory.mktemp("far"), long) as found:
        yield found


@pytest.fixture(params=ENGINES)
def unloaded(request: pytest.FixtureRequest) -> Iterator[Engine]:
    given = [request.getfixturevalue("far")] if request.param == "served" else []
    with closing(ENGINES[request.param](*given)) as made:
        yield made


@pytest.fixture
def engine(unloaded: Engine, pair: tuple[Path, Path]) -> Engine:
    unloaded.load(request_for(*pair))
    return unloaded


def tells(engine: Engine) -> Capabilities:
    assert engine.loaded is not None
    return engine.loaded.capabilities


def asked(
    proposer: str = PLAIN, options: dict[str, OptionValue] | None = None, tokens: int = LENGTH
) -> Request:
    return Request(
        prompt="Once upon a time",
        max_tokens=tokens,
        ignore_eos=True,
        speculation=Speculation(proposer=proposer, options=options or {}),
    )


class Heard:
    """A listener. With ``holds`` it keeps the engine behind the first text until ``go_on`` is set."""

    def __init__(self, *, holds: bool = False) -> None:
        self.holds = holds
        self.events: list[Event] = []
        self.emitted, self.ended, self.go_on = (threading.Event() for _ in range(3))
        if not holds:
            self.go_on.set()

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, Emitted):
            self.emitted.set()
            assert not self.holds or self.go_on.wait(PATIENCE)
        if isinstance(event, Finished | Failed):
            self.ended.set()


@contextmanager
def hold_local(engine: LocalEngine) -> Iterator[None]:
    gate = threading.Event()
    before = threading.Thread(target=engine.measure, args=(lambda _: gate.wait(PATIENCE),))
    before.start()
    while not engine.busy:
        time.sleep(0.001)
    yield
    gate.set()
    before.join(PATIENCE)


@contextmanager
def hold_fake(engine: FakeEngine) -> Iterator[None]:
    gate, script = threading.Event(), engine.script

    def waiting(request: Request) -> Script:
        assert gate.wait(PATIENCE)
        return script(request)

    engine.script = waiting
    yield
    gate.set()
    engine.script = script


@contextmanager
def hold_served(engine: ServedEngine) -> Iterator[threading.Event]:
    """There it stands still until the listener here goes on."""
    engine.far.go_on = threading.Event()
    yield engine.far.go_on


HOLDS: dict[type, Callable[[Any], AbstractContextManager[threading.Event | None]]] = {
    FakeEngine: hold_fake,
    LocalEngine: hold_local,
    ServedEngine: hold_served,
}
"""How to keep each engine from emitting anything. An engine that joins brings its own; what it gives is
set together with the listener's ``go_on``."""


def held(engine: Engine, tokens: int = 400) -> tuple[Generation, Heard]:
    """A long reply that stands still behind its first text, in the engine's thread."""
    with HOLDS[type(engine)](engine) as gate:
        generation, heard = engine.generate(asked(tokens=tokens)), Heard(holds=gate is None)
        heard.go_on = gate or heard.go_on  # with a gate, the far engine stands still by itself
        generation.listen(heard)
    assert heard.emitted.wait(PATIENCE)
    return generation, heard


@contextmanager
def fail_local(engine: LocalEngine) -> Iterator[None]:
    assert engine._pair is not None
    target: Any = engine._pair.session.target
    verify = target.verify
    target.verify = lambda *_: 1 / 0
    yield
    target.verify = verify


@contextmanager
def fail_fake(engine: FakeEngine) -> Iterator[None]:
    script = engine.script
    engine.script = lambda request: Script([], failure="The fake was told to fail.")
    yield
    engine.script = script


FAILS: dict[type, Callable[[Any], AbstractContextManager[None]]] = {
    FakeEngine: fail_fake,
    LocalEngine: fail_local,
    ServedEngine: lambda engine: fail_fake(engine.far),
}
"""How to make each engine's replies fail."""


def queued_as(generation: Generation, ahead: int) -> None:
    """Waits until it was told so: over the network that takes a moment."""
    told = threading.Event()
    generation.listen(lambda event: told.set() if event == Queued(ahead) else None)
    assert told.wait(PATIENCE)


def finish(generation: Generation) -> Finished:
    *_, last = generation
    assert isinstance(last, Finished)
    return last
