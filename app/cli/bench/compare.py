"""``foretoken bench compare``: the proposers of a pair side by side."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app import main, paths
from app.cli import options
from app.cli.loading import open_here
from app.cli.text.output import progress, table
from engine.api import LoadRequest
from engine.request import FIXED_DEPTH, PLAIN, Control, Speculation, controller_named
from engine.values import MAX_DEPTH
from engine.values.sampling import AcceptanceRule, Sampling, rule_named

if TYPE_CHECKING:
    from engine.api import Capabilities
    from engine.bench.sweep import Row


@options.with_load
def compare(
    load: LoadRequest = main.DEFAULT_LOAD,
    proposer: Annotated[
        list[str] | None,
        typer.Option(help="Proposer to measure. Repeatable. Default: all available."),
    ] = None,
    depth: Annotated[
        list[int] | None,
        typer.Option(help="Drafted tokens per round. Repeatable. Default: the proposer's own."),
    ] = None,
    controller: Annotated[
        list[str] | None,
        typer.Option(help="fixed, or auto (adapts the depth). Repeatable. Default: fixed."),
    ] = None,
    acceptance: options.AcceptanceOption = AcceptanceRule.AUTO.value,
    temperature: Annotated[float, typer.Option(help="0 = always the most likely token.")] = 0.0,
    seed: Annotated[int, typer.Option(help="Same seed, same text.")] = 1,
    max_tokens: Annotated[int, typer.Option(help="Most tokens per reply.")] = 160,
    repeats: Annotated[int, typer.Option(min=1, help="Repeats; the median time counts.")] = 3,
    prompts_file: Annotated[
        Path | None,
        typer.Option(
            "--prompts", help="File with one JSON object per line: prompt or turns, kind."
        ),
    ] = None,
    as_json: options.JsonOption = False,
    data_dir: options.DataDirOption = None,
) -> None:
    """Compare every proposer with no drafting: speed, acceptance, equal text."""
    from engine.bench import prompts, sweep, verify_cost

    questions = prompts.read(prompts_file or prompts.SHIPPED)
    rule = rule_named(acceptance)
    Sampling(temperature=temperature, seed=seed)  # refused before anything is loaded, as are depths
    controls = [controller_named(name) for name in controller or ("fixed",)]
    for value in depth or ():
        Speculation(depth=value)
    folder = paths.data_folder(data_dir)
    with open_here(load, folder, *(proposer or ())) as engine:
        loaded = engine.loaded
        assert loaded is not None
        names = proposer or [name for name in loaded.capabilities.names if name != PLAIN]
        plan = sweep.Plan(
            settings=tuple(
                sweep.Setting(name, value, control)
                for name in names
                if name != PLAIN
                for control in controls
                for value in depth or (_depth(loaded.capabilities, name, control),)
            ),
            temperatures=(temperature,),
            acceptance=rule,
            max_tokens=max_tokens,
            repeats=repeats,
            seed=seed,
        )
        with progress("Comparing") as on_progress:
            rows = sweep.run(engine, questions, plan, on_progress=on_progress).rows
        cost = engine.measure(verify_cost.measure)
    _print(rows, cost)
    if as_json:
        print(json.dumps(sweep.comparison_as_json(rows, cost)))


def _depth(capabilities: Capabilities, proposer: str, control: Control) -> int:
    """Return the default depth. The engine refuses a proposer that the pair lacks, with a message."""
    if control is Control.AUTO:
        return MAX_DEPTH
    available = capabilities.proposer(proposer)
    return FIXED_DEPTH if available is None else available.depth


def _print(rows: Sequence[Row], cost: dict[int, float]) -> None:
    from engine.stats import times

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
                    times(row.speedup, 2),
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
