"""Choices of pickers: models, and the drafts that fit each. Plain values, no Gradio."""

from __future__ import annotations

from collections.abc import Sequence

from app.diagnostics import devices_here
from app.runtime import Runtime
from app.ui import words
from app.ui.words.names import model_title, titles
from engine.api import AS_STORED
from engine.errors import ForetokenError
from engine.loading.inventory import ModelSpec
from engine.values.units import format_bytes

Choice = tuple[str, str]
"""The label of a choice, and the id of a model or the name of a quantization."""


class Pickers:
    """The choices of one running app, as things are on disk now."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime

    def models(self) -> list[ModelSpec]:
        """Return every model that can be a target, in the catalog's order: those on this machine, those
        of servers, then those that would be downloaded."""
        catalog = self.runtime.catalog
        drafts = {pair.draft.id for pair in catalog.pairs if pair.draft is not None}
        targets = {pair.target.id: pair.target for pair in catalog.pairs}
        alone = {
            each.id: each for each in catalog.models if each.id in targets or each.id not in drafts
        }
        listed = [*(alone | targets).values()]
        here = [spec for spec in listed if self.runtime.locate(spec)]
        away = [spec for spec in listed if spec not in here]
        specs = [*here, *self.runtime.beside_catalog(), *catalog.servers, *away]
        own, _ = self.shown()
        if own and own not in {spec.id for spec in specs}:
            specs.insert(0, self.runtime.inventory.spec(own))
        return specs

    def titles_here(self) -> frozenset[str]:
        """Return the titles of the models that can be loaded without a download."""
        here = (each for each in self.models() if each.address or self.runtime.locate(each))
        return frozenset(model_title(each.name) for each in here)

    def drafts_of(self, target: str) -> tuple[list[Choice], str, bool]:
        """Return the drafts that fit, the id of the one that is loaded by default ("" for none), and
        whether models are still being compared, see ``FoundModels.compare``: they are not listed yet."""
        none = (words.NO_DRAFT, "")
        known = self.runtime.inventory
        try:
            judged = self.runtime.drafts_for(known.spec(target))
        except ForetokenError:
            return [none], "", False
        fitting = [choice for choice in judged.choices if choice.fits]
        shown, draft = self.shown()
        if shown == target and draft and draft not in {choice.spec.id for choice in fitting}:
            loaded = known.judge_draft(known.spec(target), known.spec(draft))
            fitting.append(loaded)
        chosen = known.best_draft(known.spec(target), fitting)
        labels = self._labels([choice.spec for choice in fitting])
        drafts = [
            (f"{label}, different vocabulary" if choice.cross_vocabulary else label, choice.spec.id)
            for label, choice in zip(labels, fitting, strict=True)
        ]
        return [*drafts, none], chosen.id if chosen else "", judged.pending

    def quantizations_of(self, target: str) -> list[Choice]:
        """Return the formats of weights that can be requested. Only GGUF files can be kept as stored."""
        try:
            from_gguf = self.runtime.catalog.spec(target).is_gguf
        except ForetokenError:  # a file that is gone; Load says so
            from_gguf = False
        named = words.QUANTIZATIONS.items()
        return [(label, name) for name, label in named if from_gguf or name != AS_STORED]

    def load_label(self, target: str, draft: str) -> str:
        """Return the load button's label, which says whether something will be downloaded."""
        try:
            specs = [self.runtime.inventory.spec(name) for name in (target, draft) if name]
        except ForetokenError:  # a folder that is gone; Load says so
            return words.LOAD
        missing = sum(spec.bytes for spec in specs if self.runtime.locate(spec) is None)
        return f"Download and load, {format_bytes(missing)}" if missing else words.LOAD

    def shown(self) -> tuple[str | None, str]:
        """Return the ids of the target and draft that are loaded or being loaded; None for nothing."""
        target, draft = self.runtime.loader.shown
        try:
            for name in filter(None, (target, draft)):
                self.runtime.inventory.spec(name)
        except ForetokenError:  # a folder that is gone
            return None, ""
        return target, draft

    def _labels(self, specs: Sequence[ModelSpec]) -> list[str]:
        """Return the models' labels; two that would be alike get their file names."""
        names = titles(*(spec.name for spec in specs))
        return [self._label(spec, name) for spec, name in zip(specs, names, strict=True)]

    def _label(self, spec: ModelSpec, name: str) -> str:
        if self.runtime.locate(spec):
            place = self.runtime.found.place_of(spec)
            return name if place is None else words.found(name, place)
        if spec.repository:
            return f"{name}, {format_bytes(spec.bytes)} to download"
        return f"{name}, files missing"

    def uses_gpu(self) -> bool:
        """Return whether loads may use a GPU here."""
        return devices_here()["cuda"] is None and self.runtime.first.device != "cpu"
