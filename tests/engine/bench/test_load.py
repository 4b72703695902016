"""Many clients at once, measured: what counts as a token, a wait and a pause, and that all are asked."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from engine.bench import load
from engine.bench.load import Contender, Plan, Row, needed, numbered, ours, run, theirs
from engine.bench.prompts import read
from engine.bench.real.peers import llama_cpp
from engine.bench.real.process import Server
from engine.errors import ForetokenError
from engine.loading.request import LoadRequest
from engine.request import Speculation
from tests.support.fake_engine import FakeEngine, Script
from tests.support.stand_ins import stand_in

PLAN = Plan(clients=(1, 3), rounds=2, max_tokens=4)
NOW = 100.0


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every question is asked at ``NOW``: a thread that waits for its turn would add to its seconds."""
    monkeypatch.setattr(load, "perf_counter", lambda: NOW)


class Scripted:
    """Tells its tokens at given seconds behind the question."""

    def __init__(self, name: str, came: Sequence[tuple[float, int]]) -> None:
        self.name, self._came = name, came
        self.asked: list[tuple[int, ...]] = []

    @property
    def contender(self) -> Contender:
        return Contender(self.name, self.tokens)

    def tokens(self, prompt: Sequence[int], limit: int) -> Iterator[tuple[float, int]]:
        self.asked.append(tuple(prompt))
        yield from ((NOW + at, count) for at, count in self._came)


def prompts() -> list[tuple[int, ...]]:
    return [(number,) for number in range(needed(PLAN))]


@pytest.mark.usefixtures("still")
def test_every_client_asks_its_own_questions_and_all_engines_the_same() -> None:
    first, second = (Scripted(name, ((0.25, 1), (0.5, 3))) for name in ("one", "other"))
    told: list[Row] = []
    rows = run([first.contender, second.contender], prompts(), PLAN, told.append)
    assert told == rows
    assert [(row.engine, row.clients) for row in rows] == [
        ("one", 1), ("other", 1), ("other", 3), ("one", 3),
    ]  # fmt: skip
    assert sorted(first.asked) == sorted(second.asked) == prompts()
    for row in rows:
        assert (row.replies, row.tokens) == (2 * row.clients, 8 * row.clients)
        assert row.first_median_s == row.first_p95_s == row.longest_pause_s == 0.25
        assert row.tokens_per_s == row.tokens / row.seconds and row.seconds == 0.5


@pytest.mark.usefixtures("still")
def test_clients_ask_at_once_and_the_slowest_are_told() -> None:
    together = threading.Barrier(4)
    came = iter([(0.1, 0.2), *((at / 10, at / 10 + 1 / at) for at in range(1, 9))])

    def tokens(prompt: Sequence[int], limit: int) -> Iterator[tuple[float, int]]:
        first, last = next(came)
        if prompt[0]:  # the first question, which is not counted, comes alone
            together.wait(20)
        yield NOW + first, 1
        yield NOW + last, limit - 1

    plan = Plan(clients=(4,), rounds=2, max_tokens=4)
    (row,) = run([Contender("one", tokens)], [(number,) for number in range(needed(plan))], plan)
    assert row.first_median_s == pytest.approx(0.45)
    assert row.first_p95_s == pytest.approx(0.8)
    assert row.longest_pause_s == pytest.approx(1.0)
    assert row.seconds == pytest.approx(1.1)


def test_a_reply_that_is_too_short_is_no_measurement() -> None:
    with pytest.raises(ForetokenError, match="one wrote 3 of 4 tokens"):
        run([Scripted("one", ((0.1, 3),)).contender], prompts(), PLAN)


def test_an_engine_behind_the_door_is_measured_and_its_failures_are_told() -> None:
    engine = FakeEngine(
        lambda request: Script([" so"] * (request.max_tokens or 1)),
        loads=None,
    )
    with closing(engine):
        engine.load(LoadRequest(target="assets/pip/target", draft=""))
        us = ours(engine, Speculation(proposer="none", depth=0))
        rows = run([us], prompts(), PLAN)
        assert [row.tokens for row in rows] == [8, 24]
        engine.script = lambda request: Script([], failure="It was told to fail.")
        with pytest.raises(ForetokenError, match="told to fail"):
            run([us], prompts(), PLAN)


def test_llama_cpps_server_is_asked_as_it_streams(tmp_path: Path) -> None:
    program = llama_cpp.find(stand_in(tmp_path, llama_cpp.SERVER), llama_cpp.SERVER)
    assert program is not None
    command = llama_cpp.command(program, tmp_path, 64, 1, (), parallel=3)
    assert command[command.index("--parallel") + 1] == "3"
    with closing(Server("llama-server", command, tmp_path / "log")) as server:
        rows = run([theirs(server)], prompts(), PLAN)
    assert [(row.engine, row.tokens) for row in rows] == [("llama.cpp", 8), ("llama.cpp", 24)]


def test_no_two_questions_begin_alike() -> None:
    asked = numbered(read(), 40)
    assert len({question[:4] for question in asked}) == 40
