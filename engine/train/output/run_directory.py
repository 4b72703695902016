"""The folder of a run, and its log."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.files import parse_json


@dataclass(frozen=True, slots=True)
class Journal:
    """A log of one JSON object a line. A killed run loses at most the line being written."""

    path: Path

    def write(self, **values: object) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(values) + "\n")

    def read(self) -> list[dict[str, Any]]:
        """Return the whole lines; none if there is no log."""
        if not self.path.exists():
            return []
        entries: list[dict[str, Any]] = []
        for line in self.path.read_text(encoding="utf-8").splitlines():
            try:
                entries.append(parse_json(line))
            except ValueError:  # cut by a kill
                continue
        return entries


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """The files of a run. Several kinds of drafters may share them."""

    out: Path

    @property
    def progress(self) -> Path:
        """The file that programs watch; see ``ProgressFile``."""
        return self.out / "progress.json"

    @property
    def recording(self) -> Path:
        """The target's replies and hidden states."""
        return self.out / "recording"

    def checkpoint(self, stage: str) -> Path:
        return self.out / "state" / f"{stage}.pt"

    def journal(self, stage: str) -> Journal:
        return Journal(self.out / f"{stage}.jsonl")

    def result(self, kind: str) -> Path:
        """Return the folder of the trained drafter."""
        return self.out / kind

    def trial(self, kind: str) -> Path:
        """Return the folder of the drafter in training, exported to be measured."""
        return self.out / "state" / f"{kind}-trial"
