"""llama.cpp's speed at a chosen acceptance, computed from its own step times."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from engine.errors import PeerFailed
from engine.values import MAX_DEPTH
from tools.peers.base import DRAFT, Case, Entrant, Reply, Source
from tools.peers.steps import Pace, best_pace, pace

PAST, TOKENS, ROOM = 32, 8, 256
"""Tokens before the measured steps, steps measured, and what a sequence has room for."""


class LlamaSteps:
    """Measures the target's step for 1 to 16 rows and the draft's for one, anew for every answer."""

    def __init__(self, program: Path, target: Path, draft: Path, kind: str, case: Case) -> None:
        assert case.acceptance is not None
        self.program, self.target, self.draft, self.case = program, target, draft, case
        self.acceptance = case.acceptance
        detail = f"{program.name}, best depth of 1 to {MAX_DEPTH}"
        if case.depth is not None:
            detail = f"{program.name}, depth {case.depth}"
        self.entrant = Entrant(
            "llama.cpp", DRAFT, kind, f"{detail}, {case.acceptance:g} right", Source.COMPUTED
        )

    def answer(self, prompt: Sequence[int], limit: int) -> Reply:
        """The words mean nothing here, so only step times are asked for."""
        verify = self._step_times(self.target, range(1, MAX_DEPTH + 2))
        draft_s = self._step_times(self.draft, [1])[1]
        found = self._pace(verify, draft_s)
        return Reply(None, found.tokens, found.seconds)

    def close(self) -> None: ...

    def _pace(self, verify: Mapping[int, float], draft_s: float) -> Pace:
        if self.case.depth is not None:
            return pace(verify, draft_s, self.acceptance, self.case.depth)
        return best_pace(verify, draft_s, self.acceptance)

    def _step_times(self, model: Path, rows: Sequence[int]) -> dict[int, float]:
        """Seconds of one step by rows: so many sequences of one token each."""
        command = [
            str(self.program), "-m", str(model), "-t", str(self.case.threads),
            "-c", str(max(rows) * ROOM), "-npp", str(PAST), "-ntg", str(TOKENS),
            "-npl", ",".join(map(str, rows)), "--output-format", "jsonl",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        times = {
            int(line["pl"]): float(line["t_tg"]) / int(line["tg"])
            for line in map(_object, done.stdout.splitlines())
            if "t_tg" in line
        }
        if done.returncode or not set(rows) <= times.keys():
            last = "\n".join((done.stderr or done.stdout).splitlines()[-8:])
            raise PeerFailed(
                f"{self.program.name} gave no step times (status {done.returncode}). Its last words:"
                f"\n{last}"
            )
        return times


def _object(line: str) -> dict[str, float]:
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
