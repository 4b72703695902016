"""``foretoken bench kernels``: products and whole steps, beside what the memory could do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from app import main, paths
from app.cli import options
from app.cli.loading import open_here
from app.cli.text.output import progress, table
from engine.api import LoadRequest
from engine.machine.threads import use as use_threads

if TYPE_CHECKING:
    from engine.bench.kernels import Step, Timing


def kernels(
    pair: options.PairOption = main.DEFAULT_PAIR,
    quantization: Annotated[
        list[str] | None,
        typer.Option(help="Whole steps of the pair's target in these. Repeatable. Default: all."),
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Each time is their median.")] = 9,
    native: options.NativeOption = True,
    device: options.DeviceOption = "auto",
    cuda_graphs: options.GraphsOption = True,
    as_json: options.JsonOption = False,
    threads: options.ThreadsOption = None,
    data_dir: options.DataDirOption = None,
) -> None:
    """Matrix kernels and whole steps: time for M rows, and how near to the memory's bandwidth."""
    from engine.bench import kernels as bench

    loads = [
        LoadRequest.parse(
            pair,
            quantization=kind,
            device=device,
            native=native,
            cuda_graphs=cuda_graphs,
            threads=threads,
        )
        for kind in quantization or bench.KERNELS
    ]
    folder = paths.data_folder(data_dir)
    steps: list[Step] = []
    for load in loads:
        with open_here(load, folder) as engine:
            steps += engine.measure(lambda model: bench.steps(model, repeats=repeats))
    use_threads(threads)  # what follows runs in this thread, not in the engine's
    memory = bench.Memory()
    bandwidth = memory.bandwidth(repeats)
    with progress("Timing") as on_progress:
        timings = bench.run(
            memory,
            repeats=repeats,
            on_progress=on_progress,
            native_step=native,
            threads=threads,
        )
    _print(timings, bandwidth, steps)
    if as_json:
        print(json.dumps(bench.as_json(timings, bandwidth, steps)))


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
