"""``foretoken bench sweep``: every method at every depth beside plain decoding, and the winner kept; and
``foretoken bench compare``: the proposers of a pair side by side."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from typer import Option

from app import main, paths
from app.cli import options
from app.cli.loading import check_settings, open_for_command, open_here
from app.cli.text.output import check_writable, progress, report_file, table, write_report
from engine.api import LoadRequest
from engine.errors import InvalidRequest
from engine.request import FIXED_DEPTH, PLAIN, Control, Speculation, controller_named
from engine.values import MAX_DEPTH, require
from engine.values.sampling import AcceptanceRule, Sampling, rule_named
from engine.values.units import counted

if TYPE_CHECKING:
    from engine.api import Capabilities, Loaded
    from engine.bench.sweep import Plan, Result


@options.with_load
def sweep(
    load: LoadRequest = main.DEFAULT_LOAD,
    methods: str | None = Option(None, help="Comma-separated. Default: all available."),
    depths: str = Option("1,2,3,4,8", help="Drafted tokens per round, comma-separated."),
    auto: bool = Option(True, "--auto/--no-auto", help="Include auto, which adapts the depth."),
    prompts: list[str] | None = Option(
        None,
        help="pip, random, spec_bench, chats (your last prompts), or a file of JSON lines. "
        "Repeatable.",
    ),
    per_kind: int = Option(0, min=0, help="Use only the first N prompts of each kind; 0 = all."),
    temperature: list[float] | None = Option(None, help="Repeatable, one sweep each. Default: 0."),
    acceptance: options.AcceptanceOption = AcceptanceRule.AUTO.value,
    seed: int = Option(1, help="Same seed, same text."),
    max_tokens: int = Option(160, min=1, help="Most tokens per reply."),
    repeats: int = Option(3, min=1, help="Repeats; the median counts."),
    apply: bool = Option(
        False, "--apply", help="Make the winner the default of this pair on this machine."
    ),
    out: Path | None = Option(None, help="Write OUT.md, OUT.json and OUT.svg."),
    as_json: options.JsonOption = False,
    data_dir: options.DataDirOption = None,
) -> None:
    """Measure the speed-up of every method and depth; exit status 1 if text differs."""
    from app import measuring
    from engine.bench import prompts as prompt_files
    from engine.bench import sweep as bench
    from engine.bench.reports import sweep as report

    folder, rule = paths.data_folder(data_dir), rule_named(acceptance)
    wanted, deep = _methods(methods), _depths(depths)
    temperatures = tuple(dict.fromkeys(temperature or (0.0,)))
    for one in temperatures:
        Sampling(temperature=one, seed=seed)  # refused before anything is loaded
    names = prompts or ["pip"]
    for name in names:
        measuring.named(name, folder, vocabulary=1)
    if out is not None:
        check_writable(report_file(out))
    check_settings(folder, load)
    with open_for_command(load, folder, *(wanted or ())) as (engine, loaded):
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
    value = bench.as_json(result)
    if out is not None:
        facts = _facts(load.text, loaded, names, plan)
        title, said = f"Sweep of {facts['pair']}", json.dumps({"facts": facts, **value}, indent=1)
        page = report.markdown(result, title, facts)
        write_report(out, said, page, report.chart(result, title))
    if apply:
        _apply(folder, loaded, result)
    if as_json:
        print(json.dumps(value))
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
    require(bool(names), "methods", f"is empty; choose from {', '.join(known)}.")
    return names


def _depths(text: str) -> tuple[int, ...]:
    numbers = [part.strip() for part in text.split(",") if part.strip()]
    given = bool(numbers) and all(number.isdecimal() for number in numbers)
    require(given, "depths", f"is {text!r}; give numbers, such as 1,2,3,4,8.")
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
    from engine.bench.reports import sweep as report

    for temperature in dict.fromkeys(row.temperature for row in result.rows):
        print(f"Speed-up over no drafting, temperature {temperature:g}:\n")
        head, lines = report.speedups(result, temperature)
        print(table(head, lines, frozenset(range(1, len(head) - 1))))
        print(f"\n{table(*report.of_all(result, temperature), frozenset(range(1, 7)))}\n")
    for sentence in filter(None, (report.divergences(result), report.left_out(result))):
        print(sentence)


def _apply(folder: Path, loaded: Loaded, result: Result) -> None:
    from app.measuring import keep_winners

    kept = keep_winners(folder, loaded, result)
    print(f"New default of {loaded.name} in {loaded.quantization}: {kept.winner}.")
    for kind, winner in kept.kinds.items():
        print(f"  fastest on {kind}: {winner}")
    print("See or delete it with `foretoken models defaults` (--clear).")


@options.with_load
def compare(
    load: LoadRequest = main.DEFAULT_LOAD,
    proposer: list[str] | None = Option(
        None, help="Proposer to measure. Repeatable. Default: all available."
    ),
    depth: list[int] | None = Option(
        None, help="Drafted tokens per round. Repeatable. Default: the proposer's own."
    ),
    controller: list[str] | None = Option(
        None, help="fixed, or auto (adapts the depth). Repeatable. Default: fixed."
    ),
    acceptance: options.AcceptanceOption = AcceptanceRule.AUTO.value,
    temperature: float = Option(0.0, help="0 = always the most likely token."),
    seed: int = Option(1, help="Same seed, same text."),
    max_tokens: int = Option(160, min=1, help="Most tokens per reply."),
    repeats: int = Option(3, min=1, help="Repeats; the median time counts."),
    prompts_file: Path | None = Option(
        None, "--prompts", help="File with one JSON object per line: prompt or turns, kind."
    ),
    as_json: options.JsonOption = False,
    data_dir: options.DataDirOption = None,
) -> None:
    """Compare every proposer with no drafting: speed, acceptance, equal text."""
    from engine.bench import prompts, sweep, verify_cost
    from engine.bench.reports import sweep as report

    questions = prompts.read(prompts_file or prompts.SHIPPED)
    rule = rule_named(acceptance)
    Sampling(temperature=temperature, seed=seed)  # refused before anything is loaded, as are depths
    controls = [controller_named(name) for name in controller or ("fixed",)]
    nothing = "is 'off', which drafts nothing. That is measured anyway: choose fixed or auto."
    require(Control.OFF not in controls, "controller", nothing)
    for value in depth or ():
        Speculation(depth=value)
    folder = paths.data_folder(data_dir)
    with open_here(load, folder, *(proposer or ())) as (engine, loaded):
        names = proposer or [name for name in loaded.capabilities.names if name != PLAIN]
        settings = tuple(
            sweep.Setting(name, value, control)
            for name in names
            if name != PLAIN
            for control in controls
            for value in depth or (_depth(loaded.capabilities, name, control),)
        )
        plan = sweep.Plan(settings, (temperature,), rule, max_tokens, repeats, seed)
        with progress("Comparing") as on_progress:
            memory = _memory(engine.footprint)
            result = sweep.run(engine, questions, plan, memory, on_progress)
        cost = engine.measure(verify_cost.measure)
    print(table(*report.comparison(result), frozenset(range(2, 8))))
    shown = "  ".join(f"{count}: {ratio:.2f}" for count, ratio in cost.items())
    print(f"\nTime to verify M tokens, relative to one:  {shown}")
    if as_json:
        print(json.dumps({"results": sweep.as_json(result)["results"], "verify_cost": cost}))


def _depth(capabilities: Capabilities, proposer: str, control: Control) -> int:
    """Return the default depth. The engine refuses a proposer that the pair lacks, with a message."""
    if control is Control.AUTO:
        return MAX_DEPTH
    available = capabilities.proposer(proposer)
    return FIXED_DEPTH if available is None else available.depth
