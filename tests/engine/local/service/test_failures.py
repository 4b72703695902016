"""Failures that stay where they happened, and the service's end."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from engine.errors import ContextExceeded, InvalidRequest, NotLoaded
from engine.events import Failed, FinishReason
from engine.local.service import EngineService
from engine.request import Request, Speculation
from tests.engine.local.service.conftest import PATIENCE, Gate, asked, finished


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (asked("a" * 2000), ContextExceeded),
        (Request(prompt="a", speculation=Speculation(proposer="oracle")), InvalidRequest),
    ],
)
def test_a_request_that_cannot_run_is_refused_at_once(
    service: EngineService, gate: Gate, request_: Request, error: type[Exception]
) -> None:
    service.submit(asked())
    with pytest.raises(error):
        service.submit(request_)


@pytest.mark.parametrize("method", ["verify", "commit", "extend"])
def test_an_exception_inside_becomes_a_message_and_the_thread_goes_on(
    service: EngineService, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    expected = finished(service.submit(asked("Another text"))).token_ids
    assert service._session is not None
    target: Any = service._session.target
    original = getattr(target, method)
    setattr(target, method, lambda *_: 1 / 0)
    events = list(service.submit(asked()))
    setattr(target, method, original)
    assert isinstance(failed := events[-1], Failed)
    assert "ZeroDivisionError" in failed.message and "try again" in failed.message
    assert "ZeroDivisionError" in caplog.text
    assert finished(service.submit(asked("Another text"))).token_ids == expected


def test_closing_cancels_what_runs_and_waits_and_refuses_what_comes(
    service: EngineService, gate: Gate, pair: tuple[Path, Path]
) -> None:
    running, waiting = service.submit(asked(max_tokens=400)), service.submit(asked())
    gate.reached.wait(PATIENCE)
    with ThreadPoolExecutor(1) as pool:
        closing = pool.submit(service.close)
        assert finished(waiting).reason is FinishReason.CANCELLED
        gate.let(1)
        assert finished(running).reason is FinishReason.CANCELLED
        closing.result(PATIENCE)
    for attempt in (lambda: service.submit(asked()), lambda: service.load(*pair, name="Late")):
        with pytest.raises(NotLoaded, match="shut down"):
            attempt()
    service.close()
