"""The registry of what can be trained: a new kind is one file here and one line below.

A kind has the name of the proposer that drafts with it. Its module is imported only when it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.train.trainer import Trainer

_REGISTRY = {
    "medusa": "engine.train.heads.medusa:MedusaTrainer",
    "eagle3": "engine.train.heads.eagle3:Eagle3Trainer",
    "block": "engine.train.heads.block:BlockTrainer",
    "mlp": "engine.train.heads.mlp:MlpTrainer",
    "lstm": "engine.train.heads.lstm:LstmTrainer",
}


def names() -> tuple[str, ...]:
    """All kinds, in the order they are offered."""
    return tuple(_REGISTRY)


def trainer(kind: str) -> type[Trainer]:
    """The class that trains a kind, one of ``names``."""
    module, _, attribute = _REGISTRY[kind].partition(":")
    found: Any = getattr(import_module(module), attribute)
    chosen: type[Trainer] = found
    return chosen
