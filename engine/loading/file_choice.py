"""Choose the file of a model that its id means: the one that is here, else one that suits the machine."""

from __future__ import annotations

from dataclasses import replace

from engine.loading.catalog import Catalog
from engine.loading.planning.forecast import estimate
from engine.loading.specs import Locate, ModelSpec
from engine.machine import memory

ENOUGH_CONTEXT = 4096
"""Tokens of context that a file or a draft must leave, if the model has as many."""
_SHARE = 0.75
"""Share of the machine's memory that a model may take. Not what is free now, which would change the
choice, and what a click downloads, from minute to minute."""


def choose_files(catalog: Catalog, locate: Locate) -> Catalog:
    """Return ``catalog`` with the chosen file of each model, under the model's own id."""
    room = int(_SHARE * memory.total_bytes())
    models = {spec.id: choose_file(spec, locate, room) for spec in catalog.models}
    pairs = tuple(
        replace(
            pair,
            target=models[pair.target.id],
            draft=None if pair.draft is None else models[pair.draft.id],
        )
        for pair in catalog.pairs
    )
    return replace(catalog, models=tuple(models.values()), pairs=pairs)


def choose_file(spec: ModelSpec, locate: Locate, room: int) -> ModelSpec:
    """Return ``spec`` with the file that is here; without one, with its four-bit file if that fits in
    ``room`` bytes, else with the largest below it that does, else with the four-bit one all the same."""
    if not spec.files:
        return spec
    usual = spec.files[0]
    smaller = (one for one in spec.files if one.bytes < usual.bytes)
    wanted = (usual, *sorted(smaller, key=lambda one: -one.bytes))
    here = (one for one in spec.files if locate(one) is not None)
    fitting = (one for one in wanted if _fits(one, room))
    chosen = next(here, None) or next(fitting, usual)
    return replace(chosen, id=spec.id, name=spec.name, files=spec.files)


def _fits(spec: ModelSpec, room: int) -> bool:
    enough = min(ENOUGH_CONTEXT, spec.context)
    return estimate([spec], free=room).memory_fit.context >= enough
