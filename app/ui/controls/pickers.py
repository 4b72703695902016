"""Choices of pickers: all targets, and the drafts that fit each. Plain values, no Gradio."""

from __future__ import annotations

from collections.abc import Sequence

from app.diagnostics import devices_here
from app.runtime import Runtime
from app.ui.words import Words
from app.ui.words.names import titles
from engine.api import AS_STORED, AUTO, FP8
from engine.errors import ForetokenError
from engine.loading.inventory import ModelSpec
from engine.values.units import format_bytes

Choice = tuple[str, str]
"""The label of a choice, and the id of a model or the name of a quantization."""


class Pickers:
    """The choices of one running app, as things are on disk now."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime

    def targets(self) -> list[Choice]:
        """Return the label and id of every model that can be a target."""
        models = self.models()
        ids = [spec.id for spec in models]
        return list(zip(self._labels(models), ids, strict=True))

    def models(self) -> list[ModelSpec]:
        """Return every model that can be a target: those on this machine, those of servers, then those
        that would be downloaded."""
        catalog = self.runtime.catalog
        drafts = {pair.draft.id for pair in catalog.pairs if pair.draft is not None}
        first = {pair.target.id: pair.target for pair in catalog.pairs}
        rest = {spec.id: spec for spec in catalog.models if spec.id not in drafts}
        listed = [*(first | rest).values()]
        here = [spec for spec in listed if self.runtime.locate(spec)]
        away = [spec for spec in listed if spec not in here]
        specs = [*here, *self.runtime.beside_catalog(), *catalog.servers, *away]
        own, _ = self.shown()
        if own and own not in {spec.id for spec in specs}:
            specs.insert(0, self.runtime.inventory.spec(own))
        return specs

    def drafts_of(self, target: str | None) -> tuple[list[Choice], str]:
        """Return the drafts that fit, and the id of the one that is loaded by default ("" for none).

        A model found on this machine is listed once it was compared; see ``FoundModels.compare``.
        """
        none = (Words.NO_DRAFT, "")
        if not target:
            return [none], ""
        if self.is_server(target):
            return [(Words.SERVER_DRAFTS, "")], ""
        known = self.runtime.inventory
        try:
            choices = self.runtime.drafts_for(known.spec(target)).choices
        except ForetokenError:
            return [none], ""
        fitting = [choice for choice in choices if choice.fits]
        shown, draft = self.shown()
        if shown == target and draft and draft not in {choice.spec.id for choice in fitting}:
            loaded = known.judge_draft(known.spec(target), known.spec(draft))
            fitting.append(loaded)
        chosen = known.best_draft(known.spec(target), fitting)
        labels = self._labels([choice.spec for choice in fitting])
        drafts = [
            (Words.other_vocabulary(label) if choice.cross_vocabulary else label, choice.spec.id)
            for label, choice in zip(labels, fitting, strict=True)
        ]
        return [*drafts, none], chosen.id if chosen else ""

    def quantizations_of(self, target: str | None) -> list[Choice]:
        """Return the formats of weights that can be requested. Only GGUF files can be kept as stored; a
        server has loaded its weights already."""
        if self.is_server(target):
            return [(Words.SERVER_HOLDS, AUTO)]
        try:
            from_gguf = bool(target) and self.runtime.catalog.spec(target or "").is_gguf
        except ForetokenError:  # a file that is gone; Load says so
            from_gguf = False
        named = Words.QUANTIZATIONS.items()
        return [(label, name) for name, label in named if from_gguf or name != AS_STORED]

    def is_server(self, target: str | None) -> bool:
        """Return whether the target runs on a server."""
        try:
            return bool(target) and bool(self.runtime.inventory.spec(target or "").address)
        except ForetokenError:
            return False

    def load_label(self, target: str | None, draft: str | None) -> str:
        """Return the load button's label, which says whether something will be downloaded."""
        if self.is_server(target):
            return Words.CONNECT
        try:
            specs = [self.runtime.inventory.spec(name) for name in (target, draft) if name]
        except ForetokenError:  # a folder that is gone; Load says so
            return Words.LOAD
        missing = sum(spec.bytes for spec in specs if self.runtime.locate(spec) is None)
        return f"{Words.LOAD_DOWNLOAD}, {format_bytes(missing)}" if missing else Words.LOAD

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
        if spec.address:
            return Words.on_server(name)
        if self.runtime.locate(spec):
            place = self.runtime.found.place_of(spec)
            return name if place is None else Words.found(name, place)
        return Words.away(name, format_bytes(spec.bytes) if spec.repository else None)

    def kv_caches(self) -> list[Choice]:
        """Return the KV cache formats that can be requested here; fp8 needs a GPU."""
        gpu = devices_here()["cuda"] is None and self.runtime.first.device != "cpu"
        return [(label, name) for name, label in Words.KV_CACHES.items() if gpu or name != FP8]
