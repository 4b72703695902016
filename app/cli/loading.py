"""Opening a pair for a command: its progress on the terminal, and a clean end."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

from app.cli.drafting import check_needs, use_drafts
from engine.errors import InvalidRequest

if TYPE_CHECKING:
    from engine.api import DownloadProgress, Engine, LoadProgress, LoadRequest
    from engine.loading.inventory import Inventory, PairFiles
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
        """``log``: where there is no terminal, print a line for each step, and again each ``LINE_S``."""
        self._width, self._log = 0, log
        self._step, self._printed_at = "", 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.say("")

    def say(self, text: str, step: str = "") -> None:
        """Replace the line. ``step`` names what is done, if ``text`` also says how far it is."""
        if sys.stderr.isatty():
            end = "\r" if not text else ""
            print(f"\r{text.ljust(self._width)}", end=end, file=sys.stderr, flush=True)
            self._width = len(text)
        elif self._log and text:
            step, now = step or text, time.monotonic()
            if step != self._step or now - self._printed_at >= LINE_S:
                self._step, self._printed_at = step, now
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
    """Return a download's size, speed and remaining time in one line."""
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
    """Return the files of the requested pair; download those that are not on the disk yet.

    Raises CatalogError, ModelError, IncompatiblePair or DownloadError.
    """
    from app.inventory import open_inventory

    return open_inventory(data_dir).download_pair(request, status.on_progress)


def by_files(load: LoadRequest, data_dir: Path, status: Status) -> LoadRequest:
    """Return the request with paths in place of names, for other engines; download missing files."""
    from engine.api import AUTO

    files = fetched(load, data_dir, status)
    default = files.pairing.target.quantization
    return replace(
        load,
        target=str(files.target.resolve()),
        draft="" if files.draft is None else str(files.draft.resolve()),
        heads=tuple(map(str, files.pairing.heads)),
        quantization=default if load.quantization == AUTO else load.quantization,
    )


@cache
def with_default_draft(request: LoadRequest, data_dir: Path, *proposers: str | None) -> LoadRequest:
    """Return ``request`` with the draft that suits its target best, where none is named and one of
    ``proposers`` may use it (None: the pair's default may). Raises CatalogError or ModelError."""
    from app.inventory import open_inventory

    if request.draft is not None or not use_drafts(proposers):
        return request
    inventory = open_inventory(data_dir)
    chosen = inventory.with_best_draft(request)
    if chosen.draft:
        print(
            f"Note: {inventory.spec(chosen.draft).name} is loaded as the draft, the best "
            f"one on this machine. For none: --pair {request.target}::",
            file=sys.stderr,
        )
    return chosen


def check_loads(data_dir: Path, *loads: tuple[LoadRequest, str | None], here: bool = False) -> None:
    """Check loads and their proposers, as far as possible before anything is downloaded or loaded.
    ``here``: refuse servers.

    Raises CatalogError, ModelError, IncompatiblePair or InvalidRequest.
    """
    from app.inventory import open_inventory

    inventory = open_inventory(data_dir)
    for request, proposer in loads:
        if here:
            _check_here(request, inventory)
        check_needs((proposer,), inventory.named(with_default_draft(request, data_dir, proposer)))


def _check_here(request: LoadRequest, inventory: Inventory) -> None:
    if inventory.named(request).target.address:
        raise InvalidRequest(
            "pair",
            f"{request.text} is a server, and this needs a model on this machine. Servers "
            "work with `foretoken chat`, `foretoken race` and `foretoken bench sweep`.",
        )


@contextlib.contextmanager
def open_for_command(
    request: LoadRequest, data_dir: Path, *proposers: str | None
) -> Iterator[SwitchingEngine]:
    """Load a pair, here or on a server, and yield its engine; close it at the end.

    Raises InvalidRequest before anything is loaded if one of ``proposers`` needs more than the pair
    has.
    """
    from app.inventory import open_inventory
    from engine.switching import SwitchingEngine

    inventory = open_inventory(data_dir)
    with _opened(SwitchingEngine, request, inventory, data_dir, proposers) as engine:
        yield engine


@contextlib.contextmanager
def open_here(
    request: LoadRequest, data_dir: Path, *proposers: str | None, log: bool = False
) -> Iterator[LocalEngine]:
    """Do the same on this machine, for what the interface of ``Engine`` does not measure. Raises
    InvalidRequest for a server too. ``log``: see ``Status``."""
    from app.inventory import open_inventory
    from engine.local.engine import LocalEngine

    inventory = open_inventory(data_dir)
    _check_here(request, inventory)
    with _opened(LocalEngine, request, inventory, data_dir, proposers, log) as engine:
        yield engine


@contextlib.contextmanager
def _opened(
    kind: Callable[..., E],
    request: LoadRequest,
    inventory: Inventory,
    data_dir: Path,
    proposers: Sequence[str | None],
    log: bool = False,
) -> Iterator[E]:
    from app import paths

    request = with_default_draft(request, data_dir, *proposers)
    check_needs(proposers, inventory.named(request))
    engine = kind(
        lambda: inventory.catalog,
        models=inventory.models,
        remembered=paths.remembered(data_dir),
        measured=paths.measured(data_dir),
    )
    with contextlib.closing(engine):
        _load(engine, request, inventory, Status(log=log))
        yield engine


def _load(engine: Engine, request: LoadRequest, inventory: Inventory, status: Status) -> None:
    elsewhere = bool(inventory.named(request).target.address)
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
    text = "Compiling the kernels for this processor (once; may take minutes) ..."
    problem = compile_first(lambda: devices.choose(request.device), lambda: status.say(text))
    if problem is not None:
        print(f"Note: {problem}", file=sys.stderr)
