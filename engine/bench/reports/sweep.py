"""Tables, bars, a page of Markdown and a chart for a sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.bench.prompts import ALL
from engine.bench.sweep import Result, Row, winners
from engine.request import PLAIN, Control
from engine.stats import times
from engine.values.units import format_bytes

_INK = "#808080"
# The look of tools/charts.py: transparent, grey ink, one picture for day and night.
_STYLE = {"svg.fonttype": "none", "svg.hashsalt": "foretoken"} | dict.fromkeys(
    ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), _INK
)


def chart(result: Result, path: Path, title: str) -> bool:
    """Draw the first temperature into ``path``; return False if matplotlib is not installed."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        return False
    rows = [row for row in result.rows if row.temperature == result.rows[0].temperature]
    with rc_context(_STYLE):
        figure = Figure(figsize=(2 + 2.4 * len(result.kinds), 3.2), layout="constrained")
        panels = figure.subplots(1, len(result.kinds), sharey=True, squeeze=False)[0]
        for axes, kind in zip(panels, result.kinds, strict=True):
            _panel(axes, kind, [row for row in rows if row.prompt_kind == kind])
        panels[0].set_ylabel("speed-up; dotted: auto")
        panels[0].legend(frameon=False)
        figure.suptitle(title)
        figure.savefig(path, transparent=True, metadata={"Date": None})
    return True


def _panel(axes: Any, kind: str, rows: list[Row]) -> None:
    methods = [name for name in dict.fromkeys(row.proposer for row in rows) if name != PLAIN]
    for number, method in enumerate(methods):
        mine, colour = [row for row in rows if row.proposer == method], f"C{number}"
        fixed = [row for row in mine if row.controller != Control.AUTO]
        points = [row.depth for row in fixed], [row.speedup for row in fixed]
        axes.plot(*points, "o-", color=colour, label=method)
        for row in mine:
            if row.controller == Control.AUTO:
                axes.axhline(row.speedup, color=colour, linestyle=":")
    axes.axhline(1.0, color=_INK, linewidth=0.8)
    axes.set(title=kind, xlabel="depth")
    axes.spines[["top", "right"]].set_visible(False)


HEAD = ("method", "depth", "tok/s", "speed-up", "slowest", "accepted", "length", "per position",
        "memory", "words")  # fmt: skip
_BAR = 8
"""Characters of a bar that is as long as plain decoding is fast."""


def cells(row: Row) -> tuple[str, ...]:
    """Return the cells of a row under ``HEAD``."""
    words = {None: "-", 0: "equal"}.get(row.divergences, f"{row.divergences} DIFFER")
    return (
        row.proposer,
        depth_of(row),
        f"{row.tokens_per_s:.0f}",
        times(row.speedup, 2),
        times(row.slowest, 2),
        "-" if row.acceptance_rate is None else f"{row.acceptance_rate:.0%}",
        f"{row.mean_acceptance_length or 0:.2f}",
        " ".join(f"{share:.2f}"[-3:] if share < 1 else "1" for share in row.per_position) or "-",
        "-" if row.memory_bytes is None else format_bytes(row.memory_bytes),
        words,
    )


def speedups(result: Result, temperature: float) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
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
    """Return the depth as tables show it."""
    if row.proposer == PLAIN:
        return "-"
    return "auto" if row.controller == Control.AUTO else str(row.depth)


def bar(speedup: float) -> str:
    """Draw a bar that is full up to plain decoding's speed and light beyond it."""
    length = round(_BAR * speedup)
    return "█" * min(length, _BAR) + "▒" * max(length - _BAR, 0)


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
    parts = [f"# {title}", "\n".join(f"- {name}: {value}" for name, value in facts.items())]
    parts += [sentence for sentence in (divergences(result), left_out(result)) if sentence]
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
    parts += ["## Fastest", grid(("prompts", "method", "depth", "speed-up"), best)]
    return "\n\n".join(parts) + "\n"


def grid(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    rule = ["---"] * len(head)
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, rule, *lines))
