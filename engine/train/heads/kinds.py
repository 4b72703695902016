"""The registry of trainers: a new kind is one file here and one line below.

A kind has the name of its proposer. Its module is imported lazily.
"""

from __future__ import annotations

from pkgutil import resolve_name
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.train.trainer import Trainer

_REGISTRY = {
    "medusa": "engine.train.heads.medusa:MedusaTrainer",
    "eagle3": "engine.train.heads.eagle3:Eagle3Trainer",
    "block": "engine.train.heads.block:BlockTrainer",
    "mlp": "engine.train.heads.speculator:MlpTrainer",
    "lstm": "engine.train.heads.speculator:LstmTrainer",
}


def names() -> tuple[str, ...]:
    """Return all kinds, in the order of menus."""
    return tuple(_REGISTRY)


def trainer(kind: str) -> type[Trainer]:
    """Return the trainer of a kind, one of ``names``."""
    trainer_class: type[Trainer] = resolve_name(_REGISTRY[kind])
    return trainer_class
