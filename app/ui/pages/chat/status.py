"""What is loaded and what is being loaded, which every page shows. Plain values: no Gradio, no HTML."""

from __future__ import annotations

from app.loading import STAGES, LoadState
from app.runtime import Runtime
from app.settings.defaults import Defaults
from app.storage.store import Store
from app.ui import words
from app.ui.controls.stored_settings import StoredSettings
from app.ui.endpoints import View, endpoint
from app.ui.words import pair as pair_words
from app.ui.words.names import model_title, title
from engine.api import NO_TEMPLATE, DownloadProgress, Loaded, LoadProgress
from engine.loading.inventory import EMBEDDED
from engine.values.units import format_bytes


class StatusBackend:
    """The loaded pair of one running app, and the load in progress."""

    def __init__(
        self, runtime: Runtime, store: Store, stored: StoredSettings, defaults: Defaults
    ) -> None:
        self._runtime, self._store, self._stored, self._defaults = runtime, store, stored, defaults

    @endpoint
    def status(self, data: View | None = None) -> View:
        """Return what is loaded and being loaded, and what was ``unloaded``: a message loads it again."""
        status, before = self._runtime.loader.status, self._runtime.loader.unloaded
        working = status.state is LoadState.WORKING
        failed = status.state is LoadState.FAILED
        looking = self._runtime.found.working  # asked first: the last version is told with its end
        pair = " + ".join(map(words.place, title(status.name).split(" + ")))
        return {
            "loaded": self._loaded(),
            "unloaded": title(before.name) if before and not self._runtime.engine.loaded else None,
            "opening": f"{status.message} {pair}" if working else None,
            "waits": self.waits,
            "settings": self._stored.version,
            "written": self._store.written(),
            "progress": show_progress(status.progress) if working else None,
            "cancelling": status.cancelling,
            "loads": self._runtime.loader.ended,
            "failed": status.message if failed else status.note or None,
            "found": self._runtime.found.version,
            "looking": looking,
        }

    @property
    def waits(self) -> bool:
        """True while a message waits for a load. During a download the loaded pair still answers."""
        status, loaded = self._runtime.loader.status, self._runtime.engine.loaded
        downloading = isinstance(status.progress, DownloadProgress)
        return status.state is LoadState.WORKING and not (downloading and loaded is not None)

    @endpoint
    def cancel_loading(self, data: View | None = None) -> bool:
        """Cancel the load; keep what is loaded."""
        self._runtime.loader.cancel()
        return self._runtime.loader.working

    def _loaded(self) -> View | None:
        loaded = self._runtime.engine.loaded
        found, measured = describe(loaded), self._defaults.of(loaded)
        if found and measured:
            found["detail"] += f"\nDefault for this model: {measured}. Change it on Tune."
        return found


def show_progress(progress: DownloadProgress | LoadProgress | None) -> View | None:
    """Return how far a download or load is; ``share`` is None if that is unknown."""
    if progress is None:
        return None
    shown = {
        "done": format_bytes(progress.bytes),
        "total": format_bytes(progress.total),
        "share": progress.fraction,
    }
    if isinstance(progress, LoadProgress):
        return {**shown, "doing": STAGES[progress.stage], "speed": None, "eta": None}
    speed = f"{format_bytes(int(progress.bytes_per_s))}/s"
    eta = None if progress.eta_s is None else words.duration(progress.eta_s)
    return {**shown, "doing": None, "speed": speed, "eta": eta}


def describe(loaded: Loaded | None) -> View | None:
    """Return what the page shows of the loaded pair."""
    if loaded is None:
        return None
    return {
        "name": loaded.name,
        "id": loaded.id,
        "title": title(loaded.name),
        "greeting": model_title(loaded.target_name),
        "pip": loaded.target_id == EMBEDDED,
        "base": NO_TEMPLATE in loaded.notes,
        "target": loaded.target_id,
        "draft": loaded.draft_id,
        "label": pair_words.label(title(loaded.name), loaded),
        "detail": pair_words.loaded_detail(loaded),
        "context": loaded.context,
        "proposers": list(loaded.capabilities.names),
        "blind": _blind(loaded),
    }


def _blind(loaded: Loaded) -> str:
    """Return why the target sees no images, "" if it does, with its title as elsewhere on the pages."""
    if loaded.capabilities.images:
        return ""
    name = loaded.target_name
    return loaded.capabilities.why_no_images.replace(name, model_title(name), 1)
