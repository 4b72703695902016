"""Requests take turns, in the order they came."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.decoding.text.codec import TextCodec
from engine.errors import NotLoaded
from engine.events import Emitted, Finished, FinishReason, Prefilled, Queued, Started
from engine.local.engine import LocalEngine
from engine.request import Request
from tests.engine.local.engine.conftest import PATIENCE, Gate, asked, counts, finished
from tests.support.loading import request_for


def test_a_request_that_finds_nobody_starts_at_once(engine: LocalEngine) -> None:
    events = list(engine.generate(asked()))
    assert [type(event) for event in events[:2]] == [Started, Prefilled]
    assert all(isinstance(event, Emitted) for event in events[2:-1])
    assert isinstance(events[-1], Finished)


def test_whoever_reads_the_end_and_asks_again_is_not_queued(engine: LocalEngine) -> None:
    """The engine thread had not yet noticed that it was done, and counted itself as ahead."""
    for _ in range(25):
        events = list(engine.generate(asked(max_tokens=1)))
        assert isinstance(events[0], Started)
        assert not engine.busy


def test_waiting_requests_are_told_how_many_are_ahead_as_they_move_up(
    engine: LocalEngine, gate: Gate
) -> None:
    generations = [engine.generate(asked(seed=seed)) for seed in range(4)]
    assert engine.busy
    gate.open()
    told = [list(generation) for generation in generations]
    # The engine may take the first up before or after the others arrive.
    assert [counts(events)[-1:] for events in told] == [[], [1], [1], [1]]
    for place, events in enumerate(told):
        assert counts(events) == sorted(counts(events), reverse=True)
        assert max(counts(events), default=0) == place
        first = next(i for i, event in enumerate(events) if isinstance(event, Started))
        assert all(isinstance(event, Queued) for event in events[:first])


def test_requests_run_in_the_order_they_came(engine: LocalEngine, gate: Gate) -> None:
    order: list[int] = []
    generations = [engine.generate(asked()) for _ in range(5)]

    def read(number: int) -> None:
        for event in generations[number]:
            if isinstance(event, Prefilled):
                order.append(number)

    with ThreadPoolExecutor(5) as pool:
        done = [pool.submit(read, number) for number in range(5)]
        gate.open()
        for each in done:
            each.result(PATIENCE)
    assert order == list(range(5))


def test_idle_work_lets_requests_that_came_later_go_first_and_nobody_notices_it(
    engine: LocalEngine, gate: Gate
) -> None:
    order: list[str] = []
    first, begun, go_on = engine.generate(asked()), threading.Event(), threading.Event()
    assert gate.reached.wait(PATIENCE)

    def work(pair: object) -> None:
        order.append("idle")
        begun.set()
        go_on.wait(PATIENCE)

    with ThreadPoolExecutor(1) as pool:
        idle = pool.submit(engine.when_idle, work)
        while not engine._scheduler._quiet:
            time.sleep(0.001)
        later = engine.generate(asked(seed=2))
        later.listen(lambda event: order.append("later") if isinstance(event, Finished) else None)
        gate.open()
        assert finished(list(first)) and begun.wait(PATIENCE)
        assert order == ["later", "idle"]
        assert not engine.busy
        during = engine.generate(asked(seed=3))
        go_on.set()
        assert isinstance(next(iter(during)), Started)
        idle.result(PATIENCE)
    engine.close()
    with pytest.raises(NotLoaded):
        engine.when_idle(work)


def test_two_threads_that_submit_get_the_replies_they_would_get_alone(
    engine: LocalEngine,
) -> None:
    """Prompts are tokenised in the callers' threads while the engine's thread decodes."""
    prompts = [f"The little key {number} opened a door. " * (1 + number) for number in range(6)]
    alone = [finished(engine.generate(asked(prompt))).text for prompt in prompts]

    def read_all(numbers: list[int]) -> list[str]:
        return [finished(engine.generate(asked(prompts[number]))).text for number in numbers]

    with ThreadPoolExecutor(2) as pool:
        forward = pool.submit(read_all, [0, 1, 2, 3, 4, 5])
        backward = pool.submit(read_all, [5, 4, 3, 2, 1, 0])
        assert forward.result(PATIENCE) == alone
        assert backward.result(PATIENCE) == alone[::-1]


def count_encodings(monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """The requests that any codec turns into tokens from now on."""
    seen: list[Request] = []
    original = TextCodec.encode_request

    def encode(codec: TextCodec, request: Request, context: int | None = None) -> list[int]:
        seen.append(request)
        return original(codec, request, context)

    monkeypatch.setattr(TextCodec, "encode_request", encode)
    return seen


def test_a_prompt_is_tokenised_once(engine: LocalEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check on arrival and the session each did it: twice the time for a long prompt."""
    seen = count_encodings(monkeypatch)
    finished(engine.generate(asked()))
    assert len(seen) == 1


def test_a_prompt_is_tokenised_again_for_a_pair_that_came_between(
    engine: LocalEngine, gate: Gate, pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    running = engine.generate(asked())
    gate.reached.wait(PATIENCE)
    with ThreadPoolExecutor(1) as pool:
        loading = pool.submit(engine.load, request_for(*pair))
        while not engine._scheduler._waiting:
            time.sleep(0.001)
        seen = count_encodings(monkeypatch)
        late = engine.generate(asked("Late"))
        gate.open()
        loading.result(PATIENCE)
        assert finished(running).reason is finished(late).reason is FinishReason.LENGTH
    assert seen == [asked("Late"), asked("Late")]
