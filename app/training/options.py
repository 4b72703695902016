"""The options of a training, and its recipe: the shipped one of its kind, adapted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app import paths
from engine.api import SEPARATOR
from engine.errors import InvalidRequest
from engine.train.heads import kinds
from engine.train.schema import load


@dataclass(frozen=True, slots=True)
class TrainingOptions:
    """The options of a training.

    ``target``: a model or pair of the catalog, a folder or a GGUF file; ``prompts``: general, pip, chats
    or a file; ``minutes`` of learning, before which the target's replies are recorded for at most as
    long. ``device``, ``native`` and ``threads`` as in ``LoadRequest``. ``draft``: a model that drafts
    while replies are recorded, "" for the one that the catalog pairs with the target.
    """

    target: str
    kind: str
    prompts: str
    minutes: float
    device: str = "auto"
    native: bool = True
    threads: int | None = None
    draft: str = ""

    @property
    def pair(self) -> str:
        """Return target and draft, as ``LoadRequest.parse`` reads them."""
        return SEPARATOR.join(filter(None, (self.target, self.draft)))


PIP = "pip"
"""The model that comes with the app."""
_MEASURED_A_MINUTE, _MEASURED_LEAST = 4, 8
"""Held-out prompts for each minute of learning, so that a short one is not measured for longer."""
OF_ITS_TARGET = frozenset({"target_layer_ids", "mask_token_id"})
"""Keys of a shape that name layers or tokens of the recipe's own target. Their defaults suit any."""


def shipped_recipe(kind: str, target: str = PIP) -> Path | None:
    """Return the recipe with a kind's defaults for ``target``; None if it has none.

    Pip's own is for a model of some millions of parameters; where there is another, all others get that.
    """
    folder = paths.recipes()
    files = (folder / f"{kind}.yaml", folder / f"pip-{kind}.yaml")
    found = [file for file in (reversed(files) if target == PIP else files) if file.is_file()]
    return found[0] if found else None


def trainable_kinds() -> tuple[str, ...]:
    """Return the kinds that can be trained without a custom recipe."""
    return tuple(kind for kind in kinds.names() if shipped_recipe(kind))


def recipe_for(options: TrainingOptions, name: str) -> dict[str, Any]:
    """Return the kind's own recipe, adapted to these options.

    Left out are the hidden states that only other kinds would read (``replies.layers``), since nothing
    else learns in this run's folder, and what is ``OF_ITS_TARGET``. Raises InvalidRequest.
    """
    file = shipped_recipe(options.kind, options.target)
    if file is None:
        known = ", ".join(trainable_kinds())
        raise InvalidRequest(
            "kind", f"There is no drafter type {options.kind!r}; choose one of {known}."
        )
    content: Any = load(file)
    replies = {key: value for key, value in content["replies"].items() if key != "layers"}
    measured = max(_MEASURED_LEAST, round(_MEASURED_A_MINUTE * options.minutes))
    replies["held_out"] = min(replies["held_out"], measured)
    other = options.target != content["target"]
    shape = {
        key: value
        for key, value in content["shape"].items()
        if not (other and key in OF_ITS_TARGET)
    }
    return {
        **content,
        "name": name,
        "target": options.target,
        "budget": {"minutes": options.minutes},
        "shape": shape,
        "replies": {**replies, "prompts": options.prompts, "minutes": options.minutes},
        "device": options.device,
        "native": options.native,
        "threads": options.threads,
    }
