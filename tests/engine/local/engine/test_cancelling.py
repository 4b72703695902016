"""Requests that are cancelled while they run, wait or read their prompt."""

from __future__ import annotations

import pytest

from engine.events import Emitted, Finished, FinishReason
from engine.local import slots
from engine.local.engine import LocalEngine
from tests.engine.local.engine.conftest import PATIENCE, Gate, asked, counts, finished


def test_a_running_reply_ends_within_one_round(engine: LocalEngine, gate: Gate) -> None:
    generation = engine.generate(asked(max_tokens=100))
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
    engine: LocalEngine, gate: Gate
) -> None:
    """It used to wait for the whole reply before it, only to end without a word."""
    running = engine.generate(asked())
    gate.reached.wait(PATIENCE)
    second, third, fourth = (engine.generate(asked()) for _ in range(3))
    second.cancel()
    events = list(second)  # the gate is still closed
    assert counts(events) == [1]
    assert events[-1] == Finished(FinishReason.CANCELLED, "", "", ())
    gate.open()
    assert counts(list(third)) == [2, 1]
    assert counts(list(fourth)) == [3, 2, 1]
    assert finished(running).reason is FinishReason.LENGTH


def test_a_long_prefill_is_left_at_its_next_part(
    engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "PREFILL_CHUNK", 32)
    gate = Gate(engine, "extend")
    generation = engine.generate(asked("abcdefgh" * 50))
    gate.let(2)
    gate.reached.wait(PATIENCE)
    generation.cancel()
    gate.let(1)
    assert finished(generation).reason is FinishReason.CANCELLED
    gate.open()
    assert engine._pair.session is not None
    assert len(engine._pair.session.target.keys) <= 3 * 32
    assert finished(engine.generate(asked())).reason is FinishReason.LENGTH


def test_cancelling_twice_or_after_the_end_changes_nothing(engine: LocalEngine) -> None:
    generation = engine.generate(asked())
    assert finished(generation).reason is FinishReason.LENGTH
    generation.cancel()
    generation.cancel()
    assert finished(engine.generate(asked())).reason is FinishReason.LENGTH
