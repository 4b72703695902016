"""What the pages, the API and the command line share: one engine, one catalog, one data folder."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from app import paths
from engine.errors import ForetokenError
from engine.loading import hub
from engine.loading.catalog import Catalog, ModelSpec, open_catalog
from engine.loading.hub import Progress
from engine.models.checkpoints.checkpoint import AUTO

if TYPE_CHECKING:  # it brings torch, which `foretoken --help` can do without
    from engine.local.service import EngineService, Loaded

logger = logging.getLogger(__name__)

OnProgress = Callable[[Progress], None]


class OpeningState(StrEnum):
    """How far opening a pair has come."""

    IDLE = "idle"
    WORKING = "working"
    READY = "ready"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class OpeningStatus:
    """What to tell people about the pair being opened. ``progress`` is a download's, if any.

    ``pair`` is what ``Catalog.resolve`` takes, ``name`` what people call it.
    """

    state: OpeningState = OpeningState.IDLE
    pair: str = ""
    message: str = ""
    progress: Progress | None = None
    name: str = ""

    @property
    def title(self) -> str:
        return self.name or self.pair


class Opening:
    """The state of opening a pair in the background; any thread may look at ``status``."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._status = OpeningStatus()
        self._ready = ""

    @property
    def shown(self) -> str:
        """The pair for pickers to show: the one being opened, else the one opened last, if any."""
        with self._lock:
            working = self._status.state is OpeningState.WORKING
            return self._status.pair if working else self._ready

    @property
    def status(self) -> OpeningStatus:
        with self._lock:
            return self._status

    def tell(self, status: OpeningStatus) -> None:
        with self._lock:
            self._status = status
            if status.state is OpeningState.READY:
                self._ready = status.pair


@dataclass(slots=True)
class Runtime:
    """One running app. ``ending`` holds what else is to be closed with it."""

    service: EngineService
    catalog: Catalog
    data_dir: Path
    opening: Opening = field(default_factory=Opening)
    ending: ExitStack = field(default_factory=ExitStack)

    def read_catalog_again(self) -> None:
        """Something was added to the user's own catalog: replaces ``catalog``."""
        self.catalog = read_catalog(self.data_dir)

    def close(self) -> None:
        """Close what was added, stop the engine's thread and free the models."""
        self.ending.close()
        self.service.close()


def read_catalog(data_dir: Path) -> Catalog:
    """The shipped catalog and the user's additions; a broken file is told and left out."""
    catalog = open_catalog(paths.catalog_file(), paths.own_catalog(data_dir))
    for problem in catalog.problems:
        logger.warning("%s", problem)
    return catalog


def create_runtime(data_dir: Path, threads: int | None = None) -> Runtime:
    """Start an engine without a model. ``data_dir`` must exist; ``threads`` as ``EngineService``."""
    from engine.local.service import EngineService

    catalog = read_catalog(data_dir)
    return Runtime(EngineService(paths.remembered(data_dir), threads), catalog, data_dir)


def open_pair(
    service: EngineService,
    catalog: Catalog,
    text: str,
    on_progress: OnProgress | None = None,
    cancelled: Callable[[], bool] = lambda: False,
    dtype: str = AUTO,
    kv_cache_dtype: str = AUTO,
) -> Loaded:
    """Resolve ``text`` (see ``Catalog.resolve``), fetch what is not on disk, load. Blocks.

    ``dtype`` auto is the catalog's choice for the target, if it has one; so is ``kv_cache_dtype``, where
    this machine has what the catalog chose. Raises ``ForetokenError``; the pair that was loaded before
    then stays loaded.
    """
    from engine.loading.plan import preferred_kv_cache

    pairing = catalog.resolve(text, hub.locate)
    if dtype == AUTO:
        dtype = pairing.target.quantization
    target = fetch(pairing.target, on_progress, cancelled)
    draft = fetch(pairing.draft, on_progress, cancelled) if pairing.draft is not None else None
    if kv_cache_dtype == AUTO:
        kv_cache_dtype = preferred_kv_cache(target, dtype, pairing.target.kv_cache_dtype)
    return service.load(
        target,
        draft,
        name=pairing.name,
        dtype=dtype,
        heads=pairing.heads,
        kv_cache_dtype=kv_cache_dtype,
    )


def fetch(
    spec: ModelSpec,
    on_progress: OnProgress | None = None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Path:
    """The model's folder, downloaded if it is not on disk."""
    found = hub.locate(spec)
    if found is not None:
        return found
    return hub.download(spec, on_progress=on_progress or _ignore, cancelled=cancelled)


def open_in_background(
    runtime: Runtime, text: str, dtype: str = AUTO, kv_cache_dtype: str = AUTO
) -> threading.Thread:
    """Open a pair while the page is already there; ``runtime.opening`` tells how it goes."""

    def work() -> None:
        tell = runtime.opening.tell

        def on_progress(progress: Progress) -> None:
            tell(OpeningStatus(OpeningState.WORKING, text, "Downloading", progress))

        try:
            loaded = open_pair(
                runtime.service,
                runtime.catalog,
                text,
                on_progress,
                dtype=dtype,
                kv_cache_dtype=kv_cache_dtype,
            )
        except ForetokenError as error:
            tell(OpeningStatus(OpeningState.FAILED, text, str(error)))
            logger.error("%s", error)
        except Exception as error:  # a thread's error would otherwise vanish, and "Loading" stay
            message = f"{text} could not be opened: {error!r}. The terminal has the details."
            tell(OpeningStatus(OpeningState.FAILED, text, message))
            logger.exception("%s could not be opened", text)
        else:
            tell(OpeningStatus(OpeningState.READY, text, f"{loaded.name} is ready"))

    runtime.opening.tell(OpeningStatus(OpeningState.WORKING, text, "Loading"))
    thread = threading.Thread(target=work, name="open-pair", daemon=True)
    thread.start()
    return thread


def _ignore(progress: Progress) -> None:
    pass
