"""``foretoken bench sweep``: every method at every depth beside plain decoding, and the winner kept."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app import main, paths
from app.cli import options
from app.cli.loading import open_for_command
from app.cli.text.output import check_writable, progress, table
from engine.api import LoadRequest
from engine.errors import InvalidRequest
from engine.request import PLAIN, Speculation
from engine.values.sampling import AcceptanceRule, Sampling, rule_named
from engine.values.units import counted

if TYPE_CHECKING:
    from engine.api import Loaded
    from engine.bench.sweep import Plan, Result


@options.with_load
def sweep(
    load: LoadRequest = main.DEFAULT_LOAD,
    methods: Annotated[
        str | None, typer.Option(help="Comma-separated. Default: all available.")
    ] = None,
    depths: Annotated[str, typer.Option(help="Drafted tokens per round, comma-separated.")] = (
        "1,2,3,4,8"
    ),
    auto: Annotated[
        bool,
        typer.Option("--auto/--no-auto", help="Include auto, which adapts the depth."),
    ] = True,
    prompts: Annotated[
        list[str] | None,
        typer.Option(
            help="pip, random, spec_bench, chats (your last prompts), or a file of JSON lines. "
            "Repeatable."
        ),
    ] = None,
    per_kind: Annotated[int, typer.Option(min=0, help="First prompts of each kind; 0 = all.")] = 0,
    temperature: Annotated[
        list[float] | None, typer.Option(help="Repeatable, one sweep each. Default: 0.")
    ] = None,
    acceptance: options.AcceptanceOption = AcceptanceRule.AUTO.value,
    seed: Annotated[int, typer.Option(help="Same seed, same text.")] = 1,
    max_tokens: Annotated[int, typer.Option(min=1, help="Most tokens per reply.")] = 160,
    repeats: Annotated[int, typer.Option(min=1, help="Repeats; the median counts.")] = 3,
    apply: Annotated[
        bool,
        typer.Option("--apply", help="Make the winner the default of this pair on this machine."),
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Write OUT.md, OUT.json and, with matplotlib, OUT.svg.")
    ] = None,
    as_json: options.JsonOption = False,
    data_dir: options.DataDirOption = None,
) -> None:
    """Measure the speed-up of every method and depth; exit status 1 if text differs."""
    from app import measuring
    from engine.bench import prompts as prompt_files
    from engine.bench import sweep as bench

    folder, rule = paths.data_folder(data_dir), rule_named(acceptance)
    wanted, deep = _methods(methods), _depths(depths)
    temperatures = tuple(dict.fromkeys(temperature or (0.0,)))
    for one in temperatures:
        Sampling(temperature=one, seed=seed)  # refused before anything is loaded
    names = prompts or ["pip"]
    for name in names:
        measuring.named(name, folder, vocabulary=1)
    if out is not None:
        check_writable(out.with_suffix(".json"))
    with open_for_command(load, folder, *(wanted or ())) as engine:
        loaded = engine.loaded
        assert loaded is not None
        measuring.check_tunable(loaded)
        every = tuple(name for name in loaded.capabilities.names if name != PLAIN)
        plan = bench.Plan(
            tuple(bench.settings(wanted or every, deep, auto)),
            temperatures,
            rule,
            max_tokens,
            repeats,
            seed,
        )
        questions = [
            one for name in names for one in measuring.named(name, folder, loaded.vocabulary)
        ]
        with progress("Sweeping") as on_progress:
            result = bench.run(
                engine,
                prompt_files.first_of_each(questions, per_kind),
                plan,
                None if loaded.server else _memory(engine.local.footprint),
                on_progress,
            )
    _print(result)
    if out is not None:
        _write(out, result, _facts(load.text, loaded, names, plan))
    if apply:
        _apply(folder, loaded, result)
    if as_json:
        print(json.dumps(bench.as_json(result)))
    if result.divergences:
        raise typer.Exit(1)


def _methods(text: str | None) -> tuple[str, ...] | None:
    from engine.drafting import proposers

    if text is None:
        return None
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    known = [name for name in proposers.names() if name != PLAIN]
    for name in names:
        if name not in known:
            raise InvalidRequest(
                "methods", f"There is no method {name!r}; choose from {', '.join(known)}."
            )
    if not names:
        raise InvalidRequest("methods", f"methods is empty; choose from {', '.join(known)}.")
    return names


def _depths(text: str) -> tuple[int, ...]:
    numbers = [part.strip() for part in text.split(",") if part.strip()]
    if not numbers or not all(number.isdecimal() for number in numbers):
        raise InvalidRequest("depths", f"depths is {text!r}; give numbers, such as 1,2,3,4,8.")
    depths = tuple(sorted({int(number) for number in numbers}))
    for depth in depths:
        Speculation(depth=depth)
    return depths


def _memory(footprint: Mapping[str, int]) -> Callable[[str], int]:
    """Return a function from a method to the bytes of its weights and caches, the target's included."""
    from engine.drafting import proposers

    drafting = footprint.keys() - {"target"}
    return lambda method: (
        footprint["target"] + sum(footprint[one] for one in proposers.drafts_with(method, drafting))
    )


def _facts(pair: str, loaded: Loaded, names: list[str], plan: Plan) -> dict[str, str]:
    compiled = ", compiled" if loaded.compiled else ""
    return {
        "pair": f"{pair} (target {loaded.target_name}, draft {loaded.draft_name or 'none'})",
        "target": f"{loaded.quantization} on {loaded.device}{compiled}",
        **({"server": loaded.server} if loaded.server else {}),
        "prompts": ", ".join(names),
        "acceptance": plan.acceptance.value,
        "replies": f"up to {plan.max_tokens} tokens, {counted(plan.repeats, 'repeat')}, seed {plan.seed}",
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "date": datetime.now(UTC).date().isoformat(),
    }


def _print(result: Result) -> None:
    from engine.bench.prompts import ALL
    from engine.bench.reports import sweep as report

    for temperature in dict.fromkeys(row.temperature for row in result.rows):
        print(f"Speed-up over no drafting, temperature {temperature:g}:\n")
        head, lines = report.speedups(result, temperature)
        print(table(head, lines, frozenset(range(1, len(head) - 1))))
        together = [
            report.cells(row)
            for row in result.rows
            if (row.temperature, row.prompt_kind) == (temperature, ALL)
        ]
        print(f"\n{table(report.HEAD, together, frozenset(range(1, 7)))}\n")
    for sentence in (report.divergences(result), report.left_out(result)):
        if sentence:
            print(sentence)


def _apply(folder: Path, loaded: Loaded, result: Result) -> None:
    from app.measuring import keep_winners

    kept = keep_winners(folder, loaded, result)
    print(f"New default of {loaded.name} in {loaded.quantization}: {kept.winner}.")
    for kind, winner in kept.kinds.items():
        print(f"  fastest on {kind}: {winner}")
    print("See or delete it with `foretoken models defaults` (--clear).")


def _write(out: Path, result: Result, facts: dict[str, str]) -> None:
    from engine.bench import sweep as bench
    from engine.bench.reports import sweep as report
    from engine.bench.reports import sweep_chart

    title = f"Sweep of {facts['pair']}"
    value = {"facts": facts, **bench.as_json(result)}
    out.with_suffix(".json").write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    out.with_suffix(".md").write_text(report.markdown(result, title, facts), encoding="utf-8")
    if not sweep_chart.chart(result, out.with_suffix(".svg"), title):
        print(
            "Note: no chart was drawn, because matplotlib is not installed (extra: docs).",
            file=sys.stderr,
        )
