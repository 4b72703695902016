"""Published models that launch plans know, from the shipped catalog.

A model is found by its id, its repository, or another of its checkpoints, which is the same model in that
checkpoint's format.
"""

from __future__ import annotations

import difflib
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType

from app.deploy.gpus import AUTO
from app.deploy.model import ModelFacts, block_of, of_config
from app.paths import catalog_file
from engine.api import slug
from engine.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A published model, its ``checkpoints`` by weight format, its ``drafters`` by method, its other
    names, and other heads published for it."""

    facts: ModelFacts
    checkpoints: Mapping[str, str]
    drafters: Mapping[str, str]
    aliases: tuple[str, ...] = ()
    speculators: tuple[str, ...] = ()

    def in_format(self, weights: str) -> ModelFacts | None:
        """Return the checkpoint in this weight format; None if none is known."""
        if weights in (AUTO, self.facts.format):
            return self.facts
        name = self.checkpoints.get(weights)
        if name is None:
            return None
        return replace(self.facts, name=name, format=weights, block=block_of(name, weights))


@cache
def known_models() -> Mapping[str, KnownModel]:
    """Return the table by id."""
    from engine.loading.inventory import read_catalog_file  # brings NumPy

    entries = [entry.values for entry in read_catalog_file(catalog_file()).models]
    configs = {values["id"]: values["config"] for values in entries if "config" in values}
    return MappingProxyType(
        {
            values["id"]: KnownModel(
                of_config(
                    values["repository"],
                    {**configs.get(values.get("config_of"), {}), **values.get("config", {})},
                    values["id"],
                ),
                MappingProxyType(values.get("checkpoints", {})),
                MappingProxyType(values.get("drafters", {})),
                tuple(values.get("aliases", ())),
                tuple(values.get("speculators", ())),
            )
            for values in entries
            if "config" in values or "config_of" in values
        }
    )


def entry_of(facts: ModelFacts) -> KnownModel | None:
    """Return the model's entry in the table, in any format; None for a model of the user's own."""
    return known_models().get(facts.id)


@cache
def heads() -> Mapping[str, tuple[tuple[str, str], ...]]:
    """Return the published heads by name in lower case: each method and the id of its target."""
    found: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for id, entry in known_models().items():
        for method, name in entry.drafters.items():
            found[name.casefold()].append((method, id))
        for name in entry.speculators:
            found[name.casefold()] += ((method, id) for method in methods_of(name))
    return MappingProxyType({name: tuple(pairs) for name, pairs in found.items()})


def methods_of(head: str) -> list[str]:
    """Return the methods whose name is in the head's."""
    return [method for method in ("eagle3", "dflash", "dspark") if method in head.casefold()]


def find(name: str) -> ModelFacts | None:
    """Return the model with this id, repository, other name, title or checkpoint, in any case; None if
    none has."""
    wanted = name.casefold()
    if by_title := known_models().get(slug(name)):
        return by_title.facts
    for known in known_models().values():
        names = (known.facts.id, known.facts.name, *known.aliases)
        if wanted in (name.casefold() for name in names):
            return known.facts
        for weights, checkpoint in known.checkpoints.items():
            if wanted == checkpoint.casefold():
                return known.in_format(weights)
    return None


def _numbers(name: str) -> list[str]:
    """Return the numbers of a name: models of another size or version are not the same misspelt."""
    return re.findall(r"\d+(?:\.\d+)?", name)


def unknown(name: str) -> InvalidRequest:
    """Return the error for a model that is not found."""
    wanted = name.casefold().rpartition("/")[2]
    alike = [each for each in known_models() if _numbers(each) == _numbers(wanted)]
    close = difflib.get_close_matches(wanted, alike, n=1, cutoff=0.5)
    some = [*known_models()][:5]
    more = f"{', '.join(some)} and {len(known_models()) - len(some)} more"
    hint = f"Did you mean {close[0]}?" if close else f"Known: {more}."
    return InvalidRequest(
        "target",
        f"'{name}' is neither a folder or GGUF file here nor a known published "
        f"model. {hint} For any other model give a folder with its config.json.",
    )
