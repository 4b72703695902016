"""Engines in turns, and what is made of their replies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
import torch

from tools.gpu_bench import contest, rivals
from tools.gpu_bench.clock import Clock
from tools.gpu_bench.contender import DRAFT, PLAIN, Contender, Entrant, Reply, Source
from tools.gpu_bench.contest import RIGHT, Contest
from tools.gpu_bench.kernels import time_attention, time_linear
from tools.gpu_bench.shapes import REHEARSAL
from tools.gpu_bench.speed import DEPTH, Speed, race
from tools.gpu_bench.steps import compare_bits, time_steps

CPU = Clock(torch.device("cpu"))
SIZES = REHEARSAL[0]


@dataclass(eq=False)
class Fake:
    """An engine that decodes ``speed`` tokens a second, and notes when it was asked."""

    name: str
    speed: float
    calls: list[str]
    says: int = 0
    entrant: Entrant = field(init=False)

    def __post_init__(self) -> None:
        self.entrant = Entrant(self.name, PLAIN, "bf16")

    def answer(self, prompt: Sequence[int], limit: int) -> Reply:
        self.calls.append(self.name)
        told = tuple(prompt[-1] + 1 + step + self.says for step in range(limit))
        first = len(self.calls) <= 3
        return Reply(told, limit, limit / (1e-3 if first else self.speed))

    def close(self) -> None: ...


def test_engines_take_turns_in_changing_order_and_the_first_turn_warms_up() -> None:
    calls: list[str] = []
    engines: list[Contender] = [
        Fake("a", 10.0, calls), Fake("b", 30.0, calls), Fake("c", 5.0, calls, says=1)
    ]  # fmt: skip
    texts = [([start], [start + 1, start + 2]) for start in range(4)]
    found = race("model", engines, texts, CPU, {})
    assert "".join(calls) == "abc" + "bca" + "cab" + "abc"
    assert [round(one.tokens_per_s.median) for one in found] == [10, 30, 5]
    assert [one.ratio for one in found] == pytest.approx([1, 3, 0.5])
    assert [one.right for one in found] == [True, True, False]


def test_who_fails_is_told_once_and_the_others_go_on() -> None:
    calls: list[str] = []

    class Failing(Fake):
        def answer(self, prompt: Sequence[int], limit: int) -> Reply:
            super().answer(prompt, limit)
            raise ValueError("no")

    engines: list[Contender] = [Failing("a", 10.0, calls), Fake("b", 30.0, calls)]
    texts = [([start], [start + 1, start + 2]) for start in range(4)]
    told: list[str] = []
    found = race("model", engines, texts, CPU, {}, lambda what, error: told.append(what))
    assert told == ["a plain"] and calls.count("a") == 1 and calls.count("b") == 4
    assert [(one.engine, one.ratio) for one in found] == [("b", 0.0)]


def test_the_hosts_share_is_what_the_steps_do_not_explain() -> None:
    times = CPU.time(lambda: None, 1)
    speed = Speed("m", "e", PLAIN, "bf16", "", "", times, 1.0, True, round_s=4.0, device_s=3.0)
    assert speed.host_share == 0.25
    assert Speed("m", "e", PLAIN, "bf16", "", "", times, 1.0, True).host_share is None


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contest, "PROMPT", 8)


@pytest.mark.exhaustive
@pytest.mark.usefixtures("short")
def test_all_engines_write_what_the_weights_were_made_to_say() -> None:
    """So the weights are the same in all of them, and drafts are right as often as they should."""
    held = Contest(SIZES, "bf16", CPU)
    steps, graphs = time_steps(held.model, SIZES, CPU, 1e9, 1, 16, rows=(1, 1 + DEPTH))
    assert (graphs.count, graphs.problem) == (0, None)
    times = {one.rows: one.times.median for one in steps}
    speeds, _ = held.run(times, beside=True, compiled=False)
    assert [(one.engine, one.setting) for one in speeds] == [
        ("foretoken", PLAIN), ("foretoken", DRAFT), ("foretoken", DRAFT),
        ("transformers", PLAIN), ("transformers", PLAIN), ("transformers", DRAFT),
    ]  # fmt: skip
    assert all(one.right for one in speeds)
    drafted = [one for one in speeds if one.setting == DRAFT]
    assert {one.source for one in drafted} == {Source.SIMULATED.value}
    assert [one.right_share for one in drafted[:2]] == list(RIGHT)
    low, high = (one.acceptance for one in drafted[:2])
    assert low is not None and high is not None and 0.1 < low < high < 0.95
    assert all(one.host_share is not None for one in speeds[:3])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="compiling takes minutes of a processor")
@pytest.mark.usefixtures("short")
def test_a_compiled_rival_says_the_same() -> None:
    held = Contest(SIZES, "bf16", CPU)
    speeds, _ = held.run({1: 1.0}, beside=False, compiled=True)
    assert [(one.engine, one.right) for one in speeds] == [
        ("foretoken", True), ("transformers", True)
    ]  # fmt: skip
    assert "torch.compile" in speeds[1].detail


def test_bits_are_compared_and_a_model_that_breaks_them_is_caught() -> None:
    model = Contest(SIZES, "int8", CPU).model
    bits = compare_bits(model)
    assert (bits.compared, bits.different) == (4 * sum(range(1, 17)), 0)
    real = model.forward

    def broken(tokens: Sequence[int], cache: object, *, last: int) -> torch.Tensor:
        return real(tokens, cache, last=last) + (1e-3 if len(tokens) > 8 else 0)  # type: ignore[arg-type]

    model.forward = broken  # type: ignore[method-assign]
    assert compare_bits(model).different == 4 * sum(range(9, 17))


@pytest.mark.parametrize("kind", ["bf16", "int8"])  # NF4 in test_run.py
def test_every_product_is_timed_with_every_number_of_rows(kind: str) -> None:
    timed = (time_linear(SIZES, name, kind, CPU, 1e9, repeats=1) for name in SIZES.linear_layers())
    found = [time for times in timed for time in times]
    assert {one.kernel for one in found} == set(SIZES.linear_layers())
    assert len(found) == 5 * 16
    assert all(one.equal and one.share > 0 for one in found)


def test_attention_and_bitsandbytes_are_timed_too() -> None:
    found = time_attention(SIZES, CPU, 1e9, repeats=1, pasts=(40,))
    assert [one.rows for one in found] == list(range(1, 17))
    assert all(one.equal for one in found)
    if rivals.why_no_bitsandbytes() is None:
        theirs = rivals.time_bitsandbytes(SIZES, CPU, 1e9, repeats=1)
        assert [one.rows for one in theirs[:3]] == [1, 4, 8]
        assert {one.equal for one in theirs} == {None}
