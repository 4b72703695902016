"""``foretoken bench lossless``: whether speculation changes a word."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from app import main, paths
from app.cli import options
from app.cli.loading import open_here
from app.cli.text.output import progress, table
from engine.api import QUANTIZATIONS, LoadRequest
from engine.errors import InvalidRequest

if TYPE_CHECKING:
    from engine.bench.lossless import Divergence, Row


def lossless(
    pair: options.PairOption = main.DEFAULT_PAIR,
    count: Annotated[
        int, typer.Option("--prompts", min=1, help="How many; 1,000 take minutes.")
    ] = 100,
    quantization: Annotated[
        list[str] | None,
        typer.Option(
            help="fp32, bf16, int8, nf4, q4 or stored. Repeatable. Default: all that the pair has."
        ),
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
    from engine.train.data.prompts import read

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
    every_prompt = (*shipped.learned, *shipped.held_out)
    rows: list[Row] = []
    divergences: list[Divergence] = []
    for load in loads:
        with contextlib.ExitStack() as stack:
            try:
                engine = stack.enter_context(open_here(load, folder))
            except InvalidRequest as error:
                if quantization or error.field != "quantization":
                    raise
                # This model or machine lacks one of them all.
                print(f"Note: {error}", file=sys.stderr)
                continue
            on_progress = stack.enter_context(progress(load.quantization))
            more, differ = bench.run(
                engine,
                every_prompt,
                count,
                seed=seed,
                max_tokens=max_tokens,
                on_progress=on_progress,
            )
        rows += more
        divergences += differ
    if not rows:
        raise InvalidRequest(
            "quantization",
            f"Nothing was compared: {pair} can be loaded in none of {', '.join(QUANTIZATIONS[1:])}.",
        )
    _print(rows, divergences)
    if as_json:
        print(json.dumps(bench.as_json(rows, divergences), ensure_ascii=False))
    if divergences:
        raise typer.Exit(1)


def _print(rows: Sequence[Row], divergences: Sequence[Divergence]) -> None:
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
