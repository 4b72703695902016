"""Failures that stay where they happened, and the engine's end."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.decoding.text.codec import TextCodec
from engine.errors import ContextExceeded, InvalidRequest, NotLoaded
from engine.events import Failed, FinishReason
from engine.local.engine import LocalEngine
from engine.request import Request, Speculation
from engine.values.messages import Message
from engine.values.sampling import AcceptanceRule, Sampling
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
    assert "ZeroDivisionError" in failed.message and "Try again" in failed.message
    assert "ZeroDivisionError" in caplog.text
    assert finished(engine.generate(asked("Another text"))).token_ids == expected


def no_numbers(verify: Any) -> Any:
    """One logit of each row is enough."""

    def failing(*given: Any) -> Any:
        logits = verify(*given).clone()
        logits[:, 7] = float("nan")
        return logits

    return failing


def no_memory(verify: Any) -> Any:
    def failing(*given: Any) -> Any:
        raise MemoryError

    return failing


@pytest.mark.parametrize(
    ("fault", "told"), [(no_numbers, "logits contain NaN"), (no_memory, "ran out")]
)
def test_a_fault_of_one_request_says_why_and_is_none_of_the_next(
    engine: LocalEngine, fault: Any, told: str
) -> None:
    """NaN once became words."""
    target: Any = engine._pair.session.target
    original = target.verify
    for rule in AcceptanceRule:
        temperature = 0.0 if rule is AcceptanceRule.GREEDY else 1.0
        request = replace(
            asked(),
            sampling=Sampling(temperature=temperature, seed=1),
            speculation=Speculation(proposer="draft", depth=2, acceptance=rule),
        )
        expected = finished(engine.generate(request)).token_ids
        target.verify = fault(original)
        events = list(engine.generate(request))
        target.verify = original
        assert isinstance(failed := events[-1], Failed), rule
        assert told in failed.message
        assert finished(engine.generate(request)).token_ids == expected, rule


def test_a_tokenizer_that_fails_fails_one_request(
    engine: LocalEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    expected = finished(engine.generate(asked())).token_ids
    with monkeypatch.context() as patch:
        patch.setattr(TextCodec, "encode", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            engine.generate(asked("What was not asked before"))
    with monkeypatch.context() as patch:
        patch.setattr(TextCodec, "decode", lambda *_: 1 / 0)
        *_, failed = engine.generate(asked())
    assert isinstance(failed, Failed)
    assert "ZeroDivisionError" in failed.message
    assert finished(engine.generate(asked())).token_ids == expected


def test_a_prompt_that_is_far_too_long_is_not_encoded_whole(
    engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of ten megabytes held up everybody for 8 seconds, and took 4 GB for good."""
    longest = 0
    encode = TextCodec.encode

    def observed(codec: TextCodec, text: str, *, special: bool) -> list[int]:
        nonlocal longest
        longest = max(longest, len(text))
        return encode(codec, text, special=special)

    monkeypatch.setattr(TextCodec, "encode", observed)
    for request in (
        Request(prompt="far too long " * 800_000),
        Request(messages=(Message("user", "far too long " * 800_000),)),
    ):
        with pytest.raises(ContextExceeded, match="more than twice"):
            engine.generate(request)
    assert 0 < longest < 100_000


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
