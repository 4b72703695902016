"""Work on what strangers send ends within its limits, whatever it does, and the next call is answered."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import psutil
import pytest

from engine.errors import TooBusy
from engine.machine import worker_process
from engine.machine.worker_process import (
    Interrupted,
    LimitExceeded,
    Limits,
    NoWorker,
    WorkerPool,
    WorkFailed,
)

LIMITS = Limits(seconds=0.5, memory=256 << 20, answer=1 << 20)


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    pool = WorkerPool("tests.support.worker_jobs:run", LIMITS)
    yield pool
    pool.close()


def test_a_call_returns_what_the_function_returns(pool: WorkerPool) -> None:
    for value in ({"a": [1, None, "é \ud800 \U0001f600"]}, "", 0.5):
        assert pool.call({"job": "echo", "value": value}) == value


def test_an_error_of_the_function_is_passed_on_and_the_worker_goes_on(pool: WorkerPool) -> None:
    first = pool.call({"job": "pid"})
    with pytest.raises(WorkFailed, match="no such thing") as caught:
        pool.call({"job": "raise", "message": "no such thing" + "x" * 100_000})
    assert caught.value.kind == "LookupError" and len(str(caught.value)) <= 400
    assert pool.call({"job": "pid"}) == first


@pytest.mark.parametrize(
    ("job", "kind", "why"),
    [
        ("loop", LimitExceeded, "more than 0.5 s"),
        ("sleep", Interrupted, "more than 0.5 s"),
        ("answer at length", LimitExceeded, "produced more than 1 MB"),
        ("processor time", LimitExceeded, "more than 0.5 s"),
        ("crash", LimitExceeded, "crashed its process"),
        ("be killed", Interrupted, "crashed its process"),
        ("recurse", LimitExceeded, "nested too deeply"),
    ],
)
def test_what_exceeds_a_limit_fails_alone(
    pool: WorkerPool,
    job: str,
    kind: type[LimitExceeded],
    why: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if job == "sleep":
        monkeypatch.setattr(worker_process, "_WAITING", 1)
    with pytest.raises(kind, match=why):
        pool.call({"job": job})
    assert pool.call({"job": "echo", "value": "still here"}) == "still here"


@pytest.mark.parametrize("job", ["allocate at once", "allocate piece by piece"])
def test_memory_is_bounded(job: str) -> None:
    """With time enough to fill it: some machines take a second for what others do in a tenth."""
    roomy = WorkerPool("tests.support.worker_jobs:run", Limits(60, memory=64 << 20, answer=1 << 20))
    with pytest.raises(LimitExceeded, match="memory"):
        roomy.call({"job": job})
    roomy.close()


def test_one_endless_call_keeps_no_other_waiting(pool: WorkerPool) -> None:
    with pool._free, pool._worker():
        for _ in range(3):
            assert pool.call({"job": "echo", "value": 1}) == 1


def test_only_a_few_calls_wait_and_further_ones_are_told_to_come_back(pool: WorkerPool) -> None:
    outcomes: list[str] = []

    def call() -> None:
        try:
            outcomes.append(pool.call({"job": "echo", "value": "answered"}))
        except TooBusy:
            outcomes.append("told")

    threads = [threading.Thread(target=call) for _ in range(14)]
    with pool._free, pool._free:  # all workers are busy
        for thread in threads:
            thread.start()
        while len(outcomes) < 4:
            time.sleep(0.001)
    for thread in threads:
        thread.join()
    assert outcomes == ["told"] * 4 + ["answered"] * 10


def test_a_worker_has_no_secrets_of_this_process(
    pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORETOKEN_API_KEY", "secret")
    assert "secret" not in pool.call({"job": "environment"}).values()
    assert pool.call({"job": "pid"}) != os.getpid()


def test_closing_ends_the_process(pool: WorkerPool) -> None:
    number = pool.call({"job": "pid"})
    pool.close()
    assert not psutil.pid_exists(number)


def test_a_worker_that_is_busy_when_its_pool_closes_ends_after_its_call(pool: WorkerPool) -> None:
    number = pool.call({"job": "pid"})
    with pool._worker() as worker:
        pool.close()
        pool.start()
        assert worker.call(b'{"job": "pid"}') == number
    assert not psutil.pid_exists(number) and not pool._idle


def test_a_worker_that_cannot_start_is_an_error_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NoWorker, match="it exited"):
        WorkerPool("engine.machine.no_such_module:run", LIMITS).call(1)
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    with pytest.raises(NoWorker, match="No such file"):
        WorkerPool("tests.support.worker_jobs:run", LIMITS).call(1)


def test_each_worker_is_prepared_by_what_is_made_once() -> None:
    """Without limits: the first value takes longer than a call may, as reading a vocabulary does."""
    made: list[int] = []

    def first() -> dict[str, str]:
        made.append(1)
        return {"job": "prepare"}

    pool = WorkerPool("tests.support.worker_jobs:run", LIMITS, first=first)
    for _ in range(2):
        assert pool.call({"job": "prepared"}) == "prepared"
        with pytest.raises(LimitExceeded):
            pool.call({"job": "crash"})
    assert made == [1]
    pool.close()


def test_a_worker_whose_app_has_ended_says_nothing() -> None:
    """Its traceback stood behind the app's own message."""
    read, write = os.pipe()
    os.close(read)
    command = [
        sys.executable,
        "-m",
        "engine.machine.worker_main",
        "json:loads",
        "1:1000000000:100",
        "",
    ]
    ended = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=write, stderr=subprocess.PIPE, check=False
    )
    os.close(write)
    assert (ended.returncode, ended.stderr) == (0, b"")
