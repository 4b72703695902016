"""Runs in every state, as files: what a training process leaves behind, without one. And the end of those
that there are."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from app.training import process as training_process
from app.training.options import CHATS

NAME = "pip-medusa-1"


def write_run(data_dir: Path, *, running: bool = False, **told: object) -> Path:
    """A run whose progress file holds ``told``; running: it is this very process. Never stop that."""
    folder = data_dir / "training" / NAME
    folder.mkdir(parents=True)
    process = (os.getpid(), psutil.Process().create_time()) if running else None
    options = {"target": "pip", "kind": "medusa", "prompts": CHATS, "minutes": 8}
    run = {"name": NAME, "target_name": "Pip", "order": options, "process": process}
    (data_dir / "training" / "current.json").write_text(json.dumps(run))
    if told:
        (folder / "progress.json").write_text(json.dumps(told))
    return folder


def write_log(folder: Path, steps: int) -> None:
    """``steps`` losses, and the acceptance after them."""
    lines: list[dict[str, object]] = [
        {"step": at, "seconds": at * 1.5, "progress": at / 100, "loss": 4 - at / 50}
        for at in range(1, steps + 1)
    ]
    exam = {"depth": 2, "acceptance_length": 1.73, "per_position": [0.5, 0.23]}
    lines.append({"step": steps, "seconds": steps * 1.5, "progress": 0.5, "acceptance": exam})
    (folder / "medusa.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


@contextmanager
def no_orphans() -> Iterator[None]:
    """Kill the trainings that were started inside and still run: they outlive an app that crashes, and
    outlived tests that failed."""
    started: list[subprocess.Popen[bytes]] = []
    start = training_process.start

    def noted(*given: object) -> subprocess.Popen[bytes]:
        started.append(start(*given))  # type: ignore[arg-type]
        return started[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training_process, "start", noted)
        try:
            yield
        finally:
            for process in started:
                with suppress(psutil.Error):
                    for child in psutil.Process(process.pid).children(recursive=True):
                        child.kill()
                process.kill()
                process.wait()
