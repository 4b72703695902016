"""Requests that run at once on the engine's thread: their words, and who waits for whom."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from engine.api import Generation
from engine.decoding.target import Target
from engine.errors import NotLoaded
from engine.events import Emitted, Event, Failed, Finished, FinishReason, Queued, Started
from engine.local.engine import LocalEngine
from engine.local.slots import Slots
from engine.request import Request, Speculation
from engine.values.sampling import Sampling
from tests.engine.local.engine.conftest import PATIENCE, counts, finished
from tests.support.engines import hold_local
from tests.support.loading import request_for
from tests.support.lossless import PROMPTS
from tests.support.places import PIP

pytestmark = pytest.mark.usefixtures("library")
ROOM = 3


@pytest.fixture(scope="module")
def engine() -> Iterator[LocalEngine]:
    made = LocalEngine()
    made.load(request_for(PIP / "target", PIP / "draft", parallel=ROOM))
    yield made
    made.close()


def asked(prompt: str, tokens: int = 24, **others: object) -> Request:
    given: dict[str, Any] = {
        "sampling": Sampling(temperature=0.8, seed=4),
        "speculation": Speculation(proposer="draft"),
        **others,
    }
    return Request(prompt=prompt, max_tokens=tokens, ignore_eos=True, **given)


class Held:
    """A listener that keeps the engine's thread behind the first text until it is let go."""

    def __init__(self, generation: Generation) -> None:
        self.generation = generation
        self.reached, self.go_on = threading.Event(), threading.Event()
        generation.listen(self.hear)

    def hear(self, event: Event) -> None:
        if isinstance(event, Emitted):
            self.reached.set()
            assert self.go_on.wait(PATIENCE)


def hold(engine: LocalEngine, request: Request) -> Held:
    """Ask, and listen before the first text: an earlier one would be heard in this thread."""
    with hold_local(engine):
        return Held(engine.generate(request))


def test_clients_that_come_and_go_hear_what_they_would_alone(engine: LocalEngine) -> None:
    chance = random.Random(3)
    requests = [asked(chance.choice(PROMPTS), chance.choice((4, 24, 48))) for _ in range(16)]
    leaving = [chance.random() < 0.3 for _ in requests]

    def ask(number: int) -> Finished:
        generation = engine.generate(requests[number])
        for event in generation:
            if leaving[number] and isinstance(event, Emitted):
                generation.cancel()
        assert isinstance(event, Finished)
        return event

    with ThreadPoolExecutor(6) as pool:
        crowd = list(pool.map(ask, range(len(requests))))
    for number, found in enumerate(crowd):
        expected = finished(engine.generate(requests[number]))
        assert found.token_ids is not None and expected.token_ids is not None
        if found.reason is FinishReason.CANCELLED:
            assert expected.token_ids[: len(found.token_ids)] == found.token_ids
        else:
            assert (found.text, found.token_ids) == (expected.text, expected.token_ids)
    assert not engine.busy


def test_as_many_run_as_there_is_room_for_and_the_others_are_told(engine: LocalEngine) -> None:
    assert engine.loaded is not None and engine.loaded.capabilities.parallel == ROOM
    held = hold(engine, asked("Once", 60))
    assert held.reached.wait(PATIENCE)
    later = [engine.generate(asked(f"Then {number}", 60)) for number in range(ROOM + 1)]
    held.go_on.set()
    told = [list(generation) for generation in later]
    # The first ones found room; the others waited for one, then two of those that run.
    assert [max(counts(events), default=0) for events in told] == [0, 0, 1, 2]
    starts = [next(i for i, e in enumerate(events) if isinstance(e, Started)) for events in told]
    assert all(
        isinstance(event, Queued)
        for events, start in zip(told, starts, strict=True)
        for event in events[:start]
    )
    assert all(isinstance(events[-1], Finished) for events in told)


@pytest.mark.parametrize(
    ("kind", "method"),
    [(Target, "verify_entry"), (Slots, "copy_into")],
    ids=["verifying", "copying"],
)
def test_who_runs_out_of_memory_in_a_shared_pass_is_told_so_and_nobody_else(
    engine: LocalEngine, kind: type, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What failed between the requests failed all of them, as a fault of the engine's."""
    good = [asked("Once upon a time", 40), asked("A cat said", 20)]
    expected = [finished(engine.generate(request)).text for request in good]
    large = asked("There is no memory for this. " * 30, 20)
    tokens = engine.tokens(large)[:-1]
    original, calls = getattr(kind, method), 0

    def runs_out(self: Any, *given: Any) -> Any:
        nonlocal calls
        if tokens == (given[1] if kind is Slots else self.keys[: len(tokens)]):
            calls += 1
            if calls > 1:  # the first asks by itself
                raise MemoryError
        return original(self, *given)

    monkeypatch.setattr(kind, method, runs_out)
    held = hold(engine, good[0])
    assert held.reached.wait(PATIENCE)
    others = [engine.generate(request) for request in (large, good[1])]
    held.go_on.set()
    *_, failed = others[0]
    assert calls > 1 and isinstance(failed, Failed) and "ran out" in failed.message
    assert [finished(held.generation).text, finished(others[1]).text] == expected
    monkeypatch.undo()
    assert finished(engine.generate(large)).reason is FinishReason.LENGTH


def test_what_is_measured_runs_alone(engine: LocalEngine) -> None:
    """Nothing beside a race, whoever asks before, meanwhile or after it."""
    running: set[int] = set()
    beside: dict[int, set[int]] = {}

    def watch(number: int, generation: Generation) -> None:
        def hear(event: Event) -> None:
            if isinstance(event, Started):
                running.add(number)
            if isinstance(event, Emitted):
                beside.setdefault(number, set()).update(running)
            if isinstance(event, Finished | Failed):
                running.discard(number)

        generation.listen(hear)

    held = hold(engine, asked("Before", 20))
    assert held.reached.wait(PATIENCE)
    generations = [
        engine.generate(asked(f"Number {number}", 20, exclusive=number in (2, 3)))
        for number in range(6)
    ]
    for number, generation in enumerate(generations):
        watch(number, generation)
    held.go_on.set()
    for generation in generations:
        finished(generation)
    assert beside[2] == {2} and beside[3] == {3}
    assert any(len(beside[number]) > 1 for number in (0, 1, 4, 5))


def test_loading_waits_until_all_that_run_have_ended(engine: LocalEngine) -> None:
    held = hold(engine, asked("Once", 40))
    assert held.reached.wait(PATIENCE)
    beside = engine.generate(asked("Twice", 40))
    ended: list[bool] = []
    with ThreadPoolExecutor(1) as pool:
        calling = pool.submit(
            engine.measure, lambda model: ended.extend([held.generation.ended, beside.ended])
        )
        while len(engine._scheduler._waiting) < 2:  # with the one beside
            time.sleep(0.001)
        late = engine.generate(asked("Late", 4))
        held.go_on.set()
        calling.result(PATIENCE)
    assert ended == [True, True]
    assert finished(late).reason is FinishReason.LENGTH


def test_closing_ends_all_of_them() -> None:
    engine = LocalEngine()
    engine.load(request_for(PIP / "target", parallel=ROOM))
    plain = Speculation(proposer="none", depth=0)
    with hold_local(engine):
        generations = [
            engine.generate(asked(f"Number {number}", 400, speculation=plain))
            for number in range(5)
        ]
        held = Held(generations[0])
    assert held.reached.wait(PATIENCE)
    with ThreadPoolExecutor(1) as pool:
        closing = pool.submit(engine.close)
        while not all(generation.cancelled for generation in generations):
            time.sleep(0.001)
        held.go_on.set()
        closing.result(PATIENCE)
    assert {finished(generation).reason for generation in generations} == {FinishReason.CANCELLED}
    with pytest.raises(NotLoaded):
        engine.generate(asked("Once"))
