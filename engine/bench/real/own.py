"""This engine as one of the programs: the side that asks."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from engine.bench.real.contest import Case, Running
from engine.bench.real.own_settings import encode
from engine.bench.real.worker import Worker
from engine.loading.request import LoadRequest

NAME = "foretoken"


class Own:
    """Plain decoding, and every proposer of the pair as deep as it pays; always there."""

    engine = name = NAME

    def __init__(self, load: LoadRequest, depths: Sequence[int]) -> None:
        """``load``: how it is loaded; what, the case says. ``depths``: the draft model's, beside auto."""
        self.load, self.depths = load, depths

    def absent(self, case: Case) -> str | None:
        return None

    def start(self, case: Case, log: Path) -> Running:
        draft = "" if case.draft is None else str(case.draft)
        load = replace(
            self.load,
            target=str(case.target),
            draft=draft,
            context=case.context,
            threads=case.threads,
        )
        command = [sys.executable, "-m", "engine.bench.real.own_child"]
        words = encode(asdict(load), self.depths, case.eos)
        return Worker(self.name, [*command, words], log, {})
