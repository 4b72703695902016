"""Choices of the pickers of a pair, and loading the chosen pair. Plain values, no Gradio."""

from __future__ import annotations

from dataclasses import replace

from app.runtime import Runtime
from app.ui.controls.pickers import Choice, Pickers
from app.ui.endpoints import endpoint
from app.ui.rounds.view import View
from app.ui.words import Words
from app.ui.words.names import model_title
from engine.api import AUTO, Loaded, LoadRequest
from engine.errors import ForetokenError, InvalidRequest


class PairBackend:
    """The pickers of one running app."""

    def __init__(self, pickers: Pickers) -> None:
        self._pickers = pickers

    @endpoint
    def pair_choices(self, data: View) -> View:
        """Return what the pickers offer and show.

        Without a ``target``: the pair that is loaded or being loaded. With one: what goes with it, and
        the best ``draft`` if none is chosen.
        """
        if not data.get("target"):
            return self._shown()
        target, draft = str(data["target"]), data.get("draft")
        drafts, paired = self._pickers.drafts_of(target)
        known = {name for _, name in drafts}
        draft = draft if draft in known else paired
        held = (str(data.get("quantization") or AUTO), str(data.get("kv_cache") or AUTO))
        return self._view(target, draft, drafts, *held)

    def _shown(self) -> View:
        target, draft = self._pickers.shown()
        if target is None:
            target = next((name for _, name in self._pickers.targets()), "")
            drafts, draft = self._pickers.drafts_of(target)
        else:
            drafts, _ = self._pickers.drafts_of(target)
        loaded = self._pickers.runtime.engine.loaded
        request = self._pickers.runtime.first if loaded is None else loaded.request
        return self._view(target, draft, drafts, request.quantization, request.kv_cache_dtype)

    def _view(
        self, target: str, draft: str, drafts: list[Choice], quantization: str, kv_cache: str
    ) -> View:
        weights = self._pickers.quantizations_of(target)
        if quantization not in {name for _, name in weights}:
            quantization = AUTO
        caches = self._pickers.kv_caches()
        if self._pickers.is_server(target):
            caches = [(Words.SERVER_HOLDS, AUTO)]
        fields = [
            _field("target", Words.TARGET, Words.TARGET_INFO, self._pickers.targets(), target),
            _field("draft", Words.DRAFT, Words.DRAFT_INFO, drafts, draft),
            _field(
                "quantization", Words.QUANTIZATION, Words.QUANTIZATION_INFO, weights, quantization
            ),
            _field("kv_cache", Words.KV_CACHE, Words.KV_CACHE_INFO, caches, kv_cache),
        ]
        return {
            # What has one choice is no question.
            "fields": [
                each for each in fields if len(each["choices"]) > 1 or each["name"] == "draft"
            ],
            "load": self._pickers.load_label(target, draft),
        }

    @endpoint
    def load_pair(self, data: View) -> View:
        """Begin to load, with the best draft if ``data`` has none. Return the error that is known at
        once, if any."""
        runtime = self._pickers.runtime
        try:
            if not data.get("target"):
                raise InvalidRequest("target", Words.NO_TARGET)
            runtime.loader.start(
                chosen(
                    runtime,
                    str(data["target"]),
                    None if data.get("draft") is None else str(data["draft"]),
                    str(data.get("quantization") or AUTO),
                    str(data.get("kv_cache") or AUTO),
                    int(data["context"]) if data.get("context") else None,
                )
            )
        except ForetokenError as error:
            return {"error": str(error)}
        return {"error": None}

    @endpoint
    def load_written(self, data: View) -> View:
        """Start to load the pair that wrote a reply: by its ``target`` if that was stored, else by the
        title ``model``."""
        return self.load_pair(data if data.get("target") else self._titled(str(data["model"])))

    def _titled(self, pair: str) -> View:
        name = pair.split(" + ", maxsplit=1)[0]
        for spec in self._pickers.models():
            if model_title(spec.name) == name:
                return {"target": spec.id, "draft": self._pickers.drafts_of(spec.id)[1]}
        raise InvalidRequest("target", Words.writer_gone(pair))


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
    kv_cache_dtype: str,
    context: int | None = None,
) -> LoadRequest:
    """Return the load request of the pickers. For models that are loaded already, keep what no picker
    shows, such as heads.

    Raises InvalidRequest.
    """
    loaded, request = runtime.engine.loaded, runtime.request(target, draft)
    if loaded is not None and (target, draft) == (loaded.target_id, loaded.draft_id or ""):
        request = loaded.request
    return replace(
        request,
        quantization=quantization,
        kv_cache_dtype=kv_cache_dtype,
        context=context or request.context,
    )


def _field(name: str, label: str, info: str, choices: list[Choice], value: str) -> View:
    """Return one picker: its label, its choices and its value."""
    offered = [{"id": each, "label": shown} for shown, each in choices]
    return {"name": name, "label": label, "info": info, "choices": offered, "value": value}
