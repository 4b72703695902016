"""A queue of downloads on a thread, with pause and resume, which survives the end of the app.

Unfinished downloads are listed in a file of the data folder and paused at the next start; their bytes
are in the models folder, where a resumed download continues.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from app.settings.settings_file import SettingsFile, Values
from engine.api import DownloadProgress
from engine.errors import DownloadCancelled, ForetokenError, TokenNeeded
from engine.loading.inventory import Inventory, ModelSpec

FILE = "downloads.json"
_STORED = (
    "id", "name", "repository", "revision", "file", "licence", "gated", "parameters", "bytes", "method",
)  # fmt: skip
"""The stored fields of a model, which need not be in the catalog."""

log = logging.getLogger(__name__)


class DownloadState(StrEnum):
    """State of a download; a complete one leaves the list, unless it cannot be run."""

    WAITING = "waiting"
    RUNNING = "running"
    PAUSED = "paused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Download:
    """``message`` says why it failed; ``needs_token``: an access token would help; ``unusable``: all of
    it arrived, but cannot be run."""

    spec: ModelSpec
    state: DownloadState
    progress: DownloadProgress | None = None
    message: str = ""
    needs_token: bool = False
    unusable: bool = False


def key_of(spec: ModelSpec) -> str:
    """Return the key of a download, unique in the list."""
    return f"{spec.repository}@{spec.revision}/{spec.file}"


class Downloads:
    """The downloads of one running app. Thread-safe. ``finished`` counts complete ones, since a quick
    one may never be seen in the list."""

    def __init__(self, data_dir: Path, inventory: Inventory, on_done: Callable[[], None]) -> None:
        """``on_done`` is called when a download is complete."""
        self._file = SettingsFile(data_dir / FILE, _specs)
        self._inventory, self._on_done = inventory, on_done
        self._lock = threading.Lock()
        self._list = {key_of(one.spec): one for one in self._read()}
        self._worker: threading.Thread | None = None
        self._stop: str | None = None  # the key of the running one that is to end
        self._closed = False
        self.finished = 0

    def all(self) -> dict[str, Download]:
        """Return the downloads by key, oldest first."""
        with self._lock:
            return dict(self._list)

    @property
    def working(self) -> bool:
        """True while anything runs or waits."""
        return self._worker is not None

    def goes_on(self, key: str) -> bool:
        """Return whether a download waits or runs, and nobody has paused it."""
        with self._lock:
            one, on = self._list.get(key), (DownloadState.WAITING, DownloadState.RUNNING)
            return one is not None and one.state in on and self._stop != key

    def start(self, spec: ModelSpec) -> str:
        """Queue a download, new or paused, and return its key. What cannot be run is deleted first.
        Raises DiskError."""
        key = key_of(spec)
        with self._lock:
            earlier = self._list.get(key)
            if earlier is not None and earlier.unusable:
                self._delete(earlier)
            if earlier is None or earlier.state in (DownloadState.PAUSED, DownloadState.FAILED):
                progress = earlier.progress if earlier and not earlier.unusable else None
                self._list[key] = Download(spec, DownloadState.WAITING, progress)
            if self._stop == key:
                self._stop = None
            self._write()
            if self._worker is None and not self._closed:
                self._worker = threading.Thread(target=self._work, name="download", daemon=True)
                self._worker.start()
        return key

    def resume(self, key: str) -> None:
        """Resume a paused or failed download, if it is still in the list."""
        download = self.all().get(key)
        if download is not None:
            self.start(download.spec)

    def pause(self, key: str) -> None:
        """Stop a download at its next bytes; what arrived stays for ``resume``."""
        with self._lock:
            download = self._list.get(key)
            if download is None:
                return
            if download.state is DownloadState.WAITING:
                self._list[key] = replace(download, state=DownloadState.PAUSED)
            elif download.state is DownloadState.RUNNING:
                self._stop = key

    def discard(self, key: str) -> None:
        """Remove a download that does not run, and delete what arrived. Raises OSError, DiskError."""
        with self._lock:
            download = self._list.get(key)
            if download is None or download.state is DownloadState.RUNNING:
                return
            del self._list[key]
            self._write()
        self._delete(download)
        if download.unusable:
            self._changed()

    def _delete(self, download: Download) -> None:
        """Delete what arrived; a complete model too if it cannot be run."""
        place = self._inventory.locate(download.spec) if download.unusable else None
        if place is None:
            self._inventory.discard(download.spec)
        else:
            self._inventory.delete(place, ())

    def close(self) -> None:
        """Stop the running download at its next bytes; it stays in the list for the next start."""
        with self._lock:
            self._closed = True
            worker = self._worker
            self._stop = next(
                (k for k, each in self._list.items() if each.state is DownloadState.RUNNING), None
            )
        if worker is not None:
            worker.join(2)

    # ---- on the thread

    def _work(self) -> None:
        while True:
            with self._lock:
                waiting = (
                    key for key, one in self._list.items() if one.state is DownloadState.WAITING
                )
                key = None if self._closed else next(waiting, None)
                if key is None:
                    self._worker = None
                    return
                running = replace(self._list[key], state=DownloadState.RUNNING, message="")
                self._list[key] = running
            if self._run(key, running.spec):
                self._changed()

    def _changed(self) -> None:
        self._on_done()
        self.finished += 1  # after ``on_done``: who sees the count finds the model

    def _run(self, key: str, spec: ModelSpec) -> bool:
        """Download ``spec`` and return whether all of it arrived."""
        end: Download | None = None
        try:
            self._inventory.download(
                spec,
                lambda progress: self._progressed(key, progress),
                lambda: self._stop == key or self._closed,
            )
            end = self._judged(spec)
        except DownloadCancelled:
            end = Download(spec, DownloadState.PAUSED)
        except ForetokenError as error:
            needs_token = isinstance(error, TokenNeeded)
            end = Download(spec, DownloadState.FAILED, None, str(error), needs_token)
            log.error("%s", error)
        # The error of a thread would otherwise vanish, and its bar stand still.
        except Exception as error:
            message = (
                f"{spec.name} could not be downloaded: {error!r}. Diagnostics on the "
                "Settings page shows the details."
            )
            end = Download(spec, DownloadState.FAILED, None, message)
            log.exception("%s could not be downloaded", spec.name)
        with self._lock:
            if self._stop == key:
                self._stop = None
            if end is None:
                self._list.pop(key, None)
                self._write()
            else:
                self._list[key] = replace(end, progress=self._list[key].progress)
        return end is None or end.unusable

    def _judged(self, spec: ModelSpec) -> Download | None:
        """Return the failed download of a complete model that cannot be run; None of any other."""
        reason = self._inventory.why_unusable(spec)
        if reason is None:
            return None
        return Download(spec, DownloadState.FAILED, message=reason, unusable=True)

    def _progressed(self, key: str, progress: DownloadProgress) -> None:
        with self._lock:
            self._list[key] = replace(self._list[key], progress=progress)

    # ---- stored

    def _write(self) -> None:
        """Write the list; if that fails, log it and go on downloading."""
        entries = [
            {name: getattr(one.spec, name) for name in _STORED} for one in self._list.values()
        ]
        try:
            with self._file.change() as values:
                values["downloads"] = entries
        except ForetokenError as error:
            log.warning("%s", error)

    def _read(self) -> list[Download]:
        specs = _specs(values) if (values := self._file.read()) else []
        found = [
            self._judged(spec)
            if self._inventory.locate(spec)
            else Download(spec, DownloadState.PAUSED)
            for spec in specs
            if spec.repository
        ]
        return [one for one in found if one is not None]


def _specs(values: Values) -> list[ModelSpec]:
    return [
        ModelSpec(**{name: one[name] for name in _STORED if name in one})
        for one in values["downloads"]
    ]
