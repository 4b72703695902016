"""Draws README's charts from a file of results: ``python -m tools.charts docs/results/cpu-....json``.

The file is one JSON object: `peers` and `peers 1b` as ``python -m tools.peers --json`` prints them, and
`kernels` as ``foretoken bench kernels --json`` does; what is absent is not drawn. Needs the extra
``docs`` (matplotlib). Backgrounds are transparent and the ink is grey: one picture for day and night.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
INK, OURS, THEIRS = "#808080", "#3b82f6", "#9ca3af"
KINDS = {"fp32": "#9ca3af", "bf16": "#3b82f6", "int8": "#10b981", "nf4": "#f59e0b"}
ENTITLED = {
    "peers": ("peers-pip", "Pip, 7.5 M parameters, tokens/s"),
    "peers 1b": ("peers-1b", "Random Llama-3.2-1B, simulated drafts, tokens/s"),
}


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tools.charts RESULTS.json")
    results = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    mpl.rcParams.update(
        {"font.size": 10, "svg.fonttype": "none", "svg.hashsalt": "foretoken"}
        | dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor"), INK)
        | dict.fromkeys(("xtick.color", "ytick.color"), INK)
    )
    for key, (name, title) in ENTITLED.items():
        if key in results:
            keep(name, bars(title, results[key]["results"]))
    if "kernels" in results:
        keep("verify-cost", verify_cost(results["kernels"]["step"]))


def bars(title: str, rows: list[dict[str, Any]]) -> plt.Figure:
    """Every engine's speed, ours in colour, on a scale by powers of ten."""
    figure, axes = plt.subplots(figsize=(7, 0.7 + 0.3 * len(rows)))
    names = [f"{row['engine']}, {row['setting']} ({row['quantization']})" for row in rows]
    speeds = [row["tokens_per_s"] for row in rows]
    colours = [OURS if row["engine"] == "foretoken" else THEIRS for row in rows]
    drawn = axes.barh(names, speeds, color=colours)
    axes.bar_label(drawn, [f"{speed:,.0f}" if speed >= 100 else f"{speed:.1f}" for speed in speeds],
                   padding=3, color=INK)  # fmt: skip
    axes.set(xscale="log", title=title, xlim=(min(speeds) / 2, max(speeds) * 2))
    axes.invert_yaxis()
    return figure


def verify_cost(steps: list[dict[str, Any]]) -> plt.Figure:
    """How much longer a step takes for more rows, for every quantisation of the target."""
    found: dict[str, dict[int, float]] = defaultdict(dict)
    for step in steps:
        if step["model"] == "target":
            found[step["quantization"]][step["m"]] = step["ms"]
    figure, axes = plt.subplots(figsize=(7, 3.2))
    for kind, times in found.items():
        rows = sorted(times)
        ratios = [times[count] / times[1] for count in rows]
        axes.plot(
            rows,
            ratios,
            "o-",
            color=KINDS.get(kind, INK),
            label=f"{kind}, {times[1]:.2f} ms for one",
        )
    axes.set(title="Pip: time to verify M tokens, relative to one", xlabel="M")
    axes.set_xticks(rows)
    axes.legend(frameon=False)
    return figure


def keep(name: str, figure: plt.Figure) -> None:
    """Writes docs/images/NAME.svg."""
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    IMAGES.mkdir(exist_ok=True)
    figure.savefig(IMAGES / f"{name}.svg", transparent=True, metadata={"Date": None})
    plt.close(figure)
    print(IMAGES / f"{name}.svg")


if __name__ == "__main__":
    main()
