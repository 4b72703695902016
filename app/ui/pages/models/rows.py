"""The table of models in plain values: those of the catalog, and others on this machine."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from app.inventory.downloads import key_of
from app.runtime import Runtime
from app.settings.defaults import Default, Defaults
from app.ui import words
from app.ui.endpoints import View
from app.ui.words import count
from app.ui.words.names import beside, model_title, says_size
from app.ui.words.pair import drafter
from engine.api import LoadRequest
from engine.errors import ForetokenError
from engine.files import parse_json
from engine.loading.inventory import (
    LARGEST_SHARE,
    Forecast,
    FoundModel,
    ModelSpec,
    Pairing,
    break_even,
    estimate,
)
from engine.machine import device_memory, memory
from engine.values.units import format_bytes

_STEP = 1 << 30
"""Bytes of free memory that make a difference."""
_TASK = re.compile(r"(ForCausalLM|LMHeadModel|ForConditionalGeneration)$")
"""The end of the name of a class of transformers."""
Best = Mapping[tuple[str, str | None], Default]
"""Measured defaults by the ids of target and draft."""


class Rows:
    """The rows of one running app, as things are now."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._known: dict[object, Forecast | None] = {}
        self._state: object = None  # of the machine, for which they are known

    def all(self) -> list[View]:
        """Return the rows: models that are here, then those that can be downloaded, in the catalog's
        order."""
        runtime = self.runtime
        best, loaded = measured(runtime), runtime.engine.loaded
        free = memory.free_bytes() // _STEP, device_memory.gpu_room() // _STEP
        state = free, bool(loaded and loaded.compiled)  # the first load compiles, for other formats
        if state != self._state:
            self._known, self._state = {}, state
        drafting = {spec.id: spec for spec in runtime.drafting()}
        pairs = {pair.target.id: pair for pair in reversed(runtime.catalog.pairs)}
        found = {each.spec.id: each for each in runtime.found.found if each.spec is not None}
        specs = (*runtime.catalog.models, *runtime.beside_catalog())
        rows = [
            self._row(spec, pairs.get(spec.id), found.get(spec.id), best, drafting)
            for spec in specs
        ]
        return sorted(rows, key=lambda row: not row["here"])

    def _row(
        self,
        spec: ModelSpec,
        pair: Pairing | None,
        found: FoundModel | None,
        best: Best,
        others: Mapping[str, ModelSpec],
    ) -> View:
        here = self.runtime.locate(spec)
        draft = self._draft(spec, pair, here is not None, [*others.values()])
        chosen = others.get(draft["id"]) if pair is None else None
        drafting = (chosen,) if chosen else companions_of(spec, pair, here is not None)
        away = self.away(spec, *drafting)
        request = self.runtime.request(pair.id if pair else spec.id, None if pair else draft["id"])
        forecast = self.forecast(request, (spec, *drafting), here is not None)
        swept = [default for (target, _), default in best.items() if target == spec.id]
        default = max(swept, key=lambda each: each.winner.speedup, default=None)
        return {
            "id": spec.id,
            "name": model_title(found.name if found else spec.name),
            "file": found.name if found else spec.name,
            "note": pair.note if pair else spec.note,
            "pair": pair.id if pair else None,
            "pair_name": pair.name if pair else None,
            "pairs": [one.name for one in self.runtime.catalog.pairs if one.target.id == spec.id],
            "source": self._source(spec),
            "place": self._place(found, here),
            "path": str(here) if here else None,
            "recent": here in self.runtime.found.recent,
            "parameters_text": _parameters(spec),
            "bytes": spec.bytes,
            "size": format_bytes(spec.bytes) if spec.bytes else "",
            "context": f"{spec.context:,}" if spec.context else "",
            "architecture": _TASK.sub("", found.architecture) if found else "",
            "type": found.type if found else spec.gguf_type,
            "licence": "" if spec.licence == "unknown" else spec.licence,
            "gated": spec.gated,
            "here": here is not None,
            "missing": format_bytes(sum(one.bytes for one in away)) if away else None,
            "broken": any(one.repository is None for one in away),
            "downloads": [key_of(spec)] if spec.repository else [],
            "files": [*map(key_of, (*spec.files, *spec.drafters))],
            "fits": fits(forecast),
            "largest": forecast.memory_fit.context if forecast else 0,
            "held": forecast and words.held(forecast, found.type if found else spec.gguf_type),
            "fit": forecast.sentence if forecast else "Its files are missing.",
            "draft": draft,
            "speed": default.winner.speedup if default else None,
            "speed_text": str(default) if default else "",
        }

    def forecast(
        self, request: LoadRequest, specs: Sequence[ModelSpec], here: bool = False
    ) -> Forecast | None:
        """Return what a load takes: of a model that is here as it is planned from files, like its card's,
        else by the sizes of ``specs``; None if they are not known."""
        key = request, tuple(one.id for one in specs), specs[0].bytes, here
        if key not in self._known:
            models = [one for one in specs if one.parameters or not one.method]
            found = None
            with suppress(ForetokenError):  # its load will say it
                found = self.runtime.inventory.forecast(request) if here else None
            with suppress(ForetokenError):
                found = found or (estimate(models, request=request) if models else None)
            self._known[key] = found
        return self._known[key]

    def away(self, *specs: ModelSpec) -> list[ModelSpec]:
        """Return those that are not here."""
        return [one for one in specs if self.runtime.locate(one) is None]

    def _source(self, spec: ModelSpec) -> str:
        return spec.repository or (words.SHIPPED if spec.shipped else str(spec.path))

    def _place(self, found: FoundModel | None, here: Path | None) -> str:
        if found is not None and found.place != str(self.runtime.models):
            return found.place
        return words.DOWNLOADS if here and self.runtime.models in here.parents else ""

    def _draft(
        self, spec: ModelSpec, pair: Pairing | None, here: bool, others: Sequence[ModelSpec]
    ) -> View:
        """Return the ``name`` and ``id`` of the draft that is loaded with it, else of the default one; ""
        for none. ``known`` is False while models are still being compared."""
        loaded = self.runtime.engine.loaded
        if loaded is not None and loaded.target_id == spec.id:
            if loaded.draft_id:
                with suppress(ForetokenError):  # its file is gone
                    return _choice(spec, self.runtime.inventory.spec(loaded.draft_id))
            return {"name": drafter(loaded), "id": loaded.draft_id or "", "known": True}
        if pair is None and spec.mtp:
            return {"name": "MTP included", "id": "", "known": True}
        if pair is None and spec.companions:
            head = self.runtime.inventory.own_head(spec) if here else spec.companions[0]
            if head is not None:
                return {"name": part_of(spec, head), "id": "", "known": True}
        if pair is not None or not here:
            return _choice(spec, None if pair is None else pair.draft)
        small = [one for one in others if (break_even(spec, one) or 1) <= LARGEST_SHARE]
        compared = self.runtime.found.compare(spec, small)
        best = self.runtime.inventory.best_draft(spec, compared.choices)
        return _choice(spec, best, best is not None or not compared.pending)


def measured(runtime: Runtime) -> Best:
    """Return what sweeps on this machine found fastest, by the models of the pair; the last one
    counts."""
    found: dict[tuple[str, str | None], Default] = {}
    for key, default in Defaults(runtime.data_dir).all().items():
        try:
            target, draft = parse_json(key)[:2]
            found[target, draft] = default
        except (ValueError, TypeError):
            continue  # of an older version, which named folders alone
    return found


def companions_of(spec: ModelSpec, pair: Pairing | None, here: bool) -> tuple[ModelSpec, ...]:
    """Return what is downloaded and loaded with a model to draft for it."""
    if pair is None:
        return () if here else spec.companions  # a model that is here loads without them
    return (pair.draft,) if pair.draft else ()


def _parameters(spec: ModelSpec) -> str:
    """Return how many parameters a file has, "" if its name says it: of "1.5B" it may have 1.78 B, as
    some tables are stored twice."""
    return count(spec.parameters) if spec.parameters and not says_size(spec.name) else ""


def _choice(target: ModelSpec, draft: ModelSpec | None, known: bool = True) -> View:
    name = "" if draft is None else beside(target.name, draft.name)
    return {"name": name, "id": draft.id if draft else "", "known": known}


def part_of(spec: ModelSpec, part: ModelSpec) -> str:
    """Return the name of a model's file or drafter without the model's own: "Q8_0", "DFlash head"."""
    return part.name.removeprefix(f"{spec.name}, ").removesuffix(f" for {spec.name}")


def fits(found: Forecast | None) -> str | None:
    """Return "yes", "part" (a shorter context) or "no"; None if it is not known."""
    if found is None:
        return None
    return "yes" if found.memory_fit.fits else "part" if found.memory_fit.context else "no"
