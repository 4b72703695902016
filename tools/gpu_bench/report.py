"""Results as JSON for programs and as a page for people, both rewritten after every part."""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

_ABOUT = (
    "Random weights of real shapes. Medians of CUDA's events after warm-up, in turns, and what 80 % lie "
    "within. Drafts have one layer, and weights that make them right at a set share of all tokens: their "
    "acceptance is simulated, their time is real. Words are right if the weights ask for them."
)


@dataclass(slots=True)
class Report:
    """The results so far. ``rows``: a ``table``'s title, and its columns; ``times`` are for the JSON."""

    minutes: float
    facts: dict[str, Any] = field(default_factory=lambda: {"name": "No GPU"})
    date: str = field(default_factory=lambda: datetime.now(UTC).date().isoformat())
    rows: list[dict[str, Any]] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    """Parts that were not measured, or not in full, and the reasons."""
    finished: bool = False

    def write(self, folder: Path) -> None:
        """Write both files into ``folder``; a run that is killed never leaves half of one."""
        folder.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"[^a-z0-9]+", "-", self.facts["name"].lower()).strip("-")
        pages = {"json": json.dumps(asdict(self), indent=1) + "\n", "md": self.page()}
        for kind, text in pages.items():
            file = folder / f"{name}-{self.date}.{kind}"
            part = file.with_suffix(".part")
            part.write_text(text, encoding="utf-8")
            os.replace(part, file)

    def page(self) -> str:
        """Return the page in Markdown."""
        facts = "; ".join(f"{name} {value}" for name, value in self.facts.items() if name != "name")
        state = "" if self.finished else " **The run was not finished.**"
        parts = [f"# {self.facts['name']}, {self.date}", f"{facts}.{state}", _ABOUT]
        for title in dict.fromkeys(row["table"] for row in self.rows):
            rows = [row for row in self.rows if row["table"] == title]
            heads = [name for name in rows[0] if name not in ("table", "times")]
            lines = [heads, ["---"] * len(heads)]
            lines += [[_shown(row[name]) for name in heads] for row in rows]
            parts.append(f"## {title}\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines))
        if self.left_out:
            reasons = (f"- {part}: {reason}." for part, reason in self.left_out.items())
            parts.append("## Left out\n\n" + "\n".join(reasons))
        return "\n\n".join(parts) + "\n"


def _shown(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "{:,.1f} ({:,.1f} - {:,.1f})".format(*value)
    return f"{value:,.2f}" if isinstance(value, float) else str(value)
