"""The engine thread: turns, cancelling, loading, and failures that stay where they happened."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import engine.prefix
from engine import proposers
from engine.checkpoint import fingerprint
from engine.errors import (
    ContextExceeded,
    IncompatiblePair,
    InvalidRequest,
    ModelError,
    NotLoaded,
    OutOfMemory,
)
from engine.events import (
    Emitted,
    Event,
    Failed,
    Finished,
    FinishReason,
    Prefilled,
    Queued,
    Started,
)
from engine.request import Request, Sampling, Speculation
from engine.service import EngineService, Generation
from engine.text import TextCodec

PATIENCE = 60.0


@pytest.fixture
def service(pair: tuple[Path, Path]) -> Iterator[EngineService]:
    made = EngineService()
    made.load(*pair, name="Random")
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

    def __init__(self, service: EngineService, method: str) -> None:
        assert service._session is not None
        self._target: Any = service._session.target
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
def gate(service: EngineService) -> Iterator[Gate]:
    """Stands before the verification of every round."""
    made = Gate(service, "verify")
    yield made
    made.open()


def finished(generation: Generation) -> Finished:
    last = list(generation)[-1]
    assert isinstance(last, Finished)
    return last


def counts(events: list[Event]) -> list[int]:
    return [event.ahead for event in events if isinstance(event, Queued)]


# -- loading


def test_without_a_pair_requests_are_refused() -> None:
    service = EngineService()
    with pytest.raises(NotLoaded, match="No model is loaded"):
        service.submit(asked())
    assert service.loaded is None
    service.close()


def test_what_is_loaded_is_described(
    service: EngineService, pair: tuple[Path, Path], pair_heads: tuple[Path, ...]
) -> None:
    loaded = service.loaded
    assert loaded is not None
    assert (loaded.name, loaded.target, loaded.draft) == ("Random", "target", "draft")
    assert (loaded.context, loaded.vocabulary, loaded.dtype) == (512, 320, "fp32")
    assert loaded.proposers == ("none", "draft", "ngram", "suffix")
    assert loaded.parameters > 0
    whole = service.load(*pair, name="All", heads=pair_heads)
    assert whole.proposers == proposers.names()
    assert whole.heads == tuple(folder.name for folder in pair_heads)
    alone = service.load(pair[0], None, name="Alone")
    assert (alone.draft, alone.proposers) == (None, ("none", "ngram", "suffix"))
    assert service.loaded == alone


def test_a_load_that_fails_keeps_the_pair_that_was_there(
    service: EngineService, pair: tuple[Path, Path], tmp_path: Path
) -> None:
    before = service.loaded
    expected = finished(service.submit(asked())).token_ids
    truncated = tmp_path / "truncated"
    truncated.mkdir()
    for file in pair[0].iterdir():
        (truncated / file.name).write_bytes(
            file.read_bytes()[: 4000 if "model." in file.name else None]
        )
    for folder in (tmp_path / "missing", tmp_path, truncated):
        with pytest.raises(ModelError):
            service.load(folder, None, name="Broken")
    with pytest.raises(IncompatiblePair):
        service.load(pair[1], pair[0], name="The wrong way round")
    with pytest.raises(InvalidRequest, match="quantization"):
        service.load(*pair, name="Odd", dtype="int3")
    assert service.loaded == before
    assert finished(service.submit(asked())).token_ids == expected


def test_the_engines_thread_computes_with_as_many_threads_as_it_was_given(
    pair: tuple[Path, Path],
) -> None:
    """The setting is each thread's own: made in the main thread, it would not count."""
    with closing(EngineService(threads=1)) as made:
        made.load(*pair, name="Random")
        assert made.measure(lambda model: torch.get_num_threads()) == 1


def test_too_little_memory_is_told_before_anything_is_loaded_with_what_would_fit(
    service: EngineService, pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = service.loaded
    monkeypatch.setattr("engine.service.load_model", lambda *_, **__: pytest.fail("it was loaded"))
    monkeypatch.setattr("engine.memory.free_bytes", lambda: 300_230_000)
    with pytest.raises(OutOfMemory, match=r"300 MB are free.*bf16 would need 300 MB\."):
        service.load(*pair, name="Big", dtype="fp32")
    monkeypatch.setattr("engine.memory.free_bytes", lambda: 1000)
    with pytest.raises(OutOfMemory, match=r"Even nf4 would need 300 MB\."):
        service.load(*pair, name="Big", dtype="fp32")
    assert service.loaded == before


@pytest.mark.parametrize(
    ("role", "broken", "said"),
    [
        (0, {"rms_norm_eps": "small"}, "'rms_norm_eps' expected float, got str (value: 'small')"),
        (0, {"hidden_size": 31}, "not a multiple of the number of attention heads"),
        (0, {"rope_parameters": {"rope_type": "default", "rope_theta": "big"}}, "'big'"),
        (1, {"rms_norm_eps": "small"}, "'small'"),
        (1, {"rope_parameters": "none"}, "config.json holds a value that cannot be used"),
    ],
)
def test_a_broken_configuration_is_named_and_not_the_tokenizer(
    pair: tuple[Path, Path], tmp_path: Path, role: int, broken: dict[str, Any], said: str
) -> None:
    """transformers' tokenizer loader looks into config.json, and its complaint was taken for one
    about the tokenizer; a number that is none ended in a bare ValueError."""
    folder = tmp_path / "broken"
    shutil.copytree(pair[role], folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **broken}))
    folders = [*pair]
    folders[role] = folder
    service = EngineService()
    with pytest.raises(ModelError) as caught:
        service.load(*folders, name="Broken")
    service.close()
    assert str(folder / "config.json") in str(caught.value)
    assert said in str(caught.value)
    assert "tokenizer" not in str(caught.value)


def test_a_pair_is_replaced_after_the_requests_already_waiting(
    service: EngineService, gate: Gate, pair: tuple[Path, Path]
) -> None:
    first, second = service.submit(asked()), service.submit(asked())
    gate.reached.wait(PATIENCE)
    with ThreadPoolExecutor(1) as pool:
        loading = pool.submit(service.load, pair[0], None, name="Next")
        assert service.loaded is not None and service.loaded.name == "Random"
        gate.open()
        assert finished(first).token_ids == finished(second).token_ids
        assert loading.result(PATIENCE).name == "Next"


def test_after_unloading_requests_are_refused_and_a_waiting_one_is_told(
    service: EngineService, gate: Gate
) -> None:
    running = service.submit(asked())
    gate.reached.wait(PATIENCE)
    with ThreadPoolExecutor(1) as pool:
        unloading = pool.submit(service.unload)
        while not service._waiting:
            time.sleep(0.001)
        late = service.submit(asked())
        gate.open()
        unloading.result(PATIENCE)
    assert finished(running).reason is FinishReason.LENGTH
    assert isinstance(failed := list(late)[-1], Failed)
    assert "unloaded while this request waited" in failed.message
    assert service.loaded is None
    with pytest.raises(NotLoaded):
        service.submit(asked())


# -- turns


def test_a_request_that_finds_nobody_starts_at_once(service: EngineService) -> None:
    events = list(service.submit(asked()))
    assert [type(event) for event in events[:2]] == [Started, Prefilled]
    assert all(isinstance(event, Emitted) for event in events[2:-1])
    assert isinstance(events[-1], Finished)


def test_whoever_reads_the_end_and_asks_again_is_not_queued(service: EngineService) -> None:
    """The engine thread had not yet noticed that it was done, and counted itself as ahead."""
    for _ in range(25):
        events = list(service.submit(asked(max_tokens=1)))
        assert isinstance(events[0], Started)
        assert not service.busy


def test_waiting_requests_are_told_how_many_are_ahead_as_they_move_up(
    service: EngineService, gate: Gate
) -> None:
    generations = [service.submit(asked(seed=seed)) for seed in range(4)]
    assert service.busy
    gate.open()
    told = [list(generation) for generation in generations]
    # The engine may take the first up before or after the others arrive.
    assert [counts(events)[-1:] for events in told] == [[], [1], [1], [1]]
    for place, events in enumerate(told):
        assert counts(events) == sorted(counts(events), reverse=True)
        assert max(counts(events), default=0) == place
        first = next(i for i, event in enumerate(events) if isinstance(event, Started))
        assert all(isinstance(event, Queued) for event in events[:first])


def test_requests_run_in_the_order_they_came(service: EngineService, gate: Gate) -> None:
    order: list[int] = []
    generations = [service.submit(asked()) for _ in range(5)]

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


def test_two_threads_that_submit_get_the_replies_they_would_get_alone(
    service: EngineService,
) -> None:
    """Prompts are tokenised in the callers' threads while the engine's thread decodes."""
    prompts = [f"The little key {number} opened a door. " * (1 + number) for number in range(6)]
    alone = [finished(service.submit(asked(prompt))).text for prompt in prompts]

    def read_all(numbers: list[int]) -> list[str]:
        return [finished(service.submit(asked(prompts[number]))).text for number in numbers]

    with ThreadPoolExecutor(2) as pool:
        forward = pool.submit(read_all, [0, 1, 2, 3, 4, 5])
        backward = pool.submit(read_all, [5, 4, 3, 2, 1, 0])
        assert forward.result(PATIENCE) == alone
        assert backward.result(PATIENCE) == alone[::-1]


def count_encodings(monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """The requests that any codec turns into tokens from now on."""
    seen: list[Request] = []
    original = TextCodec.encode_request

    def encode(codec: TextCodec, request: Request) -> list[int]:
        seen.append(request)
        return original(codec, request)

    monkeypatch.setattr(TextCodec, "encode_request", encode)
    return seen


def test_a_prompt_is_tokenised_once(
    service: EngineService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check on arrival and the session each did it: twice the time for a long prompt."""
    seen = count_encodings(monkeypatch)
    finished(service.submit(asked()))
    assert len(seen) == 1


def test_a_prompt_is_tokenised_again_for_a_pair_that_came_between(
    service: EngineService, gate: Gate, pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    running = service.submit(asked())
    gate.reached.wait(PATIENCE)
    with ThreadPoolExecutor(1) as pool:
        loading = pool.submit(service.load, *pair, name="Next")
        while not service._waiting:
            time.sleep(0.001)
        seen = count_encodings(monkeypatch)
        late = service.submit(asked("Late"))
        gate.open()
        loading.result(PATIENCE)
        assert finished(running).reason is finished(late).reason is FinishReason.LENGTH
    assert seen == [asked("Late"), asked("Late")]


# -- cancelling


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
    monkeypatch.setattr(engine.prefix, "PREFILL_PART", 32)
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


# -- failures


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


def test_replies_are_remembered_for_each_model_and_only_where_that_was_asked_for(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    for remember in (False, True):
        service = EngineService(tmp_path)
        service.load(*pair, name="Random")
        speculation = Speculation(proposer="suffix", options={"remember": remember})
        list(service.submit(replace(asked(), speculation=speculation)))
        service.unload()
        service.close()
        assert len(list(tmp_path.glob("*/replies/newer.jsonl"))) == remember
    (folder,) = tmp_path.iterdir()
    assert folder.name == fingerprint(pair[0]) != fingerprint(pair[1])
