"""Load pairs on a thread, one at a time; a load can be watched and cancelled. Unload those that nobody
asks for."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum

from engine.api import DownloadProgress, Engine, Loaded, LoadProgress, LoadRequest, Stage
from engine.errors import (
    DownloadCancelled,
    ForetokenError,
    InvalidRequest,
    LoadCancelled,
)
from engine.loading.inventory import Inventory

logger = logging.getLogger(__name__)

LOADING, DOWNLOADING = "Loading", "Downloading"
WAITING = "Waiting for the reply, then loading"
STAGES = {
    Stage.CONNECTING: "asking the server",
    Stage.COMPILING: "compiling for this processor (once; may take minutes)",
    Stage.WAITING: "starts after the current reply",
    Stage.CHECKING: "reading the files",
    Stage.TARGET: "reading the target's weights",
    Stage.TRYING: "testing the GPU's kernels (once for a model)",
    Stage.TOKENIZER: "building the tokenizer",
    Stage.DRAFT: "reading the draft's weights",
    Stage.FINISHING: "getting ready",
    Stage.CAPTURING: "preparing the GPU (the first time compiles its kernels)",
}
BUSY = "Another model is loading. Wait, or cancel it first."


class LoadState(StrEnum):
    """State of the last load."""

    IDLE = "idle"
    WORKING = "working"
    READY = "ready"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class LoadStatus:
    """The state of the last load.

    ``name`` is the pair's name for people; ``target_id`` and ``draft_id`` as in ``Loaded``. ``progress``
    is of the download, or of reading the files. ``cancelling``: it was cancelled and has not ended yet.
    ``note``: why the pair was loaded in place of another.
    """

    state: LoadState = LoadState.IDLE
    name: str = ""
    target_id: str = ""
    draft_id: str | None = None
    message: str = ""
    progress: DownloadProgress | LoadProgress | None = None
    cancelling: bool = False
    note: str = ""


class PairLoader:
    """Loads pairs into an engine on a thread."""

    def __init__(
        self,
        engine: Engine,
        inventory: Callable[[], Inventory],
        loaded: Callable[[LoadRequest], None],
    ) -> None:
        """``loaded`` is called with each request of a user that was loaded."""
        self._engine, self._inventory, self._when_loaded = engine, inventory, loaded
        self.chosen: Loaded | None = None
        """The last pair that the user chose, unlike those that requests of the API named."""
        self.unloaded: Loaded | None = None
        """The pair whose memory was freed, also on a GPU for a load that failed, until another one is
        loaded."""
        self.kept: dict[LoadRequest, float | None] = {}
        """Minutes until a pair in memory is unloaded, where a request said so; None: never."""
        self.ended = 0
        """Counts loads that ended: one may begin and end between two looks at ``status``."""
        self._lock = threading.Lock()
        self._status = LoadStatus()
        self._watcher = _Watcher(self, self._status)

    @property
    def status(self) -> LoadStatus:
        with self._lock:
            return self._status

    @property
    def working(self) -> bool:
        """True while a pair is being loaded."""
        return self.status.state is LoadState.WORKING

    @property
    def shown(self) -> tuple[str | None, str]:
        """Target and draft for pickers to show: of the pair that is being loaded, else of the loaded one.

        A target None: there is nothing; a draft "": the pair has none.
        """
        status = self.status
        if status.state is LoadState.WORKING:
            return status.target_id, status.draft_id or ""
        loaded = self._engine.loaded
        return (None, "") if loaded is None else (loaded.target_id, loaded.draft_id or "")

    def start(
        self,
        request: LoadRequest,
        undo: Callable[[], None] = lambda: None,
        then: Callable[[], None] = lambda: None,
        note: str = "",
        *,
        chosen: bool = True,
    ) -> threading.Thread:
        """Load a pair on a thread; ``status`` shows the progress. ``undo`` is called if that fails,
        ``then`` once the pair is loaded, before the status shows it; ``note`` stays in the status.
        ``chosen``: whether the user chose it. Raises ForetokenError for errors that are known at once: an
        unknown name, a broken folder, another load in progress."""
        status = replace(self._named(request), note=note)
        with self._lock:
            if self._status.state is LoadState.WORKING:
                raise InvalidRequest("pair", BUSY)
            self._status = status
            watcher = self._watcher = _Watcher(self, status)
        thread = threading.Thread(
            target=self._work,
            args=(request, watcher, undo, then, chosen),
            name="load-pair",
            daemon=True,
        )
        thread.start()
        return thread

    def unload(self, pair: Loaded | None = None) -> None:
        """Free the memory of ``pair``, after the requests that wait. Blocks. By default it is that of the
        loaded one, which the pages show; ``load_again`` loads this one. Raises InvalidRequest for the
        default while another pair is being loaded."""
        if pair is None and self.working:
            raise InvalidRequest("pair", BUSY)
        loaded = self._engine.loaded
        pair = pair or loaded
        if pair is None:
            return
        if loaded is not None and loaded.request == pair.request:
            self.unloaded = loaded
        self._engine.unload(pair)
        self.kept.pop(pair.request, None)

    def load_again(self) -> bool:
        """Start to load the pair that was unloaded, if nothing is loaded. Return whether a load runs."""
        before = self.unloaded
        if before is not None and self._engine.loaded is None and not self.working:
            with suppress(InvalidRequest):  # another thread was faster
                self.start(before.request, chosen=False)
        return self.working

    def _named(self, request: LoadRequest) -> LoadStatus:
        """Return the first status of a load of ``request``. Raises as ``start``."""
        pairing = self._inventory().named(request)
        draft = None if pairing.draft is None else pairing.draft.id
        return LoadStatus(LoadState.WORKING, pairing.name, pairing.target.id, draft, LOADING)

    def cancel(self) -> None:
        """Cancel a load at its next step, or at once if it waits for a reply. What was downloaded stays,
        and so does the loaded pair, or the next message loads it again: see ``unloaded``."""
        self._watcher.cancelled = True
        with self._lock:
            status = self._status
            if status.state is not LoadState.WORKING:
                return
            if isinstance(status.progress, LoadProgress) and status.progress.stage is Stage.WAITING:
                # It ends after the reply; nobody waits for that any more.
                self._watcher = _Watcher(self, LoadStatus())
                self._status = replace(status, state=LoadState.IDLE, message="", progress=None)
            else:
                self._status = replace(status, cancelling=True)

    def tell(self, status: LoadStatus, watcher: _Watcher) -> None:
        """Replace the status, unless it belongs to a load that was cancelled."""
        with self._lock:
            if watcher is self._watcher:
                self._status = status

    def _work(
        self,
        request: LoadRequest,
        watcher: _Watcher,
        undo: Callable[[], None],
        then: Callable[[], None],
        chosen: bool,
    ) -> None:
        def tell(status: LoadStatus) -> None:
            self.tell(status, watcher)

        end, before = replace(watcher.status, message=""), self._engine.loaded
        try:
            try:
                request = self._inventory().with_best_draft(request)
                end = replace(self._named(request), message="", note=end.note)
                watcher.status = replace(end, state=LoadState.WORKING, message=LOADING)
                loaded = self._engine.load(request, watcher)
                self.unloaded = None
                self.kept.pop(loaded.request, None)
            except Exception:
                if self._engine.loaded is None:
                    self.unloaded = before or self.unloaded
                undo()
                raise
            if chosen:
                self.chosen = loaded
            if chosen and not end.note:  # with a note the other one stays what was loaded last
                self._when_loaded(request)
            then()
        except (DownloadCancelled, LoadCancelled):
            tell(replace(end, state=LoadState.IDLE))
        except ForetokenError as error:
            tell(replace(end, state=LoadState.FAILED, message=str(error)))
            logger.error("%s", error)
        except Exception as error:  # a thread's error would otherwise vanish, and "Loading" stay
            message = (
                f"{end.name} could not be loaded: {error!r}. Diagnostics on the Settings "
                "page shows the details."
            )
            tell(replace(end, state=LoadState.FAILED, message=message))
            logger.exception("%s could not be loaded", end.name)
        else:
            tell(replace(end, state=LoadState.READY, name=loaded.name))
        self.ended += 1


class _Watcher:
    """Report one load to its loader."""

    def __init__(self, loader: PairLoader, status: LoadStatus) -> None:
        self.cancelled = False
        self.status = status
        self._loader = loader

    def on_progress(self, progress: DownloadProgress) -> None:
        """Report a download; once it is complete, loading."""
        arrived = progress.bytes >= progress.total
        self._tell(LOADING if arrived else DOWNLOADING, None if arrived else progress)

    def on_loading(self, progress: LoadProgress) -> None:
        """Report the progress of reading files."""
        self._tell(WAITING if progress.stage is Stage.WAITING else LOADING, progress)

    def _tell(self, message: str, progress: DownloadProgress | LoadProgress | None) -> None:
        self._loader.tell(
            replace(self.status, message=message, progress=progress, cancelling=self.cancelled),
            self,
        )


_SHORTEST_WAIT_S, _LONGEST_WAIT_S = 0.05, 5.0
"""Seconds between two looks. Nobody tells when a pair is loaded, so they are never far apart."""


class IdleUnloading:
    """Unloads a pair after ``minutes`` without requests for it; None: never. Any thread may set them."""

    def __init__(self, engine: Engine, loader: PairLoader) -> None:
        self._engine, self._loader = engine, loader
        self._closed, self._changed = False, threading.Event()
        self._used = time.monotonic()
        self._thread: threading.Thread | None = None
        self._minutes: float | None = None
        self._watchers: list[Callable[[], None]] = []

    @property
    def minutes(self) -> float | None:
        return self._minutes

    @minutes.setter
    def minutes(self, minutes: float | None) -> None:
        self._minutes = minutes
        self._start(minutes)

    def keep(self, pair: Loaded, minutes: float | None) -> None:
        """Use another time for ``pair``, until it is unloaded or another time is set for it."""
        self._loader.kept[pair.request] = minutes
        self._start(minutes)

    def _start(self, minutes: float | None) -> None:
        self._changed.set()
        if minutes is not None and self._thread is None:
            self._thread = threading.Thread(target=self._work, name="unload when idle", daemon=True)
            self._thread.start()

    def left_s(self, pair: Loaded) -> float | None:
        """Return the seconds until ``pair`` is unloaded if nobody asks for it; None: it stays. Raises
        NotLoaded."""
        minutes = self._loader.kept.get(pair.request, self._minutes)
        if minutes is None or pair.server:
            return None
        return max(0.0, 60 * minutes - self._engine.of(pair).idle_s)

    @property
    def seconds(self) -> float:
        """Return the seconds since the last request."""
        return time.monotonic() - self._used

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call ``watcher`` at every request, before it is queued."""
        self._watchers.append(watcher)

    def touch(self) -> None:
        """Note a request."""
        self._used = time.monotonic()
        for watcher in self._watchers:
            watcher()

    def close(self) -> None:
        """End the thread."""
        self._closed = True
        self._changed.set()

    def _work(self) -> None:
        while not self._closed:
            self._changed.wait(self._looked())
            self._changed.clear()

    def _looked(self) -> float:
        """Unload what was not used for long enough; return the seconds until the next look."""
        wait = min(_LONGEST_WAIT_S, 15 * (self._minutes or 1))
        for pair in self._engine.resident:
            with suppress(ForetokenError):  # it was unloaded or replaced just now
                left = self.left_s(pair)
                if left == 0:
                    self._loader.unload(pair)
                elif left is not None:
                    wait = min(wait, left)
        return max(_SHORTEST_WAIT_S, wait)
