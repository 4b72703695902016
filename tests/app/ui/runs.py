"""Runs in every state, as files: what a training process leaves behind, without one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import psutil

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
