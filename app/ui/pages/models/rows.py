"""The table of models in plain values: the catalog, and what lies on this machine beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from app.defaults import Default, Defaults
from app.downloads import key_of
from app.runtime import Runtime
from app.ui.view import View
from app.ui.words import Words, count
from engine.loading import fit as memory
from engine.loading.discovery import FoundModel
from engine.loading.drafts import why_not_by_catalog
from engine.loading.fit import MemoryFit, ModelSize, human
from engine.loading.specs import ModelSpec, Pairing

Models = tuple[str, str | None]
"""The ids of a target and of its draft."""


class Rows:
    """The rows of one running app, as things are now."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime

    def all(self) -> list[View]:
        """What is here first, then what can be downloaded, each in the catalog's order."""
        runtime = self.runtime
        free, best = memory.free_bytes(), measured(runtime)
        pairs = {pair.target.id: pair for pair in reversed(runtime.catalog.pairs)}
        found = {each.spec.id: each for each in runtime.found.found if each.spec is not None}
        specs = (*runtime.catalog.models, *runtime.beside_catalog())
        rows = [
            self._row(spec, pairs.get(spec.id), found.get(spec.id), free, best) for spec in specs
        ]
        return sorted(rows, key=lambda row: not row["here"])

    def _row(
        self,
        spec: ModelSpec,
        pair: Pairing | None,
        found: FoundModel | None,
        free: int,
        best: Mapping[Models, Default],
    ) -> View:
        here = self.runtime.locate(spec)
        members = [spec] if pair is None or pair.draft is None else [spec, pair.draft]
        away = [one for one in members if self.runtime.locate(one) is None]
        known = all(one.parameters for one in members)
        room = memory.fit(*map(ModelSize.of, members), free=free) if known else None
        swept = [default for (target, _), default in best.items() if target == spec.id]
        default = max(swept, key=lambda each: each.winner.speedup, default=None)
        return {
            "id": spec.id,
            "name": found.name if found else spec.name,
            "note": pair.note if pair else spec.note,
            "pair": pair.id if pair else None,
            "pair_name": pair.name if pair else None,
            "pairs": [one.name for one in self.runtime.catalog.pairs if one.target.id == spec.id],
            "source": self._source(spec),
            "place": self._place(found, here),
            "path": str(here) if here else None,
            "recent": here in self.runtime.found.recent,
            "parameters": spec.parameters,
            "parameters_text": count(spec.parameters) if spec.parameters else "",
            "bytes": spec.bytes,
            "size": human(spec.bytes) if spec.bytes else "",
            "context": f"{spec.context:,}" if spec.context else "",
            "architecture": Words.architecture(found.architecture) if found else "",
            "type": found.type if found else "",
            "licence": "" if spec.licence == "unknown" else spec.licence,
            "gated": spec.gated,
            "here": here is not None,
            "missing": human(sum(one.bytes for one in away)) if away else None,
            "broken": any(one.repository is None for one in away),
            "downloads": [key_of(one) for one in members if one.repository],
            "fits": _fits(room),
            "fit": room.sentence if room else Words.FILES_MISSING,
            "drafters": self._drafters(spec),
            "speed": default.winner.speedup if default else None,
            "speed_text": str(default) if default else "",
        }

    def _source(self, spec: ModelSpec) -> str:
        return spec.repository or (Words.SHIPPED if spec.shipped else str(spec.path))

    def _place(self, found: FoundModel | None, here: Path | None) -> str:
        if found is not None and found.place != str(self.runtime.models):
            return found.place
        return Words.DOWNLOADS if here and self.runtime.models in here.parents else ""

    def _drafters(self, spec: ModelSpec) -> View:
        """How many fit, by kind, as far as is known at once; ``known`` False where more may."""
        catalog = self.runtime.catalog
        heads = {head for pair in catalog.pairs if pair.target.id == spec.id for head in pair.heads}
        if spec in catalog.models:
            others = (each for each in catalog.models if each.id != spec.id)
            by_catalog = {one.id for one in others if why_not_by_catalog(spec, one) is None}
        else:
            by_catalog = set()
        here = (*filter(self.runtime.locate, catalog.models), *self.runtime.beside_catalog())
        compared = self.runtime.found.compared(spec, here)
        fitting = {choice.spec.id for choice in compared.choices if choice.fits}
        is_here = self.runtime.locate(spec) is not None
        known = is_here and not compared.pending and not self.runtime.found.heads
        return {"drafts": len(by_catalog | fitting), "heads": len(heads), "known": known}


def measured(runtime: Runtime) -> dict[Models, Default]:
    """What sweeps found fastest on this machine, by the models of the pair; the last one counts."""
    found: dict[Models, Default] = {}
    for key, default in Defaults(runtime.data_dir).all().items():
        try:
            target, draft = json.loads(key)[:2]
            found[target, draft] = default
        except (ValueError, TypeError):
            continue  # of an older version, which named folders alone
    return found


def _fits(fit: MemoryFit | None) -> str | None:
    return None if fit is None else "yes" if fit.fits else "part" if fit.context else "no"
