"""``python -m tools.kernels``: time matrix kernels and whole steps for M rows, beside memory bandwidth.

A decoding step reads every weight once, so a kernel is judged by its share of the read bandwidth. Other
memory is read between two calls: small weights would come from the cache, as a large model's never do.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Annotated, Any

import torch
import torch.nn.functional as F
import typer
from torch import Tensor

from app import paths
from app.cli import options
from app.cli.loading import open_here
from app.cli.text.output import progress, table
from app.main import DEFAULT_PAIR
from engine.api import LoadRequest
from engine.backends.native import build
from engine.bench.verify_cost import step_times
from engine.drafting.controllers.warm_up import ROWS
from engine.kernels.formats import nf4
from engine.kernels.native import library as native
from engine.kernels.torch.factory import kernels_for
from engine.kernels.torch.linear import Linear, make_linear
from engine.machine.read_bandwidth import Memory
from engine.machine.threads import use as use_threads
from engine.models.base import Model
from tools.running import run_command

SHAPES = ((1024, 256), (8192, 2048), (2048, 8192))
"""(n, k): outputs and inputs, of the embedded model and of a 1 B model's largest products."""
WARM_UP = 2


@dataclass(frozen=True, slots=True)
class Timing:
    """``m`` rows through a weight of (n, k): milliseconds, and weight bytes over time in GB/s."""

    kernel: str
    n: int
    k: int
    m: int
    ms: float
    gb_s: float


@dataclass(frozen=True, slots=True)
class Step:
    """One forward pass of ``m`` rows: milliseconds."""

    model: str
    quantization: str
    m: int
    ms: float


@dataclass(frozen=True, slots=True)
class Kernel:
    """How to make a product of a float weight, what a weight takes, and what its inputs are in."""

    make: Callable[[Tensor], Linear]
    bytes_per_weight: float
    inputs: torch.dtype


KERNELS = {
    "fp32": Kernel(make_linear, 4, torch.float32),
    "bf16": Kernel(lambda weight: make_linear(weight.bfloat16()), 2, torch.bfloat16),
    "int8": Kernel(kernels_for("int8", torch.float32).linear, 1, torch.float32),
    "nf4": Kernel(kernels_for("nf4", torch.float32).linear, 0.5 + 2 / nf4.GROUP, torch.float32),
}
"""By the names of ``--quantization``."""


UNBOUND = {
    "torch fp32": Kernel(
        lambda weight: functools.partial(F.linear, weight=weight), 4, torch.float32
    ),
    "torch bf16": Kernel(
        lambda weight: functools.partial(F.linear, weight=weight.bfloat16()), 2, torch.bfloat16
    ),
}
"""torch's own products, whose bits depend on the number of rows. What equal bits cost is the time of
the others over theirs."""


def kernels(*, native_step: bool = True, threads: int | None = None) -> dict[str, Kernel]:
    """``UNBOUND`` and ``KERNELS``, and with ``native_step`` the compiled step's where that is built.

    ``threads`` are the compiled step's; None is one for each physical core.
    """
    known = UNBOUND | KERNELS
    library = build.ready(threads) if native_step else None
    if library is not None:
        for name, kind in library.kinds.items():
            make = functools.partial(native.Matrix, library, kind)
            size = KERNELS[name].bytes_per_weight
            known[f"compiled {name}"] = Kernel(make, size, torch.float32)
    return known


def run(
    memory: Memory,
    shapes: Sequence[tuple[int, int]] = SHAPES,
    rows: Sequence[int] = ROWS,
    repeats: int = 9,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    *,
    native_step: bool = True,
    threads: int | None = None,
) -> list[Timing]:
    """Every kernel on every (n, k) of ``shapes``, with every count of ``rows``.

    ``native_step``: those of the library compiled for this processor too; ``threads`` are theirs.
    """
    known = kernels(native_step=native_step, threads=threads)
    cases = [(name, shape) for shape in shapes for name in known]
    timings: list[Timing] = []
    for done, (name, (n, k)) in enumerate(cases):
        on_progress(done, len(cases))
        timings += _time(name, known[name], n, k, rows, repeats, memory)
    on_progress(len(cases), len(cases))
    return timings


def steps(model: Model, rows: Sequence[int] = ROWS, repeats: int = 15) -> list[Step]:
    """Whole steps of a loaded model; for ``LocalEngine.measure``."""
    times = step_times(model, rows, repeats=repeats)
    info = model.info
    return [Step(info.name, info.quantization, count, 1e3 * time) for count, time in times.items()]


def as_json(timings: Sequence[Timing], bandwidth: float, steps: Sequence[Step]) -> dict[str, Any]:
    """For programs: the keys are those of the dataclasses."""
    return {
        "results": [
            {"kernel": t.kernel, "n": t.n, "k": t.k, "m": t.m, "ms": t.ms, "gb_s": t.gb_s}
            for t in timings
        ],
        "bandwidth_gb_s": bandwidth,
        "step": [
            {"model": s.model, "quantization": s.quantization, "m": s.m, "ms": s.ms} for s in steps
        ],
    }


def _time(
    name: str, kernel: Kernel, n: int, k: int, rows: Sequence[int], repeats: int, memory: Memory
) -> list[Timing]:
    generator = torch.Generator().manual_seed(0)
    linear = kernel.make(torch.randn(n, k, generator=generator))
    x = torch.randn(max(rows), k, generator=generator).to(kernel.inputs)
    found = []
    for count in rows:
        seconds = _median_s(functools.partial(linear, x[:count]), repeats, memory.read)
        size = n * k * kernel.bytes_per_weight
        found.append(Timing(name, n, k, count, 1e3 * seconds, size / seconds / 1e9))
    return found


def _median_s(
    call: Callable[[], object], repeats: int, before: Callable[[], None] = lambda: None
) -> float:
    """Median seconds of ``call``, each time after an untimed ``before``."""
    seconds = []
    for _ in range(WARM_UP + repeats):
        before()
        started = perf_counter()
        call()
        seconds.append(perf_counter() - started)
    return median(seconds[WARM_UP:])


def measure(
    pair: options.PairOption = DEFAULT_PAIR,
    quantization: Annotated[
        list[str] | None,
        typer.Option(help="Whole steps of the pair's target in these. Repeatable. Default: all."),
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Each time is their median.")] = 9,
    native: options.NativeOption = True,
    device: options.DeviceOption = "auto",
    cuda_graphs: options.GraphsOption = True,
    json_too: options.JsonOption = False,
    threads: options.ThreadsOption = None,
    data_dir: options.DataDirOption = None,
) -> None:
    """Matrix kernels and whole steps: time for M rows, and how near to the memory's bandwidth."""
    loads = [
        LoadRequest.parse(
            pair,
            quantization=kind,
            device=device,
            native=native,
            cuda_graphs=cuda_graphs,
            threads=threads,
        )
        for kind in quantization or KERNELS
    ]
    folder = paths.data_folder(data_dir)
    taken: list[Step] = []
    for load in loads:
        with open_here(load, folder) as (engine, _):
            taken += engine.measure(lambda model: steps(model, repeats=repeats))
    use_threads(threads)  # what follows runs in this thread, not in the engine's
    memory = Memory()
    bandwidth = memory.bandwidth(repeats)
    with progress("Timing") as on_progress:
        timings = run(
            memory,
            repeats=repeats,
            on_progress=on_progress,
            native_step=native,
            threads=threads,
        )
    _print(timings, bandwidth, taken)
    if json_too:
        print(json.dumps(as_json(timings, bandwidth, taken)))


def _print(timings: Sequence[Timing], bandwidth: float, steps: Sequence[Step]) -> None:
    rows = [
        (
            timing.kernel,
            f"{timing.n} x {timing.k}",
            str(timing.m),
            f"{timing.ms:.3f}",
            f"{timing.gb_s:.1f}",
            f"{timing.gb_s / bandwidth:.0%}",
        )
        for timing in timings
    ]
    head = ("kernel", "n x k", "rows", "ms", "GB/s", "of reading")
    print(table(head, rows, frozenset(range(1, 6))))
    print(f"\nReading memory: {bandwidth:.1f} GB/s\n")
    print(
        table(
            ("model", "quantization", "rows", "ms a step"),
            [(step.model, step.quantization, str(step.m), f"{step.ms:.3f}") for step in steps],
            frozenset({2, 3}),
        )
    )


if __name__ == "__main__":
    run_command(measure)
