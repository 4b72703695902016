"""Where a run that makes a pair keeps its things."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.train.output.run_directory import RunDirectory


@dataclass(frozen=True, slots=True)
class PairDirectory(RunDirectory):
    """Tokenizer, target, draft, and what the target answered."""

    @property
    def tokenizer(self) -> Path:
        return self.out / "tokenizer"

    @property
    def target(self) -> Path:
        return self.out / "target"

    @property
    def draft(self) -> Path:
        return self.out / "draft"

    @property
    def replies(self) -> Path:
        """What the target answered, for its draft to learn from."""
        return self.out / "replies.jsonl"
