"""Unloading, and how each model is loaded: endpoints of the Models page. Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from app import diagnostics
from app.runtime import Runtime
from app.settings.preferences import LoadOptions
from app.ui import words
from app.ui.controls.pickers import Pickers
from app.ui.controls.settings import whole
from app.ui.endpoints import View, endpoint
from engine.api import AUTO
from engine.errors import ForetokenError, InvalidRequest, NotLoaded

_OPTIONS = {
    "context": "context",
    "threads": "threads",
    "kv_cache": "kv_cache_dtype",
    "draft_device": "draft_device",
    "gpu_layers": "gpu_layers",
}
"""The fields of load options on the page, and those of ``LoadRequest``."""


class LoadBackend:
    """The loaded model of one running app, and what is remembered for loading each model."""

    def __init__(self, runtime: Runtime, pickers: Pickers) -> None:
        self.runtime, self._pickers = runtime, pickers

    @endpoint
    def unload(self, data: View | None = None) -> bool:
        """Free the memory of the loaded model, after a reply that is being written.

        The next message loads it again; ``status`` names it as ``unloaded`` until then.
        """
        self.runtime.loader.unload()
        return True

    @endpoint
    def load_options(self, data: View) -> View:
        """Return how ``target`` is loaded: each of ``_OPTIONS`` with the ``value`` that is remembered for
        it (None or "auto": the app decides) and what can be chosen.

        ``context.longest`` is the most that this model can have here, ``context.largest`` the most that
        fits now; 0 if unknown. ``choices`` are those of this machine. ``gpu_layers.most`` is the number
        of the model's layers, 0 without a GPU. ``fixed`` names options of the command line by field,
        which come first. ``reload``: the model is loaded with other options than these.
        """
        target = str(data["target"])
        kept, loaded = self.runtime.load_options.of(target), self.runtime.engine.loaded
        request = self.runtime.request(target)
        default, most = diagnostics.thread_limits()
        here = loaded if loaded is not None and loaded.target_id == target else None
        return {
            "context": {"value": kept.context, **self._contexts(target)},
            "threads": {"value": kept.threads, "default": default, "most": most},
            "kv_cache": self._choice(kept.kv_cache_dtype, words.KV_CACHES),
            "draft_device": self._choice(kept.draft_device, words.DRAFT_DEVICES),
            "gpu_layers": {"value": kept.gpu_layers, "most": self._layers(target)},
            "fixed": {
                field: f"--{name.replace('_', '-')}"
                for field, name in _OPTIONS.items()
                if name in self.runtime.fixed
            },
            "reload": here is not None
            and any(getattr(here.request, n) != getattr(request, n) for n in _OPTIONS.values()),
        }

    def _choice(self, value: str, labels: Mapping[str, str]) -> View:
        """Return a value and what may be chosen: auto alone without a GPU."""
        offered = labels if self._pickers.uses_gpu() else {AUTO: labels[AUTO]}
        choices = [{"id": name, "label": label} for name, label in offered.items()]
        return {"value": value, "choices": choices}

    def _layers(self, target: str) -> int:
        with suppress(ForetokenError):  # a model that is gone
            if self._pickers.uses_gpu():
                return self.runtime.inventory.named(self.runtime.request(target, "")).target.layers
        return 0

    def _contexts(self, target: str) -> View:
        try:
            request = replace(self.runtime.request(target, ""), context=None)
            found = self.runtime.inventory.forecast(request)
        except ForetokenError:  # a model that is gone, or whose sizes are not known
            return {"longest": 0, "largest": 0}
        return {"longest": found.longest, "largest": found.memory_fit.context}

    @endpoint
    def keep_load_options(self, data: View) -> View:
        """Remember ``_OPTIONS`` for ``target``; what is missing or empty is left to the app. Return what
        ``load_options`` returns. They apply to the next load. Raises InvalidRequest,
        of a context too that is longer than the model's."""
        target, context = str(data["target"]), whole("context", data.get("context") or None)
        most = self._contexts(target)
        if context and 0 < most["longest"] < context:
            longest, largest = most["longest"], most["largest"]
            fit = "" if largest >= longest else f", of which {largest:,} fit into memory now"
            raise InvalidRequest(
                "context",
                f"The context cannot be {context:,} tokens: this model has {longest:,}{fit}. "
                f"Enter {longest:,} or less.",
            )
        self.runtime.load_options.keep(
            target,
            LoadOptions(
                context=context,
                threads=whole("threads", data.get("threads") or None),
                kv_cache_dtype=str(data.get("kv_cache") or AUTO),
                draft_device=str(data.get("draft_device") or AUTO),
                gpu_layers=whole("gpu_layers", data.get("gpu_layers") or None),
            ),
        )
        return self.load_options(data)

    @endpoint
    def load_again(self, data: View | None = None) -> bool:
        """Load the loaded model again, with the options that are remembered for it, or refuse them."""
        loaded = self.runtime.engine.loaded
        if loaded is None:
            raise NotLoaded(words.NOT_LOADED)
        wanted = self.runtime.request(loaded.target_id)
        options = {name: getattr(wanted, name) for name in _OPTIONS.values()}
        remembered = loaded.request.remembered - options.keys()
        self.runtime.loader.start(replace(loaded.request, **options, remembered=remembered))
        return True
