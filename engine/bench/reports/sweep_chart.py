"""A chart of a sweep: speed-up by depth for each method, one panel for each kind of prompt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.bench.sweep import Result, Row
from engine.request import PLAIN, Control

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
