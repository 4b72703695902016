"""The model card of a drafter, and its log beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.train.distil.recipe import Recipe
from engine.train.export import FRONT_MATTER, LOG_FILE, curve_table, thinned

_UNIT = "nats per token, all drafted positions together"


def write_card(
    folder: Path, recipe: Recipe, log: Sequence[Mapping[str, Any]], replies: int
) -> None:
    """README.md: what it is for, what it learned from, its curve and its acceptance; LOG_FILE."""
    lines = "".join(json.dumps(entry) + "\n" for entry in thinned(log))
    (folder / LOG_FILE).write_text(lines, encoding="utf-8")
    parts = [
        f"{FRONT_MATTER}# {recipe.name}",
        f"Drafts for {recipe.target} by the method `{recipe.kind}`, for speculative decoding. It "
        "changes how fast that model answers, never what, and is of no use without it.",
        f"## Shape\n\n{_table('key', 'value', recipe.shape)}",
        f"## Data\n\n{replies:,} replies of {recipe.target}, written by itself when `foretoken train` "
        "asked it: its words and hidden states. Spec-Bench is not in it.",
        f"## Training curve\n\n{curve_table(log, _UNIT)}",
        f"## Evaluation\n\n{_evaluation(log)}",
    ]
    (folder / "README.md").write_text("\n\n".join(part.strip() for part in parts) + "\n", "utf-8")


def _evaluation(log: Sequence[Mapping[str, Any]]) -> str:
    last = next((entry["acceptance"] for entry in reversed(log) if "acceptance" in entry), None)
    if last is None:
        return "Not measured."
    shares = {f"drafted token {at}": share for at, share in enumerate(last["per_position"], 1)}
    return (
        f"On prompts that it did not learn from, at temperature 0, drafting {last['depth']} tokens a "
        f"round: {last['acceptance_length']} tokens for each pass of the target. Share of rounds that "
        "accepted\n\n"
        f"{_table('position', 'share', shares)}"
    )


def _table(first: str, second: str, rows: Mapping[str, Any]) -> str:
    lines = "\n".join(f"| {name} | {value} |" for name, value in rows.items())
    return f"| {first} | {second} |\n|---|---|\n{lines}"
