"""``foretoken bench``: measurements for people, and as JSON for scripts."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app import main, paths
from app.cli import options
from app.cli.bench_overhead import overhead
from app.cli.bench_sweep import sweep
from app.cli.loading import open_for_command
from app.cli.progress import progress
from app.cli.tables import table
from engine.errors import InvalidRequest
from engine.loading.request import QUANTIZATIONS, LoadRequest
from engine.machine.threads import use as use_threads
from engine.request import (
    FIXED_DEPTH,
    MAX_DEPTH,
    PLAIN,
    AcceptanceRule,
    Control,
    Sampling,
    Speculation,
    controller_named,
    rule_named,
)

if TYPE_CHECKING:
    from engine.api import Capabilities
    from engine.bench.compare import Row
    from engine.bench.kernels import Step, Timing
    from engine.bench.lossless import Divergence
    from engine.bench.lossless import Row as Compared

cli = typer.Typer(
    help="Measure speed, acceptance and equal words.", no_args_is_help=True, rich_markup_mode=None
)
cli.command()(sweep)
cli.command()(overhead)


@cli.command()
def compare(
    pair: options.PairOption = main.DEFAULT_PAIR,
    proposer: Annotated[
        list[str] | None,
        typer.Option(help="A proposer that the pair has; repeatable. Default: all."),
    ] = None,
    depth: Annotated[
        list[int] | None,
        typer.Option(help="Tokens drafted a round; repeatable. Default: what suits the proposer."),
    ] = None,
    controller: Annotated[
        list[str] | None,
        typer.Option(help="fixed or auto (as deep as it pays); repeatable. Default: fixed."),
    ] = None,
    acceptance: Annotated[
        str, typer.Option(help="auto, greedy, coupled, rejection or block.")
    ] = AcceptanceRule.AUTO.value,
    temperature: Annotated[float, typer.Option(help="0: always the likeliest token.")] = 0.0,
    seed: Annotated[int, typer.Option(help="The same seed, the same words.")] = 1,
    max_tokens: Annotated[int, typer.Option(help="The longest reply.")] = 160,
    repeats: Annotated[int, typer.Option(min=1, help="Each reply's time is their median.")] = 3,
    prompts_file: Annotated[
        Path | None,
        typer.Option("--prompts", help="One JSON object a line: prompt or turns, kind."),
    ] = None,
    quantization: options.QuantizationOption = "auto",
    kv_cache_dtype: options.KVCacheOption = "auto",
    native: options.NativeOption = True,
    device: options.DeviceOption = "auto",
    cuda_graphs: options.GraphsOption = True,
    as_json: options.JsonOption = False,
    threads: options.ThreadsOption = None,
    data_dir: options.DataDirOption = None,
) -> None:
    """Plain decoding against every proposer: speed, acceptance, and whether the words are equal."""
    from engine.bench import compare as bench
    from engine.bench import prompts, verify_cost

    load = LoadRequest.parse(
        pair,
        quantization=quantization,
        kv_cache_dtype=kv_cache_dtype,
        device=device,
        native=native,
        cuda_graphs=cuda_graphs,
        threads=threads,
    )
    held = prompts.read(prompts_file or prompts.SHIPPED)
    rule = rule_named(acceptance)
    sampling = Sampling(temperature=temperature, seed=seed)
    controls = [controller_named(name) for name in controller or ("fixed",)]
    for value in depth or ():
        Speculation(depth=value)  # told before anything is loaded
    folder = paths.data_folder(data_dir)
    with open_for_command(load, folder) as engine:
        loaded = engine.loaded
        assert loaded is not None
        names = proposer or [name for name in loaded.capabilities.names if name != PLAIN]
        plan = bench.Plan(
            settings=tuple(
                bench.Setting(name, value, control)
                for name in names
                for control in controls
                for value in depth or (_depth(loaded.capabilities, name, control),)
            ),
            sampling=sampling,
            acceptance=rule,
            max_tokens=max_tokens,
            repeats=repeats,
        )
        with progress("Comparing") as on_progress:
            rows = bench.run(engine, held, plan, on_progress)
        cost = engine.measure(verify_cost.measure)
    _print_rows(rows, cost)
    if as_json:
        print(json.dumps(bench.as_json(rows, cost)))


@cli.command()
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
        with open_for_command(load, folder) as engine:
            steps += engine.measure(lambda model: bench.steps(model, repeats=repeats))
    use_threads(threads)  # what follows runs in this thread, not in the engine's
    memory = bench.Memory()
    bandwidth = memory.bandwidth(repeats)
    with progress("Timing") as on_progress:
        timings = bench.run(memory, repeats=repeats, on_progress=on_progress, native_step=native)
    _print_kernels(timings, bandwidth, steps)
    if as_json:
        print(json.dumps(bench.as_json(timings, bandwidth, steps)))


@cli.command()
def lossless(
    pair: options.PairOption = main.DEFAULT_PAIR,
    count: Annotated[
        int, typer.Option("--prompts", min=1, help="How many; 1,000 take minutes.")
    ] = 100,
    quantization: Annotated[
        list[str] | None,
        typer.Option(help="fp32, bf16, int8 or nf4. Repeatable. Default: all that the pair has."),
    ] = None,
    kv_cache_dtype: options.KVCacheOption = "auto",
    seed: Annotated[int, typer.Option(help="Decides which prompts and depths are drawn.")] = 1,
    max_tokens: Annotated[int, typer.Option(min=1, help="Of each reply.")] = 24,
    as_json: options.JsonOption = False,
    native: options.NativeOption = True,
    device: options.DeviceOption = "auto",
    cuda_graphs: options.GraphsOption = True,
    threads: options.ThreadsOption = None,
    data_dir: options.DataDirOption = None,
) -> None:
    """Compare the words of every proposer with plain decoding's; status 1 if any differ."""
    from engine.bench import lossless as bench
    from engine.train.prompts import read

    folder = paths.data_folder(data_dir)
    loads = [
        LoadRequest.parse(
            pair,
            quantization=kind,
            kv_cache_dtype=kv_cache_dtype,
            device=device,
            native=native,
            cuda_graphs=cuda_graphs,
            threads=threads,
        )
        for kind in quantization or QUANTIZATIONS[1:]
    ]
    shipped = read(paths.pip_prompts())
    known = (*shipped.learned, *shipped.held_out)
    rows: list[Compared] = []
    divergences: list[Divergence] = []
    for load in loads:
        with contextlib.ExitStack() as stack:
            try:
                engine = stack.enter_context(open_for_command(load, folder))
            except InvalidRequest as error:  # this model or machine lacks it
                if quantization:
                    raise
                print(f"Note: {error}", file=sys.stderr)
                continue
            on_progress = stack.enter_context(progress(load.quantization))
            more, differ = bench.run(
                engine, known, count, seed=seed, max_tokens=max_tokens, on_progress=on_progress
            )
        rows += more
        divergences += differ
    _print_compared(rows, divergences)
    if as_json:
        print(json.dumps(bench.as_json(rows, divergences), ensure_ascii=False))
    if divergences:
        raise typer.Exit(1)


def _depth(capabilities: Capabilities, proposer: str, control: Control) -> int:
    """The depth where none is given; a proposer that is not there is refused by the engine, in words."""
    if control is Control.AUTO:
        return MAX_DEPTH
    offered = capabilities.proposer(proposer)
    return FIXED_DEPTH if offered is None else offered.depth


def _print_rows(rows: Sequence[Row], cost: dict[int, float]) -> None:
    head = ("prompts", "proposer", "depth", "tok/s", "speed-up", "accepted", "length", "words")
    print(
        table(
            head,
            [
                (
                    row.prompt_kind,
                    row.proposer,
                    "auto" if row.controller == Control.AUTO else str(row.depth),
                    f"{row.tokens_per_s:.1f}",
                    f"{row.speedup:.2f}x",
                    "-" if row.acceptance_rate is None else f"{row.acceptance_rate:.1%}",
                    f"{row.mean_acceptance_length or 0:.2f}",
                    {True: "equal", False: "DIFFER", None: "-"}[row.identical],
                )
                for row in rows
            ],
            frozenset(range(2, 7)),
        )
    )
    shown = "  ".join(f"{count}: {ratio:.2f}" for count, ratio in cost.items())
    print(f"\nTime to verify M tokens, relative to one:  {shown}")


def _print_kernels(timings: Sequence[Timing], bandwidth: float, steps: Sequence[Step]) -> None:
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


def _print_compared(rows: Sequence[Compared], divergences: Sequence[Divergence]) -> None:
    head = ("quantization", "proposer", "rule", "prompts", "tokens", "accepted", "divergences")
    print(
        table(
            head,
            [
                (
                    row.quantization,
                    row.proposer,
                    row.rule,
                    f"{row.prompts:,}",
                    f"{row.tokens:,}",
                    f"{row.accepted / row.drafted:.1%}" if row.drafted else "-",
                    f"{row.divergences:,}",
                )
                for row in rows
            ],
            frozenset(range(3, 7)),
        )
    )
    for one in divergences:
        print(
            f"\n{one.quantization}, {one.proposer}, {one.rule}, depth {one.depth}, temperature "
            f"{one.temperature}, seed {one.seed}: {one.prompt}\n  token {one.position} of the reply: "
            f"plain decoding wrote {one.expected} (logit {one.expected_logit}), {one.proposer} "
            f"{one.found} (logit {one.found_logit})"
        )
