"""The Models page's endpoints for the hub: look-ups, downloads, the access token. Plain values."""

from __future__ import annotations

from app.inventory.downloads import Download, DownloadState, key_of
from app.runtime import Runtime
from app.ui import words
from app.ui.endpoints import endpoint, outcome, waits
from app.ui.rounds.view import View
from app.ui.words import count
from engine.errors import ForetokenError, TokenNeeded
from engine.loading.inventory import ModelSpec, hub_page
from engine.machine import memory
from engine.machine.secrets import hub_token
from engine.values.units import format_bytes


class TransfersBackend:
    """Look-ups and downloads of one running app."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._looked_up: dict[str, ModelSpec] = {}  # by key, what people may download

    @waits
    @endpoint
    def search(self, data: View) -> View:
        """Return repositories of GGUF files whose names have the ``words``."""
        try:
            hits = self._runtime.inventory.search(str(data.get("words") or ""))
        except ForetokenError as error:
            return {"error": str(error), "hits": []}
        return {
            "error": None,
            "hits": [
                {
                    "name": hit.name,
                    "downloads": count(hit.downloads),
                    "likes": count(hit.likes),
                    "gated": hit.gated,
                }
                for hit in hits
            ],
        }

    @waits
    @endpoint
    def look_up(self, data: View) -> View:
        """Return what can be downloaded from a repository."""
        try:
            found = self._runtime.inventory.look_up(str(data.get("repository") or ""))
        except ForetokenError as error:
            return {"error": str(error), "needs_token": isinstance(error, TokenNeeded)}
        free = memory.free_bytes()
        self._looked_up |= {key_of(spec): spec for spec in found.choices}
        return {
            "error": None,
            "name": found.name,
            "licence": "" if found.licence == "unknown" else found.licence,
            "gated": found.gated,
            "reason": found.reason,
            "choices": [
                {
                    "key": key_of(spec),
                    "name": spec.name,
                    "type": spec.gguf_type or words.LAYOUT,
                    "size": format_bytes(spec.bytes),
                    "fits": spec.bytes < free,
                    "fit": words.weights_alone(format_bytes(spec.bytes), format_bytes(free)),
                    "path": str(self._runtime.locate(spec) or "") or None,
                }
                for spec in found.choices
            ],
        }

    @endpoint
    def download(self, data: View) -> View:
        """Start or queue the missing files of ``pair`` or ``id``, or ``key`` of a look-up."""

        def start() -> None:
            if "key" in data:
                key = str(data["key"])
                if key in self._looked_up:
                    wanted = self._looked_up[key]
                    for spec in (wanted, *wanted.companions):
                        self._runtime.downloads.start(spec)
                else:
                    self._runtime.downloads.resume(key)
                return
            for spec in self._missing(data):
                self._runtime.downloads.start(spec)

        return outcome(start)

    def _missing(self, data: View) -> list[ModelSpec]:
        catalog = self._runtime.catalog
        if data.get("pair"):
            pair = catalog.pair(str(data["pair"]))
            specs = [pair.target, *([pair.draft] if pair.draft else [])]
        else:
            one = catalog.model(str(data["id"]))
            specs = [one, *one.companions]
        return [one for one in specs if one.repository and self._runtime.locate(one) is None]

    @endpoint
    def downloads(self, data: View | None = None) -> View:
        """Return the state of all downloads, by key."""
        downloads = self._runtime.downloads
        # Asked first: what comes by the end is in the last answer.
        working, finished = downloads.working, downloads.finished
        shown = {key: self._download(one) for key, one in downloads.all().items()}
        return {"downloads": shown, "working": working, "finished": finished}

    def _download(self, one: Download) -> View:
        progress = one.progress
        if progress is None:
            done, total = self._runtime.inventory.arrived(one.spec), one.spec.bytes
        else:
            done, total = progress.bytes, progress.total
        running = progress is not None and one.state is DownloadState.RUNNING
        eta = progress.eta_s if progress and running else None
        return {
            "name": one.spec.name,
            "source": one.spec.repository,
            "state": str(one.state),
            "done": format_bytes(done),
            "arrived": bool(done),
            "total": format_bytes(total) if total else "",
            "share": min(done / total, 1.0) if total else None,
            "speed": f"{format_bytes(int(progress.bytes_per_s))}/s"
            if progress and running
            else None,
            "eta": None if eta is None else words.duration(eta),
            "waiting": progress.waiting if progress and running else "",
            "error": one.message or None,
            "needs_token": one.needs_token,
            "unusable": one.unusable,
            "page": hub_page(one.spec),
        }

    @endpoint
    def pause(self, data: View) -> View:
        """Pause a download; keep what has arrived."""
        return outcome(lambda: self._runtime.downloads.pause(str(data["key"])))

    @endpoint
    def discard(self, data: View) -> View:
        """Delete what has arrived of a download that does not run, or of one that cannot be run."""
        return outcome(lambda: self._runtime.downloads.discard(str(data["key"])))

    # ---- the access token

    @endpoint
    def keep_token(self, data: View) -> View:
        """Store an access token and say where."""
        try:
            secret = hub_token()
            place = secret.store(str(data.get("token") or ""))
        except ForetokenError as error:
            return {"error": str(error), "kept": None}
        return {
            "error": None,
            "kept": words.SECRET_KEPT[place].format(what="token", file=secret.file),
        }

    @endpoint
    def forget_token(self, data: View | None = None) -> View:
        """Delete the stored token."""
        return outcome(hub_token().delete)
