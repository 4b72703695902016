"""Choices of the pickers of a pair, and loading the chosen pair. Plain values, no Gradio."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from app.runtime import Runtime
from app.settings.preferences import LoadOptions
from app.ui import words
from app.ui.controls.pickers import Choice, Pickers
from app.ui.endpoints import View, endpoint
from app.ui.pages.models.rows import Rows
from app.ui.words.names import model_title, target_title, titles
from engine.api import AUTO, Loaded, LoadRequest
from engine.errors import InvalidRequest
from engine.loading.inventory import ModelSpec
from engine.values.units import format_bytes


class PairBackend:
    """The pickers of one running app."""

    def __init__(self, pickers: Pickers) -> None:
        self._pickers, self._rows = pickers, Rows(pickers.runtime)

    @endpoint
    def pair_models(self, data: View | None = None) -> list[View]:
        """Return every model that can be loaded: those on this machine, on servers, then those that would
        be downloaded; each with what drafts for it, and whether both fit."""
        there = self._pickers.shown()[0] is not None  # else its folder is gone
        loaded = self._pickers.runtime.engine.loaded if there else None
        rows = {row["id"]: row for row in self._rows.all()}
        specs = self._pickers.models()
        names = titles(*(spec.name for spec in specs))
        return [
            self._model(spec, name, rows.get(spec.id, {}), loaded)
            for spec, name in zip(specs, names, strict=True)
        ]

    def _model(self, spec: ModelSpec, name: str, row: View, loaded: Loaded | None) -> View:
        away = not spec.address and self._pickers.runtime.locate(spec) is None
        size = row.get("missing") if away else row.get("size")
        draft = row.get("draft") or {"name": "", "id": "", "known": True}
        return {
            "id": spec.id,
            "name": name,
            "group": "server" if spec.address else "away" if away else "here",
            "draft": words.with_draft(draft),
            "comparing": not draft["known"],
            "size": size or (format_bytes(spec.bytes) if spec.bytes else ""),
            "fits": row.get("fits"),
            "gated": spec.gated,
            "loaded": loaded is not None and spec.id == loaded.target_id,
        }

    @endpoint
    def pair_choices(self, data: View) -> View:
        """Return the drafts and precisions that ``target`` can be loaded with, each with its value, and
        the label of the button that loads it. What ``data`` does not choose is as it is loaded, else the
        default. ``comparing``: more drafts may follow."""
        target, loaded = str(data["target"]), self._pickers.runtime.engine.loaded
        drafts, draft, comparing = self._pickers.drafts_of(target)
        weights, held = self._pickers.quantizations_of(target), AUTO
        if loaded is not None and loaded.target_id == target:
            draft, held = loaded.draft_id or "", loaded.request.quantization
        draft, held = data.get("draft", draft), data.get("quantization", held)
        return {
            "fields": [
                _field("draft", "Draft", drafts, draft),
                _field("quantization", "Weights", weights, held),
            ],
            "load": self._pickers.load_label(target, draft),
            "comparing": comparing,
        }

    @endpoint
    def load_pair(self, data: View) -> bool:
        """Begin to load, with the best draft if ``data`` has none. Raises ForetokenError for what is
        known at once."""
        runtime = self._pickers.runtime
        if not data.get("target"):
            raise InvalidRequest("target", "Choose a model first.")
        runtime.loader.start(
            chosen(
                runtime,
                str(data["target"]),
                None if data.get("draft") is None else str(data["draft"]),
                str(data.get("quantization") or AUTO),
                data.get("kv_cache") and str(data["kv_cache"]),
                int(data["context"]) if data.get("context") else None,
            )
        )
        return True

    @endpoint
    def load_written(self, data: View) -> bool:
        """Start to load the pair that wrote a reply: by its ``target`` if that was stored, else by the
        title ``model``."""
        return self.load_pair(data if data.get("target") else self._titled(str(data["model"])))

    def _titled(self, pair: str) -> View:
        name = target_title(pair)
        for spec in self._pickers.models():
            if model_title(spec.name) == name:
                return {"target": spec.id}
        raise InvalidRequest(
            "target",
            f"{pair} was not found on this machine. Add its folder on Models, or continue with the "
            "loaded model.",
        )


def pair_of(loaded: Loaded) -> View:
    """Return the argument with which ``load_pair`` loads this pair again."""
    request = loaded.request
    return {
        "target": loaded.target_id,
        "draft": loaded.draft_id,
        "quantization": request.quantization,
        "kv_cache": request.kv_cache_dtype,
        "context": request.context,
    }


def chosen(
    runtime: Runtime,
    target: str,
    draft: str | None,
    quantization: str,
    kv_cache_dtype: str | None,
    context: int | None = None,
) -> LoadRequest:
    """Return the load request of the pickers, with the target's load options. For models that are loaded
    already, keep what no picker shows, such as heads.

    Raises InvalidRequest.
    """
    loaded, request = runtime.engine.loaded, runtime.request(target, draft)
    if loaded is not None and (target, draft) == (loaded.target_id, loaded.draft_id or ""):
        options = {field.name: getattr(request, field.name) for field in fields(LoadOptions)}
        request = replace(loaded.request, **options, remembered=request.remembered)
    picked = {"quantization": quantization, "kv_cache_dtype": kv_cache_dtype, "context": context}
    asked: dict[str, Any] = {name: value for name, value in picked.items() if value}
    return replace(request, **asked, remembered=request.remembered - asked.keys())


def _field(name: str, label: str, choices: list[Choice], value: str) -> View:
    """Return one picker: its label, its choices and its value."""
    offered = [{"id": each, "label": shown} for shown, each in choices]
    return {"name": name, "label": label, "choices": offered, "value": value}
