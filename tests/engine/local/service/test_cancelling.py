"""Requests that are cancelled while they run, wait or read their prompt."""

from __future__ import annotations

import pytest

import engine.decoding.prefix
from engine.events import Emitted, Finished, FinishReason
from engine.local.service import EngineService
from tests.engine.local.service.conftest import PATIENCE, Gate, asked, counts, finished


def test_a_running_reply_ends_within_one_round(service: EngineService, gate: Gate) -> None:
    generation = service.submit(asked(max_tokens=100))
    events = iter(generation)
    gate.let(2)
    while not isinstance(next(events), Emitted):
        pass
    assert isinstance(next(events), Emitted)
    generation.cancel()
    gate.let(1)
    rest = list(events)
    assert len([event for event in rest if isinstance(event, Emitted)]) <= 1
    assert isinstance(last := rest[-1], Finished)
    assert last.reason is FinishReason.CANCELLED
    assert 0 < len(last.token_ids) < 100


def test_a_waiting_request_is_cancelled_at_once_and_those_behind_move_up(
    service: EngineService, gate: Gate
) -> None:
    """It used to wait for the whole reply before it, only to end without a word."""
    running = service.submit(asked())
    gate.reached.wait(PATIENCE)
    second, third, fourth = (service.submit(asked()) for _ in range(3))
    second.cancel()
    events = list(second)  # the gate is still closed
    assert counts(events) == [1]
    assert events[-1] == Finished(FinishReason.CANCELLED, "", "", ())
    gate.open()
    assert counts(list(third)) == [2, 1]
    assert counts(list(fourth)) == [3, 2, 1]
    assert finished(running).reason is FinishReason.LENGTH


def test_a_long_prefill_is_left_at_its_next_part(
    service: EngineService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine.decoding.prefix, "PREFILL_CHUNK", 32)
    gate = Gate(service, "extend")
    generation = service.submit(asked("abcdefgh" * 50))
    gate.let(2)
    gate.reached.wait(PATIENCE)
    generation.cancel()
    gate.let(1)
    assert finished(generation).reason is FinishReason.CANCELLED
    gate.open()
    assert service._session is not None
    assert len(service._session.target.tokens) <= 3 * 32
    assert finished(service.submit(asked())).reason is FinishReason.LENGTH


def test_cancelling_twice_or_after_the_end_changes_nothing(service: EngineService) -> None:
    generation = service.submit(asked())
    assert finished(generation).reason is FinishReason.LENGTH
    generation.cancel()
    generation.cancel()
    assert finished(service.submit(asked())).reason is FinishReason.LENGTH
