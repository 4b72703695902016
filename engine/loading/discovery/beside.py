"""The draft that is loaded with a target where nobody chose one: the best that lies on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from engine.errors import ModelError
from engine.loading.catalog import Catalog
from engine.loading.discovery.scan import scan
from engine.loading.discovery.system import System
from engine.loading.drafts import MOST, best_draft, judge_draft
from engine.loading.planning.forecast import by_sizes
from engine.loading.request import AUTO, LoadRequest
from engine.loading.specs import Locate, ModelSpec

ENOUGH_CONTEXT = 4096
"""Tokens of context that a draft has to leave, where the target alone has as many."""


def with_best_draft(
    request: LoadRequest, catalog: Catalog, locate: Locate, system: System, folders: Sequence[Path]
) -> LoadRequest:
    """Return ``request`` with the best draft for its target, and "" where there is none.

    A request that names its draft, heads, a pair of the catalog, a server, or a model that is not here
    stays as it is. Drafts are looked for beside the target, in ``folders`` and in other programs' places.
    Reads the headers of what is small enough. Raises as ``Catalog.named``.
    """
    pairing = catalog.named(request)
    target = pairing.target
    if request.draft is not None or request.heads or pairing in catalog.pairs:
        return request
    place = None if target.address else locate(target)
    if place is None:
        return request
    found = scan(system, (place.parent, *folders), below=int(MOST * target.bytes))
    here = [spec for spec in catalog.models if locate(spec) is not None]
    specs = {
        spec.id: spec for spec in (*here, *(one.spec for one in found if one.spec is not None))
    }

    def suits(draft: ModelSpec) -> bool:
        choice = judge_draft(target, draft, locate)
        return (
            choice.fits
            and choice.cross_vocabulary is None
            and has_room(target, draft, request.quantization)
        )

    chosen = best_draft(target, specs.values(), suits, catalog.paired(target))
    return replace(request, draft="" if chosen is None else chosen.id)


def has_room(target: ModelSpec, draft: ModelSpec, quantization: str = AUTO) -> bool:
    """Whether ``draft`` fits beside ``target``, which is held as without it, with enough context."""
    try:
        alone = by_sizes([target], quantization=quantization)
        beside = by_sizes([target, draft], quantization=quantization)
    except ModelError:  # nothing is known of one
        return False
    enough = min(ENOUGH_CONTEXT, alone.room.context)
    return beside.held == alone.held and beside.room.context >= enough
