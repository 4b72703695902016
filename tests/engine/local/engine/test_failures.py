"""Failures that stay where they happened, and the engine's end."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from engine.errors import ContextExceeded, InvalidRequest, NotLoaded
from engine.events import Failed, FinishReason
from engine.local.engine import LocalEngine
from engine.request import Request, Speculation
from tests.engine.local.engine.conftest import PATIENCE, Gate, asked, finished
from tests.support.loading import request_for


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (asked("a" * 2000), ContextExceeded),
        (Request(prompt="a", speculation=Speculation(proposer="oracle")), InvalidRequest),
    ],
)
def test_a_request_that_cannot_run_is_refused_at_once(
    engine: LocalEngine, gate: Gate, request_: Request, error: type[Exception]
) -> None:
    engine.generate(asked())
    with pytest.raises(error):
        engine.generate(request_)


@pytest.mark.parametrize("method", ["verify", "commit", "extend"])
def test_an_exception_inside_becomes_a_message_and_the_thread_goes_on(
    engine: LocalEngine, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    expected = finished(engine.generate(asked("Another text"))).token_ids
    assert engine._pair.session is not None
    target: Any = engine._pair.session.target
    original = getattr(target, method)
    setattr(target, method, lambda *_: 1 / 0)
    events = list(engine.generate(asked()))
    setattr(target, method, original)
    assert isinstance(failed := events[-1], Failed)
    assert "ZeroDivisionError" in failed.message and "try again" in failed.message
    assert "ZeroDivisionError" in caplog.text
    assert finished(engine.generate(asked("Another text"))).token_ids == expected


def test_closing_cancels_what_runs_and_waits_and_refuses_what_comes(
    engine: LocalEngine, gate: Gate, pair: tuple[Path, Path]
) -> None:
    running, waiting = engine.generate(asked(max_tokens=400)), engine.generate(asked())
    gate.reached.wait(PATIENCE)
    with ThreadPoolExecutor(1) as pool:
        closing = pool.submit(engine.close)
        assert finished(waiting).reason is FinishReason.CANCELLED
        gate.let(1)
        assert finished(running).reason is FinishReason.CANCELLED
        closing.result(PATIENCE)
    for attempt in (lambda: engine.generate(asked()), lambda: engine.load(request_for(*pair))):
        with pytest.raises(NotLoaded, match="shut down"):
            attempt()
    engine.close()
