"""Draw the chart of docs/figures.md from the JSON of ``python -m tools.kernels --json``:

    python -m tools.charts RESULTS.json

Needs the extra ``docs`` (matplotlib). The background is transparent and the ink is grey: one picture for
day and night.
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
INK = "#808080"
KINDS = {"fp32": "#9ca3af", "bf16": "#3b82f6", "int8": "#10b981", "nf4": "#f59e0b"}


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tools.charts RESULTS.json")
    results = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    mpl.rcParams.update(
        {"font.size": 10, "svg.fonttype": "none", "svg.hashsalt": "foretoken"}
        | dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor"), INK)
        | dict.fromkeys(("xtick.color", "ytick.color"), INK)
    )
    keep("verify-cost", verify_cost(results.get("kernels", results)["step"]))


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
