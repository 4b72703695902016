"""What a head learns on this machine: lessons, the version they made, and how it did, in one folder.

The folder is named after the target and after a hash of the published head's files, which stay as they
are. Lessons are token ids alone: their hidden states would take 12 KB a token for a target of 1.5 billion
parameters, and the loaded target computes them again when nobody waits.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

from engine.drafting.heads import inspect
from engine.drafting.heads.base import HeadPlan, TargetShape
from engine.drafting.lookup.past_replies import NEWER, OLDER, ReplyFiles
from engine.errors import ModelError
from engine.files import read_json, write_private
from engine.models.checkpoints.checkpoint import fingerprint
from engine.models.checkpoints.gguf.description import is_gguf

log = logging.getLogger(__name__)

LESSON_BYTES = 8 << 20
"""The most that lessons of one head take on disk: some million and a half tokens."""
LONGEST = 4096
"""Tokens of a lesson; the hidden states of one take 134 MB for a target of 8 billion parameters."""
PROMPT_TAIL = 512
"""Tokens of a prompt that are kept in front of a reply."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """The end of a prompt and the target's reply, which begins at ``start``."""

    tokens: tuple[int, ...]
    start: int


@dataclass(frozen=True, slots=True)
class Trial:
    """A new version's trial, on the day ``at``: what it learned from, and mean accepted lengths
    before and after on the same held-out replies of the user, and on replies to general prompts."""

    at: str
    replies: int
    tokens: int
    seconds: float
    before: float
    after: float
    others_before: float
    others_after: float
    taken: bool


@dataclass(frozen=True, slots=True)
class LearnedState:
    """``name``: of target and head, for people. ``used``: whether the learned version drafts. ``fresh``:
    reply tokens since the last trial. ``days``: by ISO date, replies, rounds that the head drafted, and
    tokens accepted in them."""

    name: str = ""
    used: bool = False
    fresh: int = 0
    trials: tuple[Trial, ...] = ()
    days: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)

    def with_reply(self, rounds: int, accepted: int, tokens: int) -> LearnedState:
        """Return the state after one more reply of today."""
        today = date.today().isoformat()
        replies, before, stood = self.days.get(today, (0, 0, 0))
        days = {**self.days, today: (replies + 1, before + rounds, stood + accepted)}
        return replace(self, fresh=self.fresh + tokens, days=days)


@dataclass(frozen=True, slots=True)
class LearnedHead:
    """The folder of one head, which need not exist. One thread at a time may write."""

    folder: Path

    @classmethod
    def of(cls, root: Path, target: Path, head: HeadPlan) -> LearnedHead | None:
        """Return the folder below ``root`` of a head in files of its own; None for others."""
        if not head.in_folder:
            return None
        return cls(root / fingerprint(target) / _digest(head.stored.folder))

    @classmethod
    def all(cls, root: Path) -> list[LearnedHead]:
        """Return every folder below ``root``."""
        return [cls(path.parent) for path in sorted(root.glob("*/*/state.json"))]

    @property
    def name(self) -> str:
        """The two hashes."""
        return f"{self.folder.parent.name}/{self.folder.name}"

    @property
    def version(self) -> Path:
        """The learned head's files."""
        return self.folder / "head"

    @property
    def work(self) -> Path:
        """Files of the learning under way."""
        return self.folder / "work"

    @property
    def replies(self) -> int:
        """The number of stored lessons."""
        files = (self.folder / name for name in (OLDER, NEWER))
        return sum(file.read_bytes().count(b"\n") for file in files if file.is_file())

    def plan(self, target: TargetShape, published: HeadPlan, place: Path | None = None) -> HeadPlan:
        """Return the plan of the learned version, or of the one in ``place``. Raises ModelError unless it
        reads what the published head reads."""
        found = inspect(place or self.version, target)
        if found.kind != published.kind or found.aux_layers != published.aux_layers:
            raise ModelError(
                f"{found.stored.folder} reads other hidden states than the published head."
            )
        return found

    def take(self, made: Path) -> None:
        """Replace the learned version by the one in ``made``. Raises OSError."""
        shutil.rmtree(self.version, ignore_errors=True)
        made.rename(self.version)

    def state(self) -> LearnedState:
        """Return the state; that of a head that has learned nothing if the file is absent or damaged."""
        try:
            return _state(read_json(self.folder / "state.json"))
        except FileNotFoundError:
            return LearnedState()
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            log.warning("%s is damaged, so the published head drafts: %s", self.folder, error)
            return LearnedState()

    def keep(self, state: LearnedState) -> None:
        """Store the state. Raises DiskError."""
        write_private(self.folder / "state.json", json.dumps(asdict(state)))

    def add(self, tokens: Sequence[int], start: int, most: int = LESSON_BYTES) -> None:
        """Store a lesson. Of more than ``most`` bytes the older half is dropped."""
        first = max(0, start - PROMPT_TAIL)
        files, newer = ReplyFiles(self.folder), self.folder / NEWER
        if newer.exists() and newer.stat().st_size >= most // 2:
            files.new_generation()
        files.add([start - first, *tokens[first:]])

    def lessons(self, context: int) -> list[Lesson]:
        """Return all lessons, the oldest first. One that is longer than ``context`` or ``LONGEST``
        loses the first of its prompt, which keeps half of that, and the last of its reply."""
        context = min(context, LONGEST)
        older, newer = ReplyFiles(self.folder).read()
        found = []
        for start, *tokens in (*older, *newer):
            first = max(0, min(len(tokens) - context, start - context // 2))
            found.append(Lesson(tuple(tokens[first : first + context]), start - first))
        return found


def _state(value: Mapping[str, Any]) -> LearnedState:
    return LearnedState(
        str(value["name"]),
        bool(value["used"]),
        int(value["fresh"]),
        tuple(Trial(**each) for each in value["trials"]),
        {day: (int(a), int(b), int(c)) for day, (a, b, c) in value["days"].items()},
    )


def _digest(place: Path) -> str:
    """Return a hash of the contents of a head's files."""
    digest = hashlib.sha256()
    for file in [place] if is_gguf(place) else sorted(p for p in place.iterdir() if p.is_file()):
        if file == place or file.suffix in (".json", ".safetensors", ".pt", ".bin", ".pth"):
            with file.open("rb") as stream:
                digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()[:16]
