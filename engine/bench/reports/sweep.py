"""Tables, a page of Markdown and a chart for a sweep."""

from __future__ import annotations

from collections.abc import Mapping

from engine.bench.prompts import ALL
from engine.bench.reports import tables
from engine.bench.reports.tables import Bar, Table, grid
from engine.bench.sweep import Result, Row, winners
from engine.request import PLAIN, Control
from engine.stats import times
from engine.values.units import format_bytes

HEAD = ("method", "depth", "tok/s", "speed-up", "slowest", "accepted", "length", "per position",
        "memory", "words")  # fmt: skip
_BAR = 8
"""Characters of a bar that is as long as plain decoding is fast."""


def cells(row: Row) -> tuple[str, ...]:
    words = {None: "-", 0: "equal"}.get(row.divergences, f"{row.divergences} DIFFER")
    return (
        row.proposer,
        depth_of(row),
        f"{row.tokens_per_s:.1f}",
        times(row.speedup, 2),
        times(row.slowest, 2),
        "-" if row.acceptance_rate is None else f"{row.acceptance_rate:.1%}",
        f"{row.mean_acceptance_length or 0:.2f}",
        " ".join(f"{share:.2f}"[-3:] if share < 1 else "1" for share in row.per_position) or "-",
        "-" if row.memory_bytes is None else format_bytes(row.memory_bytes),
        words,
    )


def speedups(result: Result, temperature: float) -> Table:
    """Return head and lines of the speed-ups: settings down, kinds of prompts across."""
    rows = [row for row in result.rows if row.temperature == temperature]
    kinds = tuple(dict.fromkeys(row.prompt_kind for row in rows))
    rows_by_setting: dict[tuple[str, str], dict[str, Row]] = {}
    for row in rows:
        rows_by_setting.setdefault((row.proposer, depth_of(row)), {})[row.prompt_kind] = row
    lines = [
        (*setting, *(times(of[kind].speedup, 2) for kind in kinds), bar(of[ALL].speedup))
        for setting, of in rows_by_setting.items()
    ]
    return ("method", "depth", *kinds, ""), lines


def depth_of(row: Row) -> str:
    if row.proposer == PLAIN:
        return "-"
    return "auto" if row.controller == Control.AUTO else str(row.depth)


def bar(speedup: float) -> str:
    """Draw a bar that is full up to plain decoding's speed and light beyond it."""
    length = round(_BAR * speedup)
    return "█" * min(length, _BAR) + "▒" * max(length - _BAR, 0)


def comparison(result: Result) -> Table:
    """Return a line for each kind of prompt and setting."""
    return ("prompts", *HEAD), [(row.prompt_kind, *cells(row)) for row in result.rows]


def of_all(result: Result, temperature: float) -> Table:
    """Return a line for each setting over all prompts."""
    rows = [row for row in result.rows if (row.temperature, row.prompt_kind) == (temperature, ALL)]
    return HEAD, [cells(row) for row in rows]


def divergences(result: Result) -> str:
    """Say in a sentence whether speculation changed a word."""
    checked = [row for row in result.rows if row.prompt_kind == ALL and row.proposer != PLAIN]
    promised = [row for row in checked if row.divergences is not None]
    replies = sum(row.prompts for row in promised)
    if not promised:
        return "Rejection sampling keeps the target's distribution, not the text."
    if result.divergences:
        return (
            f"{result.divergences} of {replies:,} prompts gave other text. This is a bug; please "
            "report it."
        )
    temperatures = ", ".join(f"{one:g}" for one in dict.fromkeys(r.temperature for r in promised))
    return (
        f"Text: {replies:,} answers at temperature {temperatures}, all equal to those "
        "without drafting, token for token; 0 divergences."
    )


def left_out(result: Result) -> str:
    """Say in a sentence how many prompts were too long; empty if none was."""
    if not result.left_out:
        return ""
    each = ", ".join(f"{kind} {count}" for kind, count in result.left_out.items())
    return f"Skipped, because longer than the model's context: {each}."


def markdown(result: Result, title: str, facts: Mapping[str, str]) -> str:
    """Return the whole sweep as one page."""
    parts = [divergences(result), left_out(result)]
    for temperature in dict.fromkeys(row.temperature for row in result.rows):
        parts.append(f"## Speed-up over no drafting, temperature {temperature:g}")
        parts.append(grid(*speedups(result, temperature)))
        for kind in result.kinds:
            rows = [r for r in result.rows if (r.temperature, r.prompt_kind) == (temperature, kind)]
            parts.append(f"### {kind}, {rows[0].prompts} prompts")
            parts.append(grid(HEAD, [cells(row) for row in rows]))
    best = [
        (kind, r.proposer, depth_of(r), times(r.speedup, 2)) for kind, r in winners(result).items()
    ]
    fastest = grid(("prompts", "method", "depth", "speed-up"), best)
    return tables.page(title, facts, *parts, "## Fastest", fastest)


def chart(result: Result, title: str) -> str:
    """Draw the speed-ups at the first temperature, with the range over prompts, by kind of prompt."""
    first = [row for row in result.rows if row.temperature == result.rows[0].temperature]
    return tables.chart(
        title,
        {
            f"{kind}, speed-up": [_bar(r) for r in first if r.prompt_kind == kind]
            for kind in result.kinds
        },
    )


def _bar(row: Row) -> Bar:
    plain = row.proposer == PLAIN
    name = row.proposer if plain else f"{row.proposer}, depth {depth_of(row)}"
    figure = times(row.speedup, 2)
    return Bar(name, row.speedup, row.slowest, row.fastest, figure, ours=not plain)
