"""Opening a pair for a command: its progress on the terminal, and a clean end."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

from app.cli.drafting import check_needs, use_drafts
from engine.errors import InvalidRequest, ModelError, OutOfMemory

if TYPE_CHECKING:
    from engine.api import DownloadProgress, Engine, LoadProgress, LoadRequest
    from engine.loading.catalog import Catalog
    from engine.loading.files import PairFiles
    from engine.local.engine import LocalEngine
    from engine.switching import SwitchingEngine

E = TypeVar("E", bound="Engine")


LINE_S = 15.0
"""Seconds between two lines of a log about one step."""


class Status:
    """One changing line on standard error, where that is a terminal; elsewhere silence, or a log.

    An ``engine.api.Watcher``; Ctrl-C is what cancels here.
    """

    cancelled = False

    def __init__(self, *, log: bool = False) -> None:
        """``log``: print a line for each step, and each ``LINE_S`` of one, where there is no terminal."""
        self._width, self._log = 0, log
        self._step, self._told = "", 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.say("")

    def say(self, text: str, step: str = "") -> None:
        """Replace the line. ``step``: what is done, where the text says how far too."""
        if sys.stderr.isatty():
            end = "\r" if not text else ""
            print(f"\r{text.ljust(self._width)}", end=end, file=sys.stderr, flush=True)
            self._width = len(text)
        elif self._log and text:
            step, now = step or text, time.monotonic()
            if step != self._step or now - self._told >= LINE_S:
                self._step, self._told = step, now
                print(text, file=sys.stderr, flush=True)

    def on_progress(self, progress: DownloadProgress) -> None:
        """Show how far a download has come."""
        self.say(describe(progress), progress.repository)

    def on_loading(self, progress: LoadProgress) -> None:
        """Show what is done, and how far it is."""
        from app.loading import STAGES

        share = "" if progress.fraction is None else f", {progress.fraction:.0%}"
        self.say(f"Loading: {STAGES[progress.stage]}{share}", progress.stage)


def describe(progress: DownloadProgress) -> str:
    """A download in one line: how much, how fast, how long still."""
    from engine.values.units import format_bytes

    text = (
        f"Downloading {progress.repository}: {format_bytes(progress.bytes)} of "
        f"{format_bytes(progress.total)}, {format_bytes(int(progress.bytes_per_s))}/s"
    )
    if progress.eta_s is None:
        return text
    minutes, seconds = divmod(round(progress.eta_s), 60)
    return f"{text}, {minutes}:{seconds:02} left"


def fetched(request: LoadRequest, data_dir: Path, status: Status) -> PairFiles:
    """The files of what is asked for, downloaded where they are not on the disk yet.

    Raises CatalogError, ModelError, IncompatiblePair or DownloadError.
    """
    from app.runtime import read_catalog
    from engine.loading import hub
    from engine.loading.files import fetch_pair

    models = hub.models_folder(data_dir)
    return fetch_pair(request, read_catalog(data_dir), models, status.on_progress)


@cache
def settled(request: LoadRequest, data_dir: Path, *proposers: str | None) -> LoadRequest:
    """Return ``request`` with the draft that suits its target best, where none is named and one of
    ``proposers`` may use it (None: the pair's default may). Raises CatalogError or ModelError."""
    from app.inventory.model_folders import searched
    from app.runtime import read_catalog
    from engine.loading import hub
    from engine.loading.discovery import System, with_best_draft

    if request.draft is not None or not use_drafts(proposers):
        return request
    models = hub.models_folder(data_dir)
    locate = partial(hub.locate, models=models)
    folders = (models, *searched(data_dir))
    catalog = read_catalog(data_dir)
    found = with_best_draft(request, catalog, locate, System.current(), folders)
    if found.draft:
        print(
            f"Note: {catalog.spec(found.draft).name} is loaded as the draft, as the best that fits here. "
            f"To load none: --pair {request.target}::",
            file=sys.stderr,
        )
    return found


def check_loads(data_dir: Path, *asked: tuple[LoadRequest, str | None], here: bool = False) -> None:
    """What is wrong with loads and the proposers they are for, as far as that can be known before
    anything is downloaded or loaded. ``here``: only a model on this machine will do.

    Raises CatalogError, ModelError, IncompatiblePair or InvalidRequest.
    """
    from app.runtime import read_catalog

    catalog = read_catalog(data_dir)
    for request, proposer in asked:
        if here:
            _check_here(request, catalog)
        check_needs((proposer,), catalog.named(settled(request, data_dir, proposer)))


def check_room(data_dir: Path, *requests: LoadRequest) -> None:
    """Whether pairs fit into memory beside each other, at least with the shortest context, before any is
    loaded. Servers take none, and of what is not here yet nothing may be known. Raises OutOfMemory."""
    from app.runtime import read_catalog
    from engine.loading import hub
    from engine.loading.planning import fit
    from engine.loading.planning.forecast import forecast
    from engine.values.units import format_bytes

    catalog = read_catalog(data_dir)
    locate = partial(hub.locate, models=hub.models_folder(data_dir))
    rooms = []
    for request in requests:
        with contextlib.suppress(ModelError):  # told when it is loaded, if it is one then
            pairing = catalog.resolve(request, locate)
            rooms.append(forecast(pairing, request, locate, fit.SHORTEST_CONTEXT).room)
    if len(rooms) < 2:
        return
    needed = sum(room.weights + room.kv for room in rooms) + max(room.work for room in rooms)
    free = min(room.free for room in rooms)
    if needed > free:
        names = " and ".join(model.name for room in rooms for model in room.models)
        raise OutOfMemory(
            f"{names} need {format_bytes(needed)} at once, with {fit.SHORTEST_CONTEXT} tokens of context "
            f"each; {format_bytes(free)} are free. Choose smaller ones, or close other programs."
        )


def _check_here(request: LoadRequest, catalog: Catalog) -> None:
    if catalog.named(request).target.address:
        raise InvalidRequest(
            "pair",
            f"{request.text} is a server, and this needs a model on this machine. `foretoken race`, "
            "`foretoken chat` and `foretoken bench sweep` work with servers.",
        )


@contextlib.contextmanager
def open_for_command(
    request: LoadRequest, data_dir: Path, *proposers: str | None
) -> Iterator[SwitchingEngine]:
    """An engine with what is asked for loaded, here or on a server, closed again at the end.

    Raises InvalidRequest before anything is loaded where one of ``proposers`` needs more than that.
    """
    from app.runtime import read_catalog
    from engine.switching import SwitchingEngine

    catalog = read_catalog(data_dir)
    with _opened(SwitchingEngine, request, catalog, data_dir, proposers) as engine:
        yield engine


@contextlib.contextmanager
def open_here(
    request: LoadRequest, data_dir: Path, *proposers: str | None, log: bool = False
) -> Iterator[LocalEngine]:
    """The same on this machine, for what measures more than the door shows. Raises InvalidRequest for a
    server too. ``log`` as for ``Status``."""
    from app.runtime import read_catalog
    from engine.local.engine import LocalEngine

    catalog = read_catalog(data_dir)
    _check_here(request, catalog)
    with _opened(LocalEngine, request, catalog, data_dir, proposers, log) as engine:
        yield engine


@contextlib.contextmanager
def _opened(
    kind: Callable[..., E],
    request: LoadRequest,
    catalog: Catalog,
    data_dir: Path,
    proposers: Sequence[str | None],
    log: bool = False,
) -> Iterator[E]:
    from app import paths
    from engine.loading import hub

    request = settled(request, data_dir, *proposers)
    check_needs(proposers, catalog.named(request))
    made = kind(
        lambda: catalog,
        models=hub.models_folder(data_dir),
        remembered=paths.remembered(data_dir),
        measured=paths.measured(data_dir),
    )
    with contextlib.closing(made) as engine:
        _load(engine, request, catalog, Status(log=log))
        yield engine


def _load(engine: Engine, request: LoadRequest, catalog: Catalog, status: Status) -> None:
    elsewhere = bool(catalog.named(request).target.address)
    with status:
        if not elsewhere:
            compile_before(request, status)
        status.say(f"{'Connecting to' if elsewhere else 'Loading'} {request.text} ...")
        loaded = engine.load(request, status)
    for note in loaded.notes:
        print(f"Note: {note}", file=sys.stderr)


def compile_before(request: LoadRequest, status: Status) -> None:
    """Build the compiled step first: a command should not run half with and half without it."""
    from engine.loading.compile_first import compile_first
    from engine.machine import devices

    if not request.native:
        return
    said = "Compiling the decoder for this processor, once; it may take minutes ..."
    why = compile_first(lambda: devices.choose(request.device), lambda: status.say(said))
    if why is not None:
        print(f"Note: {why}", file=sys.stderr)
