"""An engine with a random pair, and a gate that holds its thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.api import Generation
from engine.events import Event, Finished, Queued
from engine.local.engine import LocalEngine
from engine.request import Request, Speculation
from engine.values.sampling import Sampling
from tests.support.loading import request_for

PATIENCE = 60.0


@pytest.fixture
def engine(pair: tuple[Path, Path]) -> Iterator[LocalEngine]:
    made = LocalEngine()
    made.load(request_for(*pair))
    yield made
    made.close()


def asked(prompt: str = "Once upon a time", max_tokens: int = 12, seed: int = 1) -> Request:
    return Request(
        prompt=prompt,
        max_tokens=max_tokens,
        ignore_eos=True,
        sampling=Sampling(temperature=1.0, seed=seed),
        speculation=Speculation(proposer="draft", depth=2),
    )


class Gate:
    """Lets the engine thread into a method of the target so many times, and no further."""

    def __init__(self, engine: LocalEngine, method: str) -> None:
        assert engine._pair.session is not None
        self._target: Any = engine._pair.session.target
        self._method = method
        self._original: Callable[..., Any] = getattr(self._target, method)
        self._passes = threading.Semaphore(0)
        self.reached = threading.Event()
        setattr(self._target, method, self._enter)

    def _enter(self, *arguments: Any) -> Any:
        self.reached.set()
        assert self._passes.acquire(timeout=PATIENCE)
        return self._original(*arguments)

    def let(self, times: int) -> None:
        self._passes.release(times)

    def open(self) -> None:
        setattr(self._target, self._method, self._original)
        self.let(10_000)


@pytest.fixture
def gate(engine: LocalEngine) -> Iterator[Gate]:
    """Stands before the verification of every round."""
    made = Gate(engine, "verify")
    yield made
    made.open()


def finished(generation: Generation) -> Finished:
    last = list(generation)[-1]
    assert isinstance(last, Finished)
    return last


def counts(events: list[Event]) -> list[int]:
    return [event.ahead for event in events if isinstance(event, Queued)]
