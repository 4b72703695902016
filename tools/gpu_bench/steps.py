"""Measure T(M) of a model's whole steps; check that a row's bits do not depend on the other rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from engine.models.base import Model
from tools.gpu_bench.clock import Captured, Clock, Times
from tools.gpu_bench.engines import path, step_of
from tools.gpu_bench.kernels import ROWS
from tools.gpu_bench.shapes import Sizes

PAST = 512
"""Tokens in the cache when steps are timed."""


@dataclass(frozen=True, slots=True)
class StepTime:
    """One forward pass of ``rows``: seconds, and bytes over time as a share of the bandwidth."""

    model: str
    kind: str
    path: str
    rows: int
    times: Times
    share: float


@dataclass(frozen=True, slots=True)
class Graphs:
    """The cost of capturing ``what``: seconds and bytes of all; ``problem``: why there are no graphs."""

    model: str
    kind: str
    what: str
    count: int
    seconds: float
    bytes: int
    problem: str | None


@dataclass(frozen=True, slots=True)
class Bits:
    """Rows whose logits were ``compared`` with those of the row alone; ``different`` of them differed."""

    model: str
    kind: str
    compared: int
    different: int


def time_steps(
    model: Model,
    sizes: Sizes,
    clock: Clock,
    bandwidth: float,
    repeats: int,
    past: int = PAST,
    rows: Sequence[int] = ROWS,
) -> tuple[list[StepTime], Graphs]:
    """Time steps of ``rows`` after ``past`` tokens, in turns, and as graphs if the device has them."""
    kind, cache = model.info.quantization, model.new_state(past + ROWS[-1])
    tokens = _tokens(model, past + ROWS[-1])
    model.forward(tokens[:past], cache, last=0)
    captured: dict[int, Captured] = {
        count: clock.capture([step_of(model, cache, tokens[past : past + count])]) for count in rows
    }
    timed = clock.interleaved({count: one.call for count, one in captured.items()}, repeats)
    reading = sizes.read_bytes(kind, past) / bandwidth if bandwidth else 0.0
    steps = [
        StepTime(sizes.name, kind, path(model), count, times, reading / times.median)
        for count, times in timed.items()
    ]
    captures = list(captured.values())
    problem = next((one.problem for one in captures if one.problem), None)
    graphs = 0 if problem or not clock.cuda else len(captures)
    taken = sum(one.bytes for one in captures)
    took = sum(one.seconds for one in captures)
    return steps, Graphs(sizes.name, kind, "steps", graphs, took, taken, problem)


def compare_bits(model: Model, past: int = 77) -> Bits:
    """Compare 1 to 16 rows, from several positions, with each row computed alone."""
    cache = model.new_state(past + 2 * ROWS[-1])
    tokens = _tokens(model, past + 2 * ROWS[-1])
    model.forward(tokens[:past], cache, last=0)
    alone = torch.cat([model.forward([token], cache, last=1) for token in tokens[past:]])
    compared = different = 0
    for start in (0, 1, 7, 16):
        for rows in ROWS:
            cache.rewind(past)
            if start:
                model.forward(tokens[past : past + start], cache, last=0)
            behind = tokens[past + start : past + start + rows]
            together = model.forward(behind, cache, last=rows)
            same = (together == alone[start : start + rows]).all(-1)
            compared += rows
            different += int((~same).sum())
    return Bits(model.info.name, model.info.quantization, compared, different)


def device_free_bytes(clock: Clock) -> int:
    """Return the free bytes of the device; 0 on a CPU."""
    return int(torch.cuda.mem_get_info(clock.device)[0]) if clock.cuda else 0


def _tokens(model: Model, count: int) -> list[int]:
    return [(7919 * index + 13) % model.info.vocabulary for index in range(count)]
