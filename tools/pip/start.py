"""Going on from a trained model: its tokenizer, weights and log become the beginning of a new run.

A run that stopped goes on from its own checkpoint. This is for the folder of a finished model, where
the optimisers' state is gone: they begin anew, at the rate that the recipe's schedule has there.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

from engine.errors import ForetokenError
from engine.train.output.model_card import LOG_FILE
from engine.train.output.run_directory import Journal
from engine.train.progress import Clock
from engine.train.schema import Budget
from tools.pip.export import TOKENIZER_FILES
from tools.pip.folder import PairDirectory


class StartError(ForetokenError):
    """A model cannot be gone on from."""


def take_over(start: Path, paths: PairDirectory) -> None:
    """Copies tokenizer and log of the target in `start` into a run that has none yet.

    Raises StartError where that is not a folder that training exported.
    """
    lacking = [
        name for name in (*TOKENIZER_FILES, "model.safetensors") if not (start / name).exists()
    ]
    if lacking:
        raise StartError(
            f"{start}: no {' and no '.join(lacking)} there; --from names a folder with a trained "
            "target in it, such as assets/pip."
        )
    if not (paths.tokenizer / "tokenizer.json").exists():
        paths.tokenizer.mkdir(parents=True, exist_ok=True)
        for name in TOKENIZER_FILES:
            shutil.copyfile(start / name, paths.tokenizer / name)
    log = paths.journal("target").path
    if (start / LOG_FILE).exists() and not log.exists():
        log.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(start / LOG_FILE, log)


def load_weights(start: Path, model: Any) -> None:
    """Puts the weights of the exported model into `model`. Raises StartError if shapes differ."""
    tensors = load_file(str(start / "model.safetensors"))
    found = model.state_dict()
    # The head is the embedding; the export leaves it out.
    wrong = [
        name
        for name, value in found.items()
        if name != "lm_head.weight" and (name not in tensors or tensors[name].shape != value.shape)
    ]
    if wrong:
        raise StartError(
            f"{start}: {wrong[0]} is missing or has another shape than in the recipe; "
            "a run can only go on from a model of its own shape."
        )
    model.load_state_dict(tensors, strict=False)


def clock_of(log: Journal, budget: Budget) -> Clock:
    """The clock at the end of `log`, at zero if it is empty."""
    entries = log.read()
    if not entries:
        return Clock(budget)
    return Clock(budget, entries[-1]["tokens"], entries[-1]["seconds"])
