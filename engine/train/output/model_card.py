"""The model card of a drafter, and its log beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.train.recipe import Recipe

LOG_FILE = "training.jsonl"
"""The loss curve, stored beside the weights so that a later run can extend it."""
FRONT_MATTER = "---\nlicense: apache-2.0\nlanguage: en\npipeline_tag: text-generation\n---\n"
_CURVE_ROWS = 16
_LOG_ROWS = 256
_UNIT = "nats per token, average of all drafted positions"


def write_card(
    folder: Path, recipe: Recipe, log: Sequence[Mapping[str, Any]], replies: int
) -> None:
    """Write README.md (purpose, data, curve, acceptance) and LOG_FILE."""
    lines = "".join(json.dumps(entry) + "\n" for entry in thinned(log))
    (folder / LOG_FILE).write_text(lines, encoding="utf-8")
    parts = [
        f"{FRONT_MATTER}# {recipe.name}",
        f"A drafter for {recipe.target} (`{recipe.kind}`), for speculative decoding. It "
        "speeds that model up without changing its output, and is of no use without it.",
        f"## Shape\n\n{_table('key', 'value', recipe.shape)}",
        f"## Data\n\n{replies:,} replies of {recipe.target} to the prompts of "
        "`foretoken train`: text and hidden states. Spec-Bench is not included.",
        f"## Training curve\n\n{curve_table(log, _UNIT)}",
        f"## Evaluation\n\n{_evaluation(log)}",
    ]
    (folder / "README.md").write_text("\n\n".join(part.strip() for part in parts) + "\n", "utf-8")


def thinned(log: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return about 256 losses, the last held-out losses, and the last entry."""
    losses = [entry for entry in log if "loss" in entry]
    held_out = [entry for entry in log if "held_out" in entry]
    kept = (*losses[:: len(losses) // _LOG_ROWS + 1], *held_out[-1:], *log[-1:])
    chosen = {id(entry) for entry in kept}
    return [entry for entry in log if id(entry) in chosen]


def curve_table(log: Sequence[Mapping[str, Any]], unit: str = "nats per token") -> str:
    """Return a table of about 16 evenly spaced losses in ``unit``."""
    points = [entry for entry in log if "loss" in entry]
    if not points:
        return "Not recorded."
    every = max(1, len(points) // _CURVE_ROWS)
    shown = points[every - 1 :: every]
    rows = "\n".join(
        f"| {e['tokens']:,} | {e['seconds'] / 60:.1f} | {e['loss']:.3f} |" for e in shown
    )
    return f"| tokens | minutes | loss ({unit}) |\n|---|---|---|\n{rows}"


def _evaluation(log: Sequence[Mapping[str, Any]]) -> str:
    last = next((entry["acceptance"] for entry in reversed(log) if "acceptance" in entry), None)
    if last is None:
        return "Not measured."
    shares = {f"drafted token {at}": share for at, share in enumerate(last["per_position"], 1)}
    return (
        f"On held-out prompts, at temperature 0, drafting {last['depth']} tokens per "
        f"round: {last['acceptance_length']} tokens per pass of the target. Share of "
        f"rounds that accepted\n\n{_table('position', 'share', shares)}"
    )


def _table(first: str, second: str, rows: Mapping[str, Any]) -> str:
    lines = "\n".join(f"| {name} | {value} |" for name, value in rows.items())
    return f"| {first} | {second} |\n|---|---|\n{lines}"
