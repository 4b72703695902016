"""Published models that launch plans know, from the shipped catalog.

A model is found by its id, its repository, or another of its checkpoints, which is the same model in that
checkpoint's format.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType

from app.deploy.formats import AUTO
from app.deploy.model import ModelFacts, of_config
from app.paths import catalog_file
from engine.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A published model, its ``checkpoints`` by weight format, and its ``drafters`` by method."""

    facts: ModelFacts
    checkpoints: Mapping[str, str]
    drafters: Mapping[str, str]

    def in_format(self, weights: str) -> ModelFacts | None:
        """Return the checkpoint in this weight format; None if none is known."""
        if weights in (AUTO, self.facts.format):
            return self.facts
        name = self.checkpoints.get(weights)
        return replace(self.facts, name=name, format=weights) if name else None


@cache
def known_models() -> Mapping[str, KnownModel]:
    """Return the table by id."""
    from engine.loading.inventory import read_catalog_file  # brings NumPy

    return MappingProxyType(
        {
            values["id"]: KnownModel(
                of_config(values["repository"], values["config"], values["id"]),
                MappingProxyType(values.get("checkpoints", {})),
                MappingProxyType(values.get("drafters", {})),
            )
            for entry in read_catalog_file(catalog_file()).models
            if "config" in (values := entry.values)
        }
    )


def entry_of(facts: ModelFacts) -> KnownModel | None:
    """Return the model's entry in the table, in any format; None for a model of the user's own."""
    return known_models().get(facts.id)


def find(name: str) -> ModelFacts | None:
    """Return the model with this id, repository or checkpoint, in any case; None if there is none."""
    wanted = name.casefold()
    for known in known_models().values():
        if wanted in (known.facts.id, known.facts.name.casefold()):
            return known.facts
        for weights, checkpoint in known.checkpoints.items():
            if wanted == checkpoint.casefold():
                return known.in_format(weights)
    return None


def unknown(name: str) -> InvalidRequest:
    """Return the error for a model that is not found."""
    close = difflib.get_close_matches(name.casefold(), known_models(), n=1, cutoff=0.5)
    hint = f" Did you mean {close[0]}?" if close else ""
    return InvalidRequest(
        "target",
        f"'{name}' is neither a folder or GGUF file on this machine nor in the table of published "
        f"models.{hint} Known: {', '.join(known_models())}. For any other model give a folder with its "
        "config.json.",
    )
